//! The sending thread. It sends templates before data, repeats them over UDP, and reconnects after
//! a failure.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::collector::Transport;
use super::encoder::Message;
use super::link::CollectorLink;
use super::session::{ExporterStatistics, TransportSession};
use super::shared::{ExportQueue, SendStep};
use super::time::seconds_now;

/// The interval at which statistics of the exporter are sent.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The first and the longest pause between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

pub(super) struct SenderThread {
    shared: Arc<ExportQueue>,
    link: CollectorLink,
    session: TransportSession,
    /// The interval at which templates are sent again; `None` for once per connection.
    refresh: Option<Duration>,
    refreshed: Instant,
    linger: Duration,
    reported: Instant,
    pause: Duration,
    /// The last datagram: a later ICMP error refers to it.
    last: Option<Message>,
    /// Uncounted bytes of messages without flows.
    extra: usize,
}

impl SenderThread {
    pub(super) fn new(
        shared: Arc<ExportQueue>,
        link: CollectorLink,
        session: TransportSession,
        refresh: Option<Duration>,
        linger: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            shared,
            link,
            session,
            refresh,
            refreshed: now,
            linger,
            reported: now,
            pause: PAUSES[0],
            last: None,
            extra: 0,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            match self.shared.next(self.linger, self.reported + REPORT_EVERY) {
                SendStep::Send(message) => {
                    if !self.deliver(message) {
                        return;
                    }
                }
                SendStep::Idle => self.report(),
                SendStep::End => return self.report(),
            }
        }
    }

    /// Sends a message, or queues it again and waits. Returns false when the exporter gives up.
    fn deliver(&mut self, mut message: Message) -> bool {
        match self.send(&mut message) {
            Ok(octets) => {
                self.shared.count(&message, octets + std::mem::take(&mut self.extra));
                self.pause = PAUSES[0];
                if self.link.transport() == Transport::Udp {
                    self.last = Some(message);
                }
                if self.reported.elapsed() >= REPORT_EVERY {
                    self.report();
                }
                true
            }
            Err(error) => {
                self.link.close();
                let pause = self.pause;
                self.pause = (pause * 2).min(PAUSES[1]);
                // `put_back` inserts each message at the front, so the last one is sent first.
                let last = self.last.take().inspect(|last| self.shared.uncount(last));
                self.shared.put_back([Some(message), last], error.to_string(), pause)
            }
        }
    }

    fn send(&mut self, message: &mut Message) -> io::Result<usize> {
        let is_new = !self.link.is_open();
        if is_new {
            self.link.open()?;
            match self.link.transport() {
                Transport::Udp => self.session.refresh(),
                Transport::Tcp => self.session.restart(),
            }
        }
        if self.refresh.is_some_and(|every| self.refreshed.elapsed() >= every) {
            self.session.refresh();
            self.refreshed = Instant::now();
        }
        let now = seconds_now();
        let mut octets = 0;
        for templates in self.session.templates(message, now) {
            self.link.send(&templates)?;
            octets += templates.len();
        }
        if is_new {
            self.link.wait_for_refusal()?;
        }
        self.session.seal(message, now);
        self.link.send(&message.bytes)?;
        Ok(octets + message.bytes.len())
    }

    /// Sends statistics to the collector. Ignores errors: the next message detects a broken
    /// connection.
    fn report(&mut self) {
        self.reported = Instant::now();
        if !self.link.is_open() {
            return;
        }
        let sent = self.shared.sent();
        let (not_sent_packets, not_sent_octets) = self.shared.lost();
        let report = ExporterStatistics {
            messages: sent.messages,
            flows: sent.flows,
            octets: sent.octets,
            not_sent_flows: sent.lost,
            not_sent_packets,
            not_sent_octets,
        };
        for message in self.session.report(&report, seconds_now()) {
            if self.link.send(&message).is_ok() {
                self.extra += message.len();
            }
        }
    }
}
