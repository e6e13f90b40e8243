//! One side of a ring: claiming a range of indices, and publishing it in order.

use super::stats::{End, Entry, Registry};
use crate::sync::{AtomicU64, Ordering, thread};

/// How many threads work at one side of a ring: [`Single`] or [`Multi`].
pub trait Side: sealed::Sealed + Send + 'static {
    /// Whether there may be more than one handle.
    const MULTI: bool;
}

/// One handle: no compare-and-swap, no waiting.
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

/// The shared indices of one side. Indices of 64 bits never wrap in practice, so a handle that
/// slept through any number of elements is not fooled by an index or a cached copy that came round
/// again; with 32 bits that would take a few seconds.
#[derive(Debug)]
pub(super) struct Indices {
    /// The first index that nobody of this side has claimed. Only used by [`Multi`] sides.
    head: AtomicU64,
    /// The first index that is not published: the other side may use everything below.
    tail: AtomicU64,
    /// How many ranges below the tail are known to be empty; see `Holes`.
    pub(super) holes: AtomicU64,
}

/// What one handle knows of both sides.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// Our own index, if we are the only handle of our side.
    next: u64,
    /// The first index that is not ours, as last seen.
    limit: u64,
    /// Where the last attempt stood that found too little.
    refused: u64,
    /// Whether there were holes below `limit` when it was read.
    pub(super) holes: bool,
}

/// A range of indices that one handle owns until it is published.
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

    /// What is left of it, in order, without what is in `other` too.
    pub(super) fn without(self, other: Self) -> impl Iterator<Item = Self> {
        // Relative to our start, signed: the two are less than a ring apart.
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

    /// Gives the indices of `claim` from `kept` on back, if nobody has claimed any after them.
    pub(super) fn unclaim<S: Side>(&self, claim: Claim, kept: u64) -> bool {
        let to = claim.start.wrapping_add(kept);
        // Release: what we did to the slots is done when a peer claims them.
        let (order, failed) = (Ordering::Release, Ordering::Relaxed);
        // A single side moves nothing but its view, and that only when it publishes.
        !S::MULTI || self.head.compare_exchange(claim.end(), to, order, failed).is_ok()
    }
}

impl View {
    pub(super) fn new(start: u64, ahead: u64) -> Self {
        Self {
            next: start,
            limit: start.wrapping_add(ahead),
            refused: start.wrapping_sub(1),
            holes: false,
        }
    }

    /// Claims between `min` and `max` indices of `own`, as many as there are. What is ours ends
    /// `ahead` indices after the `other` side's tail: the size of the ring for producers, 0 for
    /// consumers.
    #[inline(always)]
    pub(super) fn claim<S: Side>(
        &mut self,
        own: &Indices,
        other: &Indices,
        ahead: u64,
        (min, max): (u64, u64),
        entry: &Entry,
    ) -> Option<Claim> {
        let mut start = if S::MULTI { own.head.load(Ordering::Relaxed) } else { self.next };
        loop {
            // Signed, because a cached limit may be behind: other handles of our side may have
            // seen more and claimed beyond it. A `start` that is behind makes the distance too
            // large, but then the compare-and-swap fails.
            let mut ready = self.limit.wrapping_sub(start) as i64;
            if ready < max as i64 {
                // Acquire: what the other side did to the slots below is done.
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
            // Slots change hands through the tails. Acquire is for those that a peer has claimed,
            // used and unclaimed.
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

    /// Somebody who asks in a loop takes the line away from the peer that is about to publish on
    /// it, again and again: half of the throughput of two cores, or more. So whoever asks again
    /// after a refusal waits for as long as it takes to move a line. The first one is for free.
    #[cold]
    fn refuse(&mut self, start: u64) {
        if self.refused == start {
            (0..PAUSES).for_each(|_| spin());
        }
        self.refused = start;
    }

    /// Hands `claim` to the other side, after all earlier ones.
    #[inline(always)]
    pub(super) fn publish<S: Side>(
        &mut self,
        own: &Indices,
        claim: Claim,
        (entry, registry, end): (&Entry, &Registry, End),
    ) {
        // Acquire: our release below stands for the peers' slots before ours as well.
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
/// If we had to give the CPU away for that, others have probably claimed behind us, and wait as we
/// did. Were we to go on at once, our next claim would be behind theirs, and from then on every
/// batch would cost a change of threads: a convoy, which does not end by itself. So we let those
/// through that are behind us now.
#[cold]
fn publish_late(own: &Indices, claim: Claim, entry: &Entry, registry: &Registry, end: End) {
    entry.waits.add(1);
    let stalled = wait_until(&own.tail, claim.start, None, |at| {
        entry.stalled.add(1);
        registry.blame(entry, end, at);
    });
    own.tail.store(claim.end(), Ordering::Release);
    if stalled {
        // Not for ever: whoever is behind us may be a reservation of our own thread.
        let behind = own.head.load(Ordering::Relaxed);
        wait_until(&own.tail, behind, Some(SPINS + YIELDS), |_| ());
    }
}

/// Some tens of nanoseconds.
const PAUSES: u32 = 4;
/// A peer that runs publishes within this many turns: some microseconds.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
/// A peer that still has not run after so many yields waits for more than a CPU.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 100 };

/// Waits until `tail` has reached `index`, or for `limit` turns, and gives the CPU away after some.
/// Whether it did; the first time it calls `stalled` with the index that does not move.
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

/// A thread of a higher priority that only yields keeps the CPU, so in the end it sleeps.
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
