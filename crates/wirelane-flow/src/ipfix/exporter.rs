//! Sends flows to a collector, from a thread of its own: who adds them never waits for the network.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use wirelane::{Error, Result, threads};

use super::collector::{Collector, Transport};
use super::encoder::Encoder;
use super::link::Link;
use super::sender::Sender;
use super::session::Session;
use super::shared::{Sent, Shared};
use crate::fitting;
use crate::flow::Flow;
use crate::sink::{Hurry, Sink};

/// What an exporter may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of messages that wait while the collector is away.
    pub spool: usize,
    /// How long a flow waits for others to fill a message.
    pub linger: Duration,
    /// Whether who adds flows waits for room, as long as the collector takes messages: for sources
    /// that wait, too.
    pub waits: bool,
    /// How long a collector that takes nothing is waited for once no more packets are received.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // The command ends within five seconds, other work included.
        let patience = Duration::from_millis(4_700);
        Self { spool: 64 << 20, linger: Duration::from_secs(1), waits: false, patience }
    }
}

/// The sending end: a [`Sink`].
#[derive(Debug)]
pub struct Exporter {
    to: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
    note: Option<String>,
}

/// Any link of IPv6 takes 1280 bytes (RFC 8200 section 5), and nearly any of IPv4; headers take 48.
/// RFC 7011 section 10.3.3 asks for 512 where the path is not known: that would be two flows.
const DATAGRAM: usize = 1232;

/// A message over TCP.
const SEGMENT: usize = 16_000;

impl Exporter {
    /// Starts to send to `collector`; it need not be there yet.
    ///
    /// # Errors
    /// The name of the collector cannot be resolved, or there is no thread.
    pub fn start(collector: &Collector, limits: Limits) -> Result<Self> {
        let place = (collector.host.as_str(), collector.port);
        let addresses: Vec<SocketAddr> = place
            .to_socket_addrs()
            .map_err(|error| Error::failed(format!("collector {collector}"), error.to_string()))?
            .collect();
        let (limit, refresh) = match collector.transport {
            Transport::Udp => (DATAGRAM, Some(collector.refresh)),
            Transport::Tcp => (SEGMENT, None),
        };
        let enterprise = collector.enterprise;
        let encoder = Encoder::new(limit, enterprise, collector.one_way);
        let (spool, note) = fitting::spool(limits.spool);
        let shared = Arc::new(Shared::new(encoder, spool, limits.waits));
        let sender = Sender::new(
            Arc::clone(&shared),
            Link::new(collector.transport, addresses, Arc::clone(&shared)),
            Session::new(collector.domain, enterprise, limit),
            refresh,
            limits.linger,
        );
        let thread = threads::spawn("wl-ipfix", move || sender.run())?;
        Ok(Self {
            to: collector.to_string(),
            shared,
            thread: Some(thread),
            patience: limits.patience,
            note,
        })
    }

    /// A sentence about memory that does not suffice for [`Limits::spool`].
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Says from elsewhere what becomes of the flows, also when the exporter is gone.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    fn end(&mut self) {
        self.shared.close(self.patience);
        if let Some(thread) = self.thread.take() {
            // It ends by itself; if it panicked, what it counted still stands.
            let _ = thread.join();
            self.shared.give_up();
        }
    }
}

impl Sink for Exporter {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.shared.add(flow);
        Ok(())
    }

    fn needs_ticks(&self) -> bool {
        false
    }

    fn hurry(&self) -> Option<Hurry> {
        let (shared, patience) = (Arc::clone(&self.shared), self.patience);
        Some(Arc::new(move || shared.hurry(patience)))
    }

    fn finish(&mut self) -> Result<()> {
        self.end();
        let sent = self.shared.sent();
        if sent.lost == 0 {
            return Ok(());
        }
        let all = sent.flows + sent.lost;
        let why = sent.last_failure.map_or(String::new(), |it| format!(": {it}"));
        let object = format!("collector {}", self.to);
        Err(Error::failed(object, format!("{} of {all} flows were not sent{why}", sent.lost)))
    }
}

/// See [`Exporter::watch`].
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// What became of flows so far.
    pub fn sent(&self) -> Sent {
        self.0.sent()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end();
    }
}
