//! A lane of the store with the interfaces of its packets, and the counters that are written into
//! it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::internal::clock;
use wirelane::internal::session::{Interface, statistics};
use wirelane::internal::stats::RxCounters;
use wirelane::pcap::{Record, Statistics};

use crate::{LaneWriter, Lost, StoreWriter};

/// How long to wait for room before checking for the end.
const MOMENT: Duration = Duration::from_millis(20);

/// The lane.
pub(super) struct Journal {
    /// `None` after the end.
    lane: Option<LaneWriter>,
    /// Of every interface of the lane.
    counters: Vec<Arc<RxCounters>>,
    /// The same, for the thread that writes the lane.
    shared: Arc<Mutex<Vec<Arc<RxCounters>>>>,
    halt: Halt,
    started: u64,
    /// How often, in nanoseconds.
    every: u64,
    /// Monotonic clock.
    next: u64,
    /// The segment that has them.
    segment: u32,
    /// The last written state.
    last: Option<Vec<Statistics>>,
}

impl Journal {
    /// Starts a lane with these interfaces. Counters are written at intervals of `every`, and into
    /// every segment. `halt` ends waiting for the disk.
    ///
    /// # Errors
    /// As of the store.
    pub(super) fn start(
        store: &mut StoreWriter,
        interfaces: Vec<Interface>,
        every: Duration,
        halt: &Halt,
    ) -> wirelane::Result<Self> {
        let (sources, counters): (Vec<_>, Vec<_>) =
            interfaces.into_iter().map(|one| (one.source, one.counters)).unzip();
        let shared = Arc::new(Mutex::new(counters.clone()));
        let unwritten = Arc::clone(&shared);
        let lost: Lost = Box::new(move |source, packets, bytes| {
            let counters = unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(counters) = counters.get(source as usize) {
                counters.count_unwritten(packets, Some(bytes));
            }
        });
        let lane = store.lane(&sources, Some(lost))?;
        let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            segment: lane.segment(),
            lane: Some(lane),
            counters,
            shared,
            halt: halt.clone(),
            started: clock::realtime_ns(),
            every,
            next: clock::monotonic_ns().saturating_add(every),
            last: None,
        })
    }

    /// Adds an interface; returns its number. `None` if a segment has no room for it.
    pub(super) fn add(&mut self, interface: &Interface) -> Option<u32> {
        let number = self.lane.as_mut()?.add_source(interface.source.clone())?;
        self.counters.push(Arc::clone(&interface.counters));
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.push(Arc::clone(&interface.counters));
        Some(number)
    }

    /// Takes a packet, by `push` into the lane; `waits` until there is room if there is none.
    /// A packet that is not taken is counted.
    #[inline]
    pub(super) fn take(
        &mut self,
        record: &Record<'_>,
        options: usize,
        waits: bool,
        push: impl Fn(&mut LaneWriter) -> bool,
    ) {
        let Some(lane) = &mut self.lane else { return };
        let len = record.data.len() + options;
        if push(lane) || waits && wait_and_push(lane, len, &self.halt, push) {
            return;
        }
        self.lose(record);
    }

    #[cold]
    fn lose(&self, record: &Record<'_>) {
        if let Some(counters) = self.counters.get(record.interface as usize) {
            counters.count_unstored(1, u64::from(record.original_len));
        }
    }

    /// Writes the counters if it is time for it, and old packets to the disk.
    pub(super) fn round(&mut self) {
        let now = clock::monotonic_ns();
        let Some(lane) = &mut self.lane else { return };
        lane.tick(now);
        let segment = lane.segment();
        if now < self.next && segment == self.segment {
            return;
        }
        let statistics = statistics(&self.counters, self.started, None);
        // A queue without traffic fills no segment with counters.
        if !is_news(&statistics, self.last.as_deref()) || lane.statistics(&statistics) {
            (self.next, self.segment) = (now.saturating_add(self.every), segment);
            self.last = Some(statistics);
        }
    }

    /// Writes the last counters, and ends the lane.
    pub(super) fn finish(&mut self) {
        let Some(mut lane) = self.lane.take() else { return };
        let end = Some(clock::realtime_ns());
        let statistics = statistics(&self.counters, self.started, end);
        let since = clock::monotonic_ns();
        if is_news(&statistics, None) {
            while !lane.statistics(&statistics) && !self.halt.gives_up(since) {
                lane.wait_for_room(0, MOMENT);
            }
        }
        lane.finish();
    }
}

/// Waits until there is room for a packet of `len` bytes, and hands it over; false if it gives up.
#[cold]
fn wait_and_push(
    lane: &mut LaneWriter,
    len: usize,
    halt: &Halt,
    push: impl Fn(&mut LaneWriter) -> bool,
) -> bool {
    let since = clock::monotonic_ns();
    loop {
        let has_room = lane.wait_for_room(len, MOMENT);
        lane.tick(clock::monotonic_ns());
        if has_room && push(lane) {
            return true;
        }
        if halt.gives_up(since) {
            return false;
        }
    }
}

/// Whether a counter has changed since the counters were written.
fn is_news(now: &[Statistics], last: Option<&[Statistics]>) -> bool {
    let counts = |it: &Statistics| {
        [it.received, it.filter_accepted, it.os_dropped, it.delivered]
            .map(|count| count.unwrap_or(0))
    };
    match last {
        None => now.iter().any(|it| counts(it).iter().any(|count| *count > 0)),
        Some(last) => now.iter().map(counts).ne(last.iter().map(counts)),
    }
}
