//! Sends flows to a collector from a separate thread, so that adding a flow does not wait for the
//! network.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use wirelane::internal::threads;
use wirelane::{Error, Result};

use super::collector::{Collector, Transport};
use super::encoder::Encoder;
use super::link::CollectorLink;
use super::sender::SenderThread;
use super::session::TransportSession;
use super::shared::{ExportQueue, Sent};
use crate::fitting;
use crate::flow::Flow;
use crate::sink::{Hurry, Sink};

/// Limits of an exporter. Each field has a setter of the same name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The most bytes of queued messages while the collector is unreachable.
    pub spool: usize,
    /// How long a flow waits for more flows to fill its message.
    pub linger: Duration,
    /// Whether [`Sink::add`] waits for room while the collector accepts messages. For sources that
    /// do not lose packets when they wait.
    pub waits: bool,
    /// How long to wait for the collector after the last packet.
    pub patience: Duration,
}

wirelane_wire::setters!(Limits:
    linger: Duration,
    waits: bool,
    patience: Duration;
    spool: usize,
);

impl Default for Limits {
    fn default() -> Self {
        // The command must end within five seconds, including other work.
        let patience = Duration::from_millis(4_700);
        Self { spool: 64 << 20, linger: Duration::from_secs(1), waits: false, patience }
    }
}

/// A [`Sink`] that sends flows to a collector.
#[derive(Debug)]
pub struct Exporter {
    to: String,
    shared: Arc<ExportQueue>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
    note: Option<String>,
}

/// The size of datagrams: every IPv6 link and nearly every IPv4 link supports 1280 bytes (RFC 8200
/// section 5), minus 48 bytes of headers. RFC 7011 section 10.3.3 recommends 512 bytes for an
/// unknown path, but that is only two flows.
const DATAGRAM: usize = 1232;

/// The size of a message over TCP.
const SEGMENT: usize = 16_000;

impl Exporter {
    /// Starts to send to `collector`, which may become reachable later.
    ///
    /// # Errors
    /// The name of the collector cannot be resolved, or the thread cannot be started.
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
        let shared = Arc::new(ExportQueue::new(encoder, spool, limits.waits));
        let sender = SenderThread::new(
            Arc::clone(&shared),
            CollectorLink::new(collector.transport, addresses, Arc::clone(&shared)),
            TransportSession::new(collector.domain, enterprise, limit),
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

    /// A note if memory does not suffice for [`Limits::spool`].
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// A handle to read the counts from any thread, even after the exporter is dropped.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
    }

    fn end(&mut self) {
        self.shared.close(self.patience);
        if let Some(thread) = self.thread.take() {
            // The thread ends by itself. If it panicked, its counts remain valid.
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

/// A handle to the counts of an exporter, from [`Exporter::watch`].
#[derive(Clone, Debug)]
pub struct Watch(Arc<ExportQueue>);

impl Watch {
    /// The counts so far.
    pub fn sent(&self) -> Sent {
        self.0.sent()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end();
    }
}
