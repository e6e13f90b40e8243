//! The receiving side of a recording: frames become packets of a lane of the store.

use std::sync::Arc;
use std::time::Duration;

use wirelane::Result;
use wirelane::clock;
use wirelane::frame::{Batch, Frame};
use wirelane::halt::Halt;
use wirelane::pcap::{Record, Statistics};
use wirelane::pipeline::{Allowance, Consumer};
use wirelane::port::Rx;
use wirelane::session::comment::Comment;
use wirelane::session::interfaces::{self, Placing};
use wirelane::stats::RxCounters;
use wirelane_store::LaneWriter;

use crate::trigger::Lookout;

/// How long to wait for room before looking whether the end was asked for.
const MOMENT: Duration = Duration::from_millis(20);

/// What a receiving thread does with its frames.
pub(crate) struct Worker {
    /// One per receiving end.
    pub(crate) ends: Vec<End>,
    pub(crate) journal: Journal,
    /// The counters of every interface of the lane.
    pub(crate) counters: Vec<Arc<RxCounters>>,
    pub(crate) allowance: Allowance,
    /// The port waits for us and loses nothing.
    pub(crate) lossless: bool,
    /// Ends that.
    pub(crate) halt: Halt,
}

/// A receiving end.
pub(crate) struct End {
    pub(crate) placing: Placing,
    /// Its first interface among those of the lane.
    pub(crate) first: u32,
    pub(crate) lookout: Option<Lookout>,
}

impl Consumer for Worker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.allowance.spend(batch.len());
        let Some(End { placing, first, lookout }) = self.ends.get(input) else { return Ok(()) };
        if let Some(lookout) = lookout {
            lookout.look(batch, |frame| placing.place(frame).0);
        }
        let Some(lane) = &mut self.journal.lane else { return Ok(()) };
        for frame in batch.iter() {
            let (place, direction) = placing.place(frame);
            let record = Record {
                interface: first + place,
                timestamp: frame.timestamp(),
                original_len: frame.original_len(),
                direction,
                data: frame.data(),
            };
            let is_stored = push(lane, &record, frame);
            if is_stored || (self.lossless && wait_and_push(lane, &record, frame, &self.halt)) {
                continue;
            }
            lose(&self.counters, &record);
        }
        Ok(())
    }

    fn capacity(&mut self) -> usize {
        self.allowance.admit(Batch::DEFAULT)
    }

    fn round(&mut self, _: &[Rx], idle: bool) -> Result<()> {
        if idle {
            // Others may have traffic for what we do not use.
            self.allowance.give_back();
        }
        self.journal.round(&self.counters);
        Ok(())
    }

    /// Hands over the rest and ends the lane.
    fn finish(&mut self) -> Result<()> {
        self.allowance.give_back();
        self.journal.finish(&self.counters, &self.halt);
        Ok(())
    }
}

/// Hands a packet over, with what its interface said of it, or else what its file says.
#[inline]
fn push(lane: &mut LaneWriter, record: &Record<'_>, frame: &Frame) -> bool {
    match (Comment::of(frame), frame.options()) {
        (None, []) => lane.push(record, None),
        (None, options) => lane.push_with_options(record, options),
        (Some(comment), _) => lane.push(record, Some(comment.as_str())),
    }
}

/// Waits until there is room for a packet, and hands it over; false if it gives up.
#[cold]
fn wait_and_push(lane: &mut LaneWriter, record: &Record<'_>, frame: &Frame, halt: &Halt) -> bool {
    let since = clock::monotonic_ns();
    let len = record.data.len() + frame.options().len();
    loop {
        let has_room = lane.wait_for_room(len, MOMENT);
        lane.tick(clock::monotonic_ns());
        if has_room && push(lane, record, frame) {
            return true;
        }
        if halt.gives_up(since) {
            return false;
        }
    }
}

#[cold]
fn lose(counters: &[Arc<RxCounters>], record: &Record<'_>) {
    if let Some(counters) = counters.get(record.interface as usize) {
        counters.count_unstored(1, u64::from(record.original_len));
    }
}

/// The lane, and the counters that are written into it.
pub(crate) struct Journal {
    /// `None` after the end.
    lane: Option<LaneWriter>,
    started: u64,
    /// How often, in nanoseconds.
    every: u64,
    /// Monotonic clock.
    next: u64,
    /// The segment that has them.
    segment: u32,
    /// What was written last.
    last: Option<Vec<Statistics>>,
}

impl Journal {
    /// Writes counters `every` so often, and into every segment.
    pub(crate) fn new(lane: LaneWriter, every: Duration) -> Self {
        let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        Self {
            segment: lane.segment(),
            lane: Some(lane),
            started: clock::realtime_ns(),
            every,
            next: clock::monotonic_ns().saturating_add(every),
            last: None,
        }
    }

    fn round(&mut self, counters: &[Arc<RxCounters>]) {
        let now = clock::monotonic_ns();
        let Some(lane) = &mut self.lane else { return };
        lane.tick(now);
        let segment = lane.segment();
        if now < self.next && segment == self.segment {
            return;
        }
        let statistics = interfaces::statistics(counters, self.started, None);
        // A queue without traffic fills no segment with counters.
        if !is_news(&statistics, self.last.as_deref()) || lane.statistics(&statistics) {
            (self.next, self.segment) = (now.saturating_add(self.every), segment);
            self.last = Some(statistics);
        }
    }

    fn finish(&mut self, counters: &[Arc<RxCounters>], halt: &Halt) {
        let Some(mut lane) = self.lane.take() else { return };
        let end = Some(clock::realtime_ns());
        let statistics = interfaces::statistics(counters, self.started, end);
        let since = clock::monotonic_ns();
        if is_news(&statistics, None) {
            while !lane.statistics(&statistics) && !halt.gives_up(since) {
                lane.wait_for_room(0, MOMENT);
            }
        }
        lane.finish();
    }
}

/// Whether anything has come or got lost since the counters were written last.
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
