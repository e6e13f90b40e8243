//! Passes packets from the thread that finds them to the thread that takes them.
//!
//! ```text
//!   found ─▶ [ run that grows ] ─▶ swapped for an empty one ─▶ frames, rows
//! ```
//!
//! The growing run is bounded: the finder blocks while it is full. A long run wakes the taker at
//! once. A short run is taken after a nap, so that rare packets arrive soon and frequent ones do
//! not each cost a wake-up.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wirelane::pcap::{Direction, Record, Source};
use wirelane::{Error, Result};
use wirelane_store::query::Report;

/// A run is full at this number of bytes or packets.
const MOST_BYTES: usize = 1 << 20;
const MOST_PACKETS: usize = 4096;
/// The time after which a short run is taken.
const NAP: Duration = Duration::from_millis(5);

/// A packet of a run.
pub(super) struct RunPacket {
    interface: u32,
    time: u64,
    original_len: u32,
    direction: Direction,
    /// The end of its bytes among the bytes of the run.
    end: usize,
}

/// Consecutive packets.
#[derive(Default)]
pub(super) struct PacketRun {
    packets: Vec<RunPacket>,
    bytes: Vec<u8>,
    /// New interfaces, numbered after the interfaces of all earlier runs.
    sources: Vec<Source>,
    /// The number of packets taken.
    taken: usize,
}

impl PacketRun {
    pub(super) fn is_over(&self) -> bool {
        self.taken >= self.packets.len()
    }

    /// Drains the interfaces that no earlier run had.
    pub(super) fn sources(&mut self) -> std::vec::Drain<'_, Source> {
        self.sources.drain(..)
    }

    /// Takes the next packet.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Record<'_>> {
        let before = self.taken.checked_sub(1).and_then(|at| self.packets.get(at));
        let start = before.map_or(0, |packet| packet.end);
        let packet = self.packets.get(self.taken)?;
        self.taken += 1;
        Some(Record {
            interface: packet.interface,
            timestamp: packet.time,
            original_len: packet.original_len,
            direction: packet.direction,
            data: self.bytes.get(start..packet.end)?,
        })
    }

    fn push(&mut self, record: &Record<'_>) {
        self.bytes.extend_from_slice(record.data);
        self.packets.push(RunPacket {
            interface: record.interface,
            time: record.timestamp,
            original_len: record.original_len,
            direction: record.direction,
            end: self.bytes.len(),
        });
    }

    fn clear(&mut self) {
        self.packets.clear();
        self.bytes.clear();
        self.sources.clear();
        self.taken = 0;
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= MOST_PACKETS || self.bytes.len() >= MOST_BYTES
    }

    /// Whether the run is long enough to wake the taker.
    fn is_long(&self) -> bool {
        self.packets.len() >= MOST_PACKETS / 4 || self.bytes.len() >= MOST_BYTES / 4
    }
}

/// The growing run, and the state of both threads.
#[derive(Default)]
pub(crate) struct PacketQueue {
    state: Mutex<QueueState>,
    /// The run is long, or has ended.
    filled: Condvar,
    /// Packets were taken, or the taker has closed.
    emptied: Condvar,
}

#[derive(Default)]
struct QueueState {
    run: PacketRun,
    /// Number of interfaces in all runs.
    sources: usize,
    /// The taker sleeps until packets arrive.
    is_awaited: bool,
    /// The taker has closed.
    is_closed: bool,
    has_ended: bool,
    failure: Option<Error>,
    report: Option<Report>,
}

impl PacketQueue {
    /// Adds a packet, and waits for room. Breaks once the taker has closed.
    #[inline]
    pub(crate) fn push(&self, record: &Record<'_>, sources: &[Source]) -> ControlFlow<()> {
        let mut state = self.state();
        while state.run.is_full() && !state.is_closed {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return ControlFlow::Break(());
        }
        if sources.len() > state.sources {
            let known = state.sources;
            state.run.sources.extend(sources.iter().skip(known).cloned());
            state.sources = sources.len();
        }
        state.run.push(record);
        if state.is_awaited && state.run.is_long() {
            state.is_awaited = false;
            self.filled.notify_one();
        }
        ControlFlow::Continue(())
    }

    /// Ends the packets, with a report or a failure.
    pub(crate) fn end(&self, report: Option<Report>, failure: Option<Error>) {
        let mut state = self.state();
        (state.report, state.failure, state.has_ended) = (report, failure, true);
        self.filled.notify_all();
    }

    /// The report; `None` while the search runs, or if it failed.
    pub(crate) fn report(&self) -> Option<Report> {
        self.state().report.clone()
    }

    /// Ends the taker's side.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.emptied.notify_all();
    }

    /// Replaces a run that is over. True with new packets; false at the end, after the failure was
    /// returned; `None` if no packet arrives before `until`.
    pub(super) fn take(&self, run: &mut PacketRun, until: Instant) -> Option<Result<bool>> {
        let mut state = self.state();
        let mut has_slept = false;
        loop {
            if !state.run.is_over() && (has_slept || state.has_ended || state.run.is_long()) {
                run.clear();
                std::mem::swap(run, &mut state.run);
                self.emptied.notify_all();
                return Some(Ok(true));
            }
            if state.run.is_over() && state.has_ended {
                return Some(state.failure.take().map_or(Ok(false), Err));
            }
            let left = until.saturating_duration_since(Instant::now());
            if has_slept && left.is_zero() {
                return None;
            }
            state.is_awaited = true;
            let nap = self.filled.wait_timeout(state, left.min(NAP));
            state = nap.unwrap_or_else(PoisonError::into_inner).0;
            has_slept = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the queue if its thread panics.
pub(crate) struct EndOnPanic(pub(crate) Arc<PacketQueue>);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if !state.has_ended {
            state.failure = Some(Error::failed("the thread that searches", "panicked: a defect"));
            state.has_ended = true;
            self.0.filled.notify_all();
        }
    }
}
