//! Merges packets into frames.

use std::sync::Arc;

use super::held::Held;
use super::limits::Limits;
use super::packet::{MergeablePacket, Unmergeable};
use super::stats::{Alone, CoalesceCounters, Flush};
use super::store::{Copies, Store};
use crate::frame::{MAX_PACKET, Offload};

/// Merges packets. It does no I/O; the caller passes the time, in any monotonic unit.
///
/// Held packets are stored in buffers of type `B`: private memory, unless a port provides buffers.
#[derive(Debug)]
pub struct Coalescer<B = Vec<u8>> {
    limits: Limits,
    held: Vec<Held<B>>,
    /// Unused buffers.
    free: Vec<Held<B>>,
    counters: Arc<CoalesceCounters>,
}

/// Room for the longest packet and its link header with tags.
pub(crate) const COALESCED: usize = MAX_PACKET + 64;

impl Coalescer {
    /// An empty coalescer. It allocates the memory for all flows now.
    pub fn new(limits: Limits) -> Self {
        Self::with_buffers(limits, || Vec::with_capacity(COALESCED))
    }

    /// Adds a packet that arrived at `now`, with its pending `offload`. Passes frames to `send`:
    /// the packet itself, frames held before it, or both.
    pub fn push(
        &mut self,
        frame: &[u8],
        offload: Offload,
        now: u64,
        send: &mut impl FnMut(&[u8], Offload),
    ) {
        self.take((frame, offload), &offload, now, &mut Copies(send));
    }

    /// Passes on frames that have been held for the age limit.
    pub fn expire(&mut self, now: u64, send: &mut impl FnMut(&[u8], Offload)) {
        self.expire_to(now, &mut Copies(send));
    }

    /// Passes on all held frames.
    pub fn flush(&mut self, send: &mut impl FnMut(&[u8], Offload)) {
        self.flush_to(&mut Copies(send));
    }
}

impl<B> Coalescer<B> {
    /// An empty coalescer. It makes its buffers now, one per flow.
    pub(crate) fn with_buffers(limits: Limits, mut buffer: impl FnMut() -> B) -> Self {
        let limits =
            Limits { size: limits.size.min(MAX_PACKET), flows: limits.flows.max(1), ..limits };
        let free = (0..limits.flows).map(|_| Held::empty(buffer())).collect();
        Self { limits, held: Vec::with_capacity(limits.flows), free, counters: Arc::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the protocols to merge and the largest frame size, from the next packet on.
    pub(crate) fn adjust(&mut self, tcp: bool, udp: bool, size: usize) {
        self.limits = Limits { tcp, udp, size: size.min(MAX_PACKET), ..self.limits };
    }

    /// The counters, for any thread to read.
    pub fn counters(&self) -> &Arc<CoalesceCounters> {
        &self.counters
    }

    /// Number of held frames.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The buffers of held frames, oldest first.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &B> {
        self.held.iter().map(|held| &held.buffer)
    }

    /// Like [`Coalescer::push`], for packets in `store`.
    pub(crate) fn take<S: Store<Buffer = B>>(
        &mut self,
        packet: S::Packet<'_>,
        offload: &Offload,
        now: u64,
        store: &mut S,
    ) {
        let partial = offload.checksum;
        if *offload != (Offload { checksum: partial, ..Offload::default() }) {
            return self.pass(packet, Alone::Offload, store);
        }
        self.counters.packets.add(1);
        let parsed = match MergeablePacket::parse(S::bytes(&packet), partial, &self.limits) {
            Ok(parsed) => parsed,
            Err(kind) => {
                let reason = kind.reason();
                self.flush_flow(&kind, store);
                self.counters.alone(reason).add(1);
                return store.pass(packet);
            }
        };
        if let Some(index) = self.held.iter().position(|held| held.is_flow::<S>(&parsed.flow)) {
            let merged = match self.held.get_mut(index) {
                Some(held) => held.merge(&parsed, &self.limits, store),
                None => Err(Flush::Order),
            };
            match merged {
                Ok(None) => return,
                Ok(Some(reason)) => return self.hand_on(index, reason, store),
                Err(reason) => self.hand_on(index, reason, store),
            }
        }
        if parsed.ends_frame() {
            self.counters.alone(Alone::Single).add(1);
            return store.pass(packet);
        }
        if self.free.is_empty() {
            let ages = self.held.iter().enumerate().map(|(index, held)| (held.since(), index));
            if let Some((_, oldest)) = ages.min() {
                self.hand_on(oldest, Flush::Evicted, store);
            }
        }
        if let Some(mut held) = self.free.pop() {
            held.start(&parsed, now);
            store.begin(&mut held.buffer, packet);
            self.held.push(held);
        }
    }

    /// Passes on a packet that must not be merged for a reason outside the packet.
    pub(crate) fn pass<S: Store<Buffer = B>>(
        &mut self,
        packet: S::Packet<'_>,
        reason: Alone,
        store: &mut S,
    ) {
        self.counters.packets.add(1);
        self.counters.alone(reason).add(1);
        // With both protocols off, parsing only finds the flow.
        let limits = Limits { tcp: false, udp: false, ..self.limits };
        if let Err(kind) = MergeablePacket::parse(S::bytes(&packet), None, &limits) {
            self.flush_flow(&kind, store);
        }
        store.pass(packet);
    }

    /// Like [`Coalescer::expire`].
    pub(crate) fn expire_to<S: Store<Buffer = B>>(&mut self, now: u64, store: &mut S) {
        let age = self.limits.age;
        self.flush_where(Flush::Age, store, |held| now.saturating_sub(held.since()) >= age);
    }

    /// Like [`Coalescer::flush`].
    pub(crate) fn flush_to<S: Store<Buffer = B>>(&mut self, store: &mut S) {
        self.flush_where(Flush::Asked, store, |_| true);
    }

    /// Passes on the held frames of a packet's flow. If only its addresses are known, they decide.
    fn flush_flow<S: Store<Buffer = B>>(&mut self, kind: &Unmergeable<'_>, store: &mut S) {
        self.flush_where(Flush::Unmergeable, store, |held| match kind {
            Unmergeable::Flow(flow, _) => held.is_flow::<S>(flow),
            Unmergeable::Addresses(addresses, _) => held.has_addresses(addresses),
            // It may belong to any flow.
            Unmergeable::Foreign(reason) => *reason == Alone::Malformed,
        });
    }

    /// Passes on the frames selected by `which`, oldest first.
    fn flush_where<S: Store<Buffer = B>>(
        &mut self,
        reason: Flush,
        store: &mut S,
        which: impl Fn(&Held<B>) -> bool,
    ) {
        while let Some(index) = self.held.iter().position(&which) {
            self.hand_on(index, reason, store);
        }
    }

    fn hand_on<S: Store<Buffer = B>>(&mut self, index: usize, reason: Flush, store: &mut S) {
        if index >= self.held.len() {
            return;
        }
        let mut held = self.held.remove(index);
        let (packets, bytes) = (held.segments(), held.wire_bytes::<S>());
        let segments = u64::from(packets);
        self.counters.flushed(reason).add(1);
        let offload = held.finish::<S>();
        if packets > 1 {
            self.counters.super_frames.add(1);
            self.counters.merged.add(segments);
            self.counters.partial.add(held.partial().into());
            let length = S::content(&held.buffer).len();
            let class = self.counters.class(held.class());
            class.count(held.mss(), length, length);
            class.segments.add(segments);
            class.bytes.add(length as u64);
        } else {
            self.counters.alone(Alone::Single).add(1);
        }
        store.hand_on(&mut held.buffer, offload, packets, bytes);
        self.free.push(held);
    }
}
