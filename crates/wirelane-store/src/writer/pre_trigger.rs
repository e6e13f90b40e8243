//! Writes only packets around triggers: some time before, and some time after.
//!
//! Full buffers wait in memory. They are recycled when they are two seconds older than `--before`,
//! and written from the first match until `--after` has passed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Extents stay in memory this much longer, because other threads may report triggers late.
const LATE: u64 = 2_000_000_000;

/// The most windows that are kept. Beyond it, the oldest two are merged, which writes more, never
/// less.
const MOST: usize = 1024;

/// Holds packets in memory until a trigger fires. All lanes and the threads that fire share it.
///
/// Whole extents are written or dropped, so the store has a little more than the windows. All times
/// are packet times, in nanoseconds since the epoch.
#[derive(Debug)]
pub struct PreTrigger {
    before: u64,
    after: u64,
    /// Windows to write, from and to: in order of time, and disjoint.
    windows: Mutex<Vec<(u64, u64)>>,
    /// The last window that was extended. Most calls of `fire` need only this, and take no lock.
    from: AtomicU64,
    until: AtomicU64,
    fired: AtomicU64,
}

/// The decision on an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is in a window.
    Write,
    /// A later trigger may include it.
    Hold,
    /// No later trigger can include it.
    Forget,
}

impl PreTrigger {
    /// Writes packets up to `before` before each trigger, and up to `after` after it.
    #[must_use]
    pub fn new(before: Duration, after: Duration) -> Self {
        Self {
            before: nanoseconds(before),
            after: nanoseconds(after),
            windows: Mutex::default(),
            from: AtomicU64::new(u64::MAX),
            until: AtomicU64::new(0),
            fired: AtomicU64::new(0),
        }
    }

    /// Fires a trigger at this time.
    pub fn fire(&self, at: u64) {
        self.fired.fetch_add(1, Ordering::Relaxed);
        let (from, until) = (at.saturating_sub(self.before), at.saturating_add(self.after));
        // Load the end first: the writer below stores it last.
        if until <= self.until.load(Ordering::Acquire) && from >= self.from.load(Ordering::Acquire)
        {
            return;
        }
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        // Extend the window a little further, so that the next calls need no lock.
        let until = until.saturating_add((self.after / 16).min(LATE / 2));
        let (from, until) = add(&mut windows, (from, until));
        self.from.store(from, Ordering::Release);
        self.until.store(until, Ordering::Release);
    }

    /// Whether packets of this time are written.
    #[must_use]
    pub fn is_open(&self, at: u64) -> bool {
        at <= self.until.load(Ordering::Acquire) && at >= self.from.load(Ordering::Acquire)
    }

    /// The number of triggers fired.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Relaxed)
    }

    /// The time before a trigger, in nanoseconds.
    pub(crate) fn before(&self) -> u64 {
        self.before
    }

    /// The decision on an extent with packets from `oldest` to `newest`, when its lane is at `now`.
    pub(crate) fn fate(&self, oldest: u64, newest: u64, now: u64) -> Fate {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let next = windows.partition_point(|(_, until)| *until < oldest);
        match windows.get(next) {
            Some((from, _)) if *from <= newest => Fate::Write,
            _ if newest.saturating_add(self.before).saturating_add(LATE) < now => Fate::Forget,
            _ => Fate::Hold,
        }
    }
}

/// Adds a window, merged with the windows that it touches. Returns the result.
fn add(windows: &mut Vec<(u64, u64)>, (mut from, mut until): (u64, u64)) -> (u64, u64) {
    let first = windows.partition_point(|(_, end)| *end < from);
    let last = windows.partition_point(|(start, _)| *start <= until).max(first);
    for (start, end) in windows.drain(first..last) {
        (from, until) = (from.min(start), until.max(end));
    }
    windows.insert(first, (from, until));
    if windows.len() > MOST {
        let (start, _) = windows.remove(0);
        if let Some(next) = windows.first_mut() {
            next.0 = start;
        }
    }
    (from, until)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_trigger_decides() {
        let pre_trigger = PreTrigger::new(Duration::from_secs(30), Duration::from_secs(120));
        let fate = |from, to, now| pre_trigger.fate(from * SECOND, to * SECOND, now * SECOND);
        assert_eq!(fate(1000, 1001, 1001), Fate::Hold);
        assert_eq!(fate(1000, 1001, 1031), Fate::Hold);
        assert_eq!(fate(1000, 1001, 1034), Fate::Forget);
        pre_trigger.fire(1035 * SECOND);
        assert_eq!(fate(1000, 1001, 1035), Fate::Forget);
        assert_eq!(fate(1003, 1004, 1035), Fate::Hold);
        assert_eq!(fate(1004, 1005, 1035), Fate::Write);
        assert_eq!(fate(1154, 1200, 1200), Fate::Write);
        assert_eq!(fate(1157, 1200, 1200), Fate::Hold);
        assert!(pre_trigger.is_open(1005 * SECOND) && pre_trigger.is_open(1155 * SECOND));
        assert!(!pre_trigger.is_open(1157 * SECOND));
        // The clock jumped back: later packets are held.
        assert_eq!(fate(5000, 5001, 1200), Fate::Hold);
    }

    proptest! {
        #[test]
        fn windows_cover_every_trigger(fired in prop::collection::vec(0_u64..2000, 1..40), probes in prop::collection::vec((0_u64..2200, 0_u64..50), 20)) {
            let pre_trigger = PreTrigger::new(Duration::from_nanos(30), Duration::from_nanos(10));
            for at in &fired {
                pre_trigger.fire(*at);
            }
            for (oldest, len) in probes {
                let newest = oldest + len;
                let asked = fired.iter().any(|at| at.saturating_sub(30) <= newest && oldest <= at + 10);
                prop_assert_eq!(pre_trigger.fate(oldest, newest, newest) == Fate::Write, asked);
            }
        }

        #[test]
        fn windows_stay_apart(fired in prop::collection::vec(0_u64..1_000_000, 0..3000)) {
            let mut windows = Vec::new();
            for at in &fired {
                add(&mut windows, (*at, *at + 7));
            }
            prop_assert!(windows.len() <= MOST);
            prop_assert!(windows.is_sorted_by(|a, b| a.1 < b.0));
            for at in fired {
                prop_assert!(windows.iter().any(|(from, until)| *from <= at && at + 7 <= *until));
            }
        }
    }
}
