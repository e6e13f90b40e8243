//! One side of a ring: claims ranges of indices, and publishes them in order.

use super::stats::{End, HandleCounters, Registry};
use crate::sync::{AtomicU64, Ordering, thread};

/// The number of handles at one side of a ring: [`Single`] or [`Multi`].
pub trait Side: sealed::Sealed + Send + 'static {
    /// Whether there may be more than one handle.
    const MULTI: bool;
}

/// One handle, without compare-and-swap and waiting.
#[derive(Debug, Clone, Copy)]
pub enum Single {}

/// Any number of handles, made by cloning.
#[derive(Debug, Clone, Copy)]
pub enum Multi {}

impl Side for Single {
    const MULTI: bool = false;
}

impl Side for Multi {
    const MULTI: bool = true;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Single {}
    impl Sealed for super::Multi {}
}

/// The shared indices of one side. Indices of 64 bits never wrap in practice. So a handle that
/// slept through any number of elements cannot mistake an old index or cached copy for a current
/// one; with 32 bits, a wrap takes a few seconds.
#[derive(Debug)]
pub(super) struct Indices {
    /// The first unclaimed index. Only [`Multi`] sides use it.
    head: AtomicU64,
    /// The first unpublished index: the other side may use all lower ones.
    tail: AtomicU64,
    /// Number of known holes below the tail; see `RingMemory::add_hole`.
    pub(super) holes: AtomicU64,
}

/// One handle's knowledge of both sides.
#[derive(Debug, Clone)]
pub(super) struct SideView {
    /// The next index, if this is the only handle of its side.
    next: u64,
    /// The first index that this side must not use, when last read.
    limit: u64,
    /// The start of the last failed claim.
    refused: u64,
    /// Whether there were holes below `limit` when it was read.
    pub(super) holes: bool,
}

/// A range of indices that one handle owns until it publishes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) start: u64,
    pub(super) count: u64,
}

impl Claim {
    #[inline(always)]
    pub(super) fn end(&self) -> u64 {
        self.start.wrapping_add(self.count)
    }

    /// The parts of it, in order, that are not in `other`.
    pub(super) fn without(self, other: Self) -> impl Iterator<Item = Self> {
        // Signed and relative to the start: the two are less than a ring apart.
        let place =
            |index: u64| (index.wrapping_sub(self.start) as i64).clamp(0, self.count as i64) as u64;
        let (from, to) = (place(other.start), place(other.end()));
        let before = Self { count: from, ..self };
        let after = Self { start: self.start.wrapping_add(to), count: self.count - to };
        [before, after].into_iter().filter(|part| part.count > 0)
    }
}

impl Indices {
    pub(super) fn new(start: u64) -> Self {
        Self { head: AtomicU64::new(start), tail: AtomicU64::new(start), holes: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn published(&self, order: Ordering) -> u64 {
        self.tail.load(order)
    }

    /// Releases the indices of `claim` from `kept` on, unless later ones are claimed.
    pub(super) fn unclaim<S: Side>(&self, claim: Claim, kept: u64) -> bool {
        let to = claim.start.wrapping_add(kept);
        // Release: our accesses to the slots happen before a peer claims them.
        let (order, failed) = (Ordering::Release, Ordering::Relaxed);
        // A single side changes only its view, when it publishes.
        !S::MULTI || self.head.compare_exchange(claim.end(), to, order, failed).is_ok()
    }
}

impl SideView {
    pub(super) fn new(start: u64, ahead: u64) -> Self {
        Self {
            next: start,
            limit: start.wrapping_add(ahead),
            refused: start.wrapping_sub(1),
            holes: false,
        }
    }

    /// Claims at least `min` and at most `max` indices of `own`. The limit is `ahead` indices after
    /// the `other` side's tail: the size of the ring for producers, 0 for consumers.
    #[inline(always)]
    pub(super) fn claim<S: Side>(
        &mut self,
        own: &Indices,
        other: &Indices,
        ahead: u64,
        (min, max): (u64, u64),
        entry: &HandleCounters,
    ) -> Option<Claim> {
        let mut start = if S::MULTI { own.head.load(Ordering::Relaxed) } else { self.next };
        loop {
            // Signed, because a cached limit may be old: other handles of our side may have read a
            // newer one and claimed beyond it. An old `start` makes the distance too large, but
            // then the compare-and-swap fails.
            let mut ready = self.limit.wrapping_sub(start) as i64;
            if ready < max as i64 {
                // Acquire: the other side's accesses to the slots below have happened.
                self.limit = other.tail.load(Ordering::Acquire).wrapping_add(ahead);
                // After the tail: holes below it were counted before it was published.
                self.holes = other.holes.load(Ordering::Relaxed) != 0;
                ready = self.limit.wrapping_sub(start) as i64;
            }
            if ready < min as i64 {
                self.refuse(start);
                return None;
            }
            let count = max.min(ready as u64);
            let claim = Claim { start, count };
            if !S::MULTI {
                return Some(claim);
            }
            // The tails transfer slots between the sides. This acquire is for slots that a peer
            // claimed, used and unclaimed.
            let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
            match own.head.compare_exchange_weak(start, claim.end(), order, failed) {
                Ok(_) => {
                    entry.claimed.store(start, std::sync::atomic::Ordering::Relaxed);
                    return Some(claim);
                }
                Err(now) => start = now,
            }
            entry.retries.add(1);
        }
    }

    /// A handle that retries in a loop takes the cache line from the peer that is about to publish
    /// on it: this costs half of the throughput of two cores, or more. So a second failed attempt
    /// waits about as long as a cache line takes to move. The first one does not wait.
    #[cold]
    fn refuse(&mut self, start: u64) {
        if self.refused == start {
            (0..PAUSES).for_each(|_| spin());
        }
        self.refused = start;
    }

    /// Publishes `claim` after all earlier claims.
    #[inline(always)]
    pub(super) fn publish<S: Side>(
        &mut self,
        own: &Indices,
        claim: Claim,
        (entry, registry, end): (&HandleCounters, &Registry, End),
    ) {
        // Acquire: our release below also publishes the peers' earlier slots.
        if S::MULTI && own.tail.load(Ordering::Acquire) != claim.start {
            publish_late(own, claim, entry, registry, end);
        } else {
            own.tail.store(claim.end(), Ordering::Release);
        }
        self.next = claim.end();
    }
}

/// Publishes after the earlier claims of other handles.
///
/// If this thread had to yield, other threads have probably made later claims, and wait, too. If it
/// continued at once, its next claim would be behind their claims, and each further batch would
/// cost a thread switch: a convoy, which does not end by itself. So it waits for all claims that
/// are behind its own at this moment.
#[cold]
fn publish_late(
    own: &Indices,
    claim: Claim,
    entry: &HandleCounters,
    registry: &Registry,
    end: End,
) {
    entry.waits.add(1);
    let stalled = wait_until(&own.tail, claim.start, None, |at| {
        entry.stalled.add(1);
        registry.blame(entry, end, at);
    });
    own.tail.store(claim.end(), Ordering::Release);
    if stalled {
        // With a limit: a later claim may be a reservation of this thread.
        let behind = own.head.load(Ordering::Relaxed);
        wait_until(&own.tail, behind, Some(SPINS + YIELDS), |_| ());
    }
}

/// Some tens of nanoseconds.
const PAUSES: u32 = 4;
/// A running peer publishes within this many turns: some microseconds.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
/// A peer that has not run after this many yields is not only waiting for a CPU.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 100 };

/// Waits until `tail` has reached `index`, for at most `limit` turns, and yields after some turns.
/// Returns whether it yielded. At the first yield it calls `stalled` with the index of the tail.
fn wait_until(tail: &AtomicU64, index: u64, limit: Option<u32>, stalled: impl Fn(u64)) -> bool {
    let mut turn = 0;
    loop {
        let now = tail.load(Ordering::Acquire);
        if now.wrapping_sub(index) as i64 >= 0 || limit == Some(turn) {
            return turn > SPINS;
        }
        if turn == SPINS {
            stalled(now);
        }
        pause(turn);
        turn = turn.saturating_add(1);
    }
}

#[cfg(loom)]
fn pause(_turn: u32) {
    thread::yield_now();
}

/// A yielding thread of a higher priority keeps the CPU, so it sleeps in the end.
#[cfg(not(loom))]
fn pause(turn: u32) {
    match turn {
        ..SPINS => spin(),
        _ if turn < SPINS + YIELDS => thread::yield_now(),
        _ => thread::sleep(std::time::Duration::from_micros(50)),
    }
}

#[inline(always)]
fn spin() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
