//! Packets on their way from the thread that finds them to whoever takes them.
//!
//! ```text
//!   found ─▶ [ run that grows ] ─▶ swapped for an empty one ─▶ frames, rows
//! ```
//!
//! The run that grows is bounded: whoever finds packets waits while it is full. Whoever takes them
//! is woken when there are many; few are taken after a nap, so that rare packets come soon, and
//! frequent ones cost no wake-up each.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wirelane::pcap::{Direction, Record, Source};
use wirelane::{Error, Result};
use wirelane_store::query::Report;

/// A run is full with so many bytes or packets.
const MOST_BYTES: usize = 1 << 20;
const MOST_PACKETS: usize = 4096;
/// Few packets are taken after this time.
const NAP: Duration = Duration::from_millis(5);

/// A packet of a run.
pub(super) struct Packet {
    interface: u32,
    time: u64,
    original_len: u32,
    direction: Direction,
    /// Where its bytes end among those of the run.
    end: usize,
}

/// Packets that were found one after the other.
#[derive(Default)]
pub(super) struct Run {
    packets: Vec<Packet>,
    bytes: Vec<u8>,
    /// The interfaces that are new: behind those of all runs before.
    sources: Vec<Source>,
    /// Packets that were taken.
    taken: usize,
}

impl Run {
    pub(super) fn is_over(&self) -> bool {
        self.taken >= self.packets.len()
    }

    /// The interfaces that were not in any run before. They are gone then.
    pub(super) fn sources(&mut self) -> std::vec::Drain<'_, Source> {
        self.sources.drain(..)
    }

    /// The next packet, which counts as taken.
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
        self.packets.push(Packet {
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

    /// Whether it is worth to wake somebody.
    fn is_long(&self) -> bool {
        self.packets.len() >= MOST_PACKETS / 4 || self.bytes.len() >= MOST_BYTES / 4
    }
}

/// The run that grows, and the end.
#[derive(Default)]
pub(crate) struct Belt {
    state: Mutex<State>,
    /// There are many packets, or no more.
    filled: Condvar,
    /// Packets were taken, or nobody takes any more.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    run: Run,
    /// Interfaces in all runs.
    sources: usize,
    /// Somebody sleeps until there are packets.
    is_awaited: bool,
    /// Nobody takes packets any more.
    is_closed: bool,
    has_ended: bool,
    failure: Option<Error>,
    report: Option<Report>,
}

impl Belt {
    /// Adds a packet; waits for room. Breaks when nobody takes packets any more.
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

    /// There are no more packets: why, and how it went.
    pub(crate) fn end(&self, report: Option<Report>, failure: Option<Error>) {
        let mut state = self.state();
        (state.report, state.failure, state.has_ended) = (report, failure, true);
        self.filled.notify_all();
    }

    /// How it went; `None` while it goes on, or if it failed.
    pub(crate) fn report(&self) -> Option<Report> {
        self.state().report.clone()
    }

    /// Nobody takes packets any more.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.emptied.notify_all();
    }

    /// Swaps a run that is over for what has come. True if there is any, false at the end, once
    /// what went wrong was told; `None` if nothing comes before `until`.
    pub(super) fn take(&self, run: &mut Run, until: Instant) -> Option<Result<bool>> {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the belt of a thread that panics.
pub(crate) struct Ending(pub(crate) Arc<Belt>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if !state.has_ended {
            state.failure = Some(Error::failed("the thread that searches", "panicked: a defect"));
            state.has_ended = true;
            self.0.filled.notify_all();
        }
    }
}
