//! A receiver under test: a port that counts packets and, on request, records their ages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use wirelane_os::clock;

use wirelane::error::{Error, Result};
use wirelane::frame::{Batch, Frame};
use wirelane::internal::stats::RxCounters;
use wirelane::internal::threads::Crew;
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::pipeline;
use wirelane::placement::Placement;
use wirelane::port::{OpenOptions, Port, Rx, Spec, Take};
use wirelane_lab::Site;
use wirelane_send::kernel::STAMP_BYTES;

use crate::suites::bed;
use crate::suites::sockets::loops::join;

/// An idle thread checks this often whether to end.
const PATIENCE: Duration = Duration::from_millis(10);
/// A time longer than any ring delays a packet (50 ms, see `packet:`).
const QUIET: Duration = Duration::from_millis(120);

/// The source of a packet's creation time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The last bytes of the packet: the sender's monotonic clock.
    InPacket,
    /// The time when the packet was due on the simulated interface.
    OfPort,
}

/// Orders to the threads; any other number is the index of a histogram.
const COUNT: u8 = u8::MAX;
const END: u8 = u8::MAX - 1;

/// An open port with a thread per queue.
pub(super) struct PortReceiver {
    port: Port,
    crew: Crew<Result<Vec<Histogram<u64>>>>,
    baton: Arc<AtomicU8>,
    rx: Vec<Arc<RxCounters>>,
}

impl PortReceiver {
    /// Opens `spec`, at a site if there is one, with `histograms` for ages. The user's port takes
    /// from the host what `Take` permits; other ports take all packets.
    ///
    /// # Errors
    /// The port cannot be opened, or has no queue.
    pub(super) fn start(
        spec: &Spec,
        at: Option<(&Site, Option<Take>)>,
        placement: &Placement,
        stamp: Stamp,
        histograms: usize,
    ) -> Result<Self> {
        let (site, take) = at.unzip();
        let take = take.flatten();
        let options = OpenOptions::default()
            .take(take.unwrap_or(Take::AllAndManagement))
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .placement(placement.clone());
        let mut port = bed::open(site, spec, &options)?;
        let queues = port.rx()?;
        if queues.is_empty() {
            return Err(Error::failed(format!("port '{spec}'"), "has no queue to receive from"));
        }
        let rx = queues.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let baton = Arc::new(AtomicU8::new(COUNT));
        let jobs = queues.into_iter().enumerate().map(|(position, rx)| {
            let baton = Arc::clone(&baton);
            (format!("bench-{position}"), move || receive_all(rx, &baton, stamp, histograms))
        });
        let jobs: Vec<_> = jobs.collect();
        let crew = Crew::start(jobs, placement, || port.start())?;
        Ok(Self { port, crew, baton, rx })
    }

    /// Backend, mode and number of queues.
    pub(super) fn nature(&self) -> (&'static str, String, u64) {
        let info = self.port.info();
        (info.backend.as_str(), info.mode.to_string(), info.queues.len() as u64)
    }

    /// Packets received so far.
    pub(super) fn received(&self) -> u64 {
        self.rx.iter().map(|rx| rx.packets.value()).sum()
    }

    /// Packets lost so far because the ring had no free frame.
    pub(super) fn ring_full(&self) -> u64 {
        let known = |value: u64| if value == RxCounters::UNKNOWN { 0 } else { value };
        self.rx.iter().map(|rx| known(rx.ring_full.value())).sum()
    }

    /// Ages are now added to this histogram; with `None` to none.
    pub(super) fn record(&self, histogram: Option<u8>) {
        self.baton.store(histogram.unwrap_or(COUNT), Ordering::Release);
    }

    /// Waits for the rest of `expected` packets, as long as packets arrive or the ring may delay
    /// some.
    pub(super) fn drain(&self, expected: u64) {
        let (mut before, mut since) = (self.received(), Instant::now());
        while before < expected && since.elapsed() < QUIET {
            thread::sleep(Duration::from_millis(2));
            let now = self.received();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// False if it has failed; [`PortReceiver::finish`] returns the error.
    pub(super) fn is_alive(&self) -> bool {
        !self.crew.wait(Duration::ZERO)
    }

    /// Ends the threads. Returns the histograms, each summed over all queues.
    pub(super) fn finish(mut self) -> Result<Vec<Histogram<u64>>> {
        self.baton.store(END, Ordering::Release);
        let results = join(&mut self.crew)?;
        self.port.control().stop();
        let mut all = Vec::new();
        results.into_iter().for_each(|of_queue| add(&mut all, of_queue));
        Ok(all)
    }
}

/// Adds each histogram to the sum at the same position.
pub(super) fn add(sums: &mut Vec<Histogram<u64>>, histograms: Vec<Histogram<u64>>) {
    for (position, histogram) in histograms.into_iter().enumerate() {
        match sums.get_mut(position) {
            // All have the same bounds.
            Some(sum) => sum.add(histogram).unwrap_or_default(),
            None => sums.push(histogram),
        }
    }
}

impl Drop for PortReceiver {
    fn drop(&mut self) {
        // The crew waits for its threads.
        self.baton.store(END, Ordering::Release);
    }
}

/// Counts packets, and records their ages on request.
fn receive_all(
    mut rx: Rx,
    baton: &AtomicU8,
    stamp: Stamp,
    histograms: usize,
) -> Result<Vec<Histogram<u64>>> {
    let mut ages: Vec<_> = (0..histograms).map(|_| empty()).collect::<Result<_>>()?;
    let mut batch = Batch::default();
    loop {
        let order = baton.load(Ordering::Relaxed);
        if order == END {
            return Ok(ages);
        }
        if rx.receive(&mut batch) > 0 {
            if let Some(histogram) = ages.get_mut(order as usize) {
                record(histogram, &batch, stamp);
            }
            batch.clear();
            continue;
        }
        // The port decides how long to poll before it sleeps.
        let deadline = Some(Instant::now() + PATIENCE);
        if pipeline::wait_any(std::slice::from_mut(&mut rx), &[], deadline)?.ended {
            return Ok(ages);
        }
    }
}

/// From 1 ns to a minute, with three digits.
fn empty() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .map_err(|error| Error::failed("histogram of latencies", error.to_string()))
}

/// All packets of a batch are received at the same time, so the clock is read once.
fn record(histogram: &mut Histogram<u64>, batch: &Batch, stamp: Stamp) {
    let now = match stamp {
        Stamp::InPacket => clock::monotonic_ns(),
        Stamp::OfPort => clock::realtime_ns(),
    };
    for frame in batch.iter() {
        let sent = match stamp {
            Stamp::InPacket => stamped(frame),
            Stamp::OfPort => Some(frame.timestamp()),
        };
        if let Some(sent) = sent {
            // Ages above a minute count as a minute.
            histogram.saturating_record(now.saturating_sub(sent));
        }
    }
}

/// The time that the sender wrote into the last bytes.
fn stamped(frame: &Frame) -> Option<u64> {
    frame.data().last_chunk::<STAMP_BYTES>().map(|bytes| u64::from_ne_bytes(*bytes))
}
