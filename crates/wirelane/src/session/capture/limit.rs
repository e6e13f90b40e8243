//! The limit of a capture (`-c`): the first packets of all queues, in order of time.
//!
//! A receiving thread cannot apply it, because another queue may have older packets. So it is
//! applied behind the merge. A single writer passes on the packets of its merge until the limit.
//! Several writers, one for each queue (`--split`), have no common merge: they announce the times
//! of their packets, and a packet is granted when no older one can follow.
//!
//! A receiving thread copies the first packets of a queue up to the limit, and then only packets
//! older than the newest of these. Packets beyond the limit count as not received. A port with one
//! receiving end needs no merge and stops after the limit. `count -c` and `flows -c` are views
//! behind such a capture, on one thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::port::Rx;
use crate::sync::lock;

/// Whether only a merge can find the first `packets` of these receiving ends. The packets of a
/// single end are in order, so its thread counts them.
#[must_use]
pub fn needs_merge(packets: Option<u64>, ends: &[Vec<Rx>]) -> bool {
    packets.is_some() && ends.iter().flatten().count() > 1
}

/// A limit that the writers of a capture share.
pub(super) struct PacketLimit {
    packets: u64,
    reached: AtomicBool,
    decision: Mutex<Decision>,
}

struct Decision {
    /// How many more packets to grant.
    left: u64,
    /// Time and writer of each packet without a decision.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    members: Vec<Member>,
}

/// One of several writers.
#[derive(Clone, Default)]
struct Member {
    /// It will announce no older packet.
    horizon: u64,
    /// Granted packets that it has yet to take.
    granted: u64,
}

/// The packets that a writer may pass on. After it is dropped, the others do not wait for this
/// writer.
pub(super) struct LimitShare {
    limit: Arc<PacketLimit>,
    place: usize,
    is_only: bool,
    room: u64,
}

impl PacketLimit {
    /// A limit of `packets` for `writers` writers.
    pub(super) fn new(packets: u64, writers: usize) -> Self {
        let decision = Decision {
            left: packets,
            waiting: BinaryHeap::new(),
            members: vec![Member::default(); writers],
        };
        Self { packets, reached: AtomicBool::new(packets == 0), decision: Mutex::new(decision) }
    }

    /// The share of the writer at index `place`; a writer that is added later has the next index.
    pub(super) fn share(self: &Arc<Self>, place: usize) -> LimitShare {
        let mut decision = lock(&self.decision);
        let members = decision.members.len().max(place + 1);
        decision.members.resize(members, Member::default());
        drop(decision);
        let is_only = members == 1;
        let room = if is_only { self.packets } else { 0 };
        LimitShare { limit: Arc::clone(self), place, is_only, room }
    }

    /// Whether the first packets are known, so that no more need to be received.
    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    fn reach(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }
}

impl Decision {
    /// Grants packets up to the time `overdue`, or up to the lowest horizon of the writers if that
    /// is later.
    fn settle(&mut self, overdue: u64) {
        let horizon = self.members.iter().map(|member| member.horizon).min().unwrap_or(u64::MAX);
        let until = horizon.max(overdue);
        while self.left > 0
            && let Some(Reverse((time, place))) = self.waiting.peek().copied()
            && time <= until
        {
            self.waiting.pop();
            self.left -= 1;
            if let Some(member) = self.members.get_mut(place) {
                member.granted += 1;
            }
        }
    }
}

impl LimitShare {
    /// Announces packets of these times.
    pub(super) fn announce(&self, times: impl Iterator<Item = u64>) {
        if !self.is_only && !self.limit.is_reached() {
            let place = self.place;
            let waiting = times.map(|time| Reverse((time, place)));
            lock(&self.limit.decision).waiting.extend(waiting);
        }
    }

    /// This writer will announce no packet older than `horizon`. Packets up to the time `overdue`
    /// do not wait for silent writers.
    pub(super) fn decide(&mut self, horizon: u64, overdue: u64) {
        if self.is_only {
            return;
        }
        let mut decision = lock(&self.limit.decision);
        if let Some(member) = decision.members.get_mut(self.place) {
            member.horizon = member.horizon.max(horizon);
        }
        decision.settle(overdue);
        if let Some(member) = decision.members.get_mut(self.place) {
            self.room += std::mem::take(&mut member.granted);
        }
        if decision.left == 0 {
            self.limit.reach();
        }
    }

    /// How many packets may be passed on now.
    pub(super) fn room(&self) -> u64 {
        self.room
    }

    /// Notes that `packets` were passed on.
    pub(super) fn use_up(&mut self, packets: u64) {
        self.room = self.room.saturating_sub(packets);
        if self.is_only && self.room == 0 {
            self.limit.reach();
        }
    }

    /// Whether no further packet belongs to the first ones.
    pub(super) fn is_used_up(&self) -> bool {
        if self.room > 0 || !self.limit.is_reached() {
            return false;
        }
        // Another writer may have decided since.
        let decision = lock(&self.limit.decision);
        decision.members.get(self.place).is_none_or(|member| member.granted == 0)
    }
}

impl Drop for LimitShare {
    fn drop(&mut self) {
        self.decide(u64::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(packets: u64, writers: usize) -> (Arc<PacketLimit>, Vec<LimitShare>) {
        let limit = Arc::new(PacketLimit::new(packets, writers));
        let shares = (0..writers).map(|place| limit.share(place)).collect();
        (limit, shares)
    }

    #[test]
    fn one_writer_decides_alone() {
        let (limit, mut shares) = shares(5, 1);
        let share = &mut shares[0];
        share.announce([1, 2, 3].into_iter());
        share.decide(0, 0);
        share.use_up(3);
        assert_eq!((share.room(), share.is_used_up(), limit.is_reached()), (2, false, false));
        share.use_up(2);
        assert_eq!((share.room(), share.is_used_up(), limit.is_reached()), (0, true, true));
    }

    #[test]
    fn several_writers_get_the_first_packets_of_all() {
        let (limit, mut shares) = shares(4, 2);
        shares[0].announce([10, 40, 50].into_iter());
        shares[0].decide(50, 0);
        assert_eq!(shares[0].room(), 0, "the other one may have older packets");
        shares[1].announce([20, 30, 60].into_iter());
        shares[1].decide(30, 0);
        assert_eq!((shares[1].room(), limit.is_reached()), (2, false));
        shares[0].decide(50, 0);
        assert_eq!(shares[0].room(), 1);
        shares[1].decide(60, 0);
        assert!(limit.is_reached() && !shares[0].is_used_up());
        shares[0].decide(50, 0);
        assert_eq!((shares[0].room(), shares[1].room()), (2, 2));
        shares.iter_mut().for_each(|share| share.use_up(2));
        assert!(shares.iter().all(LimitShare::is_used_up));
    }

    #[test]
    fn nobody_waits_for_a_writer_that_has_failed_or_is_silent() {
        let (limit, mut shares) = shares(2, 2);
        shares[0].announce([10, 20].into_iter());
        shares[0].decide(20, 10);
        assert_eq!(shares[0].room(), 1);
        shares.pop();
        shares[0].decide(20, 0);
        assert!(shares[0].room() == 2 && limit.is_reached());
    }
}
