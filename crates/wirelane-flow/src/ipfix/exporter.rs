//! Sends flows to a collector, from a thread of its own: who adds them never waits for the network.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::collector::{Collector, Transport};
use super::encoder::Encoder;
use super::link::Link;
use super::sender::Sender;
use super::session::Session;
use super::shared::{Sent, Shared};
use crate::Flow;

/// What an exporter may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of messages that wait while the collector is away.
    pub spool: usize,
    /// How long a flow waits for others to fill a message.
    pub linger: Duration,
    /// How long [`Exporter::finish`] waits for a collector that is away.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { spool: 64 << 20, linger: seconds(1), patience: seconds(5) }
    }
}

/// The sending end; [`finish`](Self::finish) says what became of all flows.
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

/// Any link of IPv6 takes 1280 bytes (RFC 8200 section 5), and nearly any of IPv4; headers take 48. RFC 7011 section
/// 10.3.3 asks for 512 where the path is not known: that would be two flows.
const DATAGRAM: usize = 1232;

/// A message over TCP.
const SEGMENT: usize = 16_000;

impl Exporter {
    /// Starts to send to `collector`; it need not be there yet.
    ///
    /// # Errors
    /// The name of the collector cannot be resolved, or there is no thread.
    pub fn start(collector: &Collector, limits: Limits) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> =
            (collector.host.as_str(), collector.port).to_socket_addrs()?.collect();
        let (limit, refresh) = match collector.transport {
            Transport::Udp => (DATAGRAM, Some(collector.refresh)),
            Transport::Tcp => (SEGMENT, None),
        };
        let enterprise = collector.enterprise;
        let encoder = Encoder::new(limit, enterprise, collector.one_way);
        let shared = Arc::new(Shared::new(encoder, limits.spool));
        let sender = Sender::new(
            Arc::clone(&shared),
            Link::new(collector.transport, addresses),
            Session::new(collector.domain, enterprise, limit),
            refresh,
            limits.linger,
        );
        let thread = thread::Builder::new().name("ipfix".into()).spawn(move || sender.run())?;
        Ok(Self { shared, thread: Some(thread), patience: limits.patience })
    }

    /// Adds flows; what finds no room is counted.
    pub fn add(&self, flows: &[Flow]) {
        self.shared.add(flows);
    }

    /// What became of flows so far.
    pub fn sent(&self) -> Sent {
        self.shared.sent()
    }

    /// Sends what is left, for as long as [`Limits::patience`] says.
    pub fn finish(mut self) -> Sent {
        self.end();
        self.sent()
    }

    fn end(&mut self) {
        self.shared.close(self.patience);
        if let Some(thread) = self.thread.take() {
            // It ends by itself; if it panicked, what it counted still stands.
            let _ = thread.join();
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end();
    }
}
