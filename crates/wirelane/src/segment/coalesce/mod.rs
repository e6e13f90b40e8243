//! The inverse of segmentation (GRO): packets of a flow that follow each other become one frame.
//!
//! What comes out says how it was put together, so that cutting it gives the very same packets back.
//! Therefore only packets merge that cutting would make: with right checksums, in order, of one size, with the
//! same headers, and with nothing behind the packet, neither padding nor a trailer. A packet that cannot be
//! merged is handed on as it is, behind what is held of its flow: order within a flow is kept.
//!
//! A checksum that its sender left to do needs no verification, and what is merged leaves its own to do in
//! any case: whoever cuts it completes that of each packet, or leaves it to a sink that does.
//!
//! ```
//! use wirelane::frame::Offload;
//! use wirelane::segment::{Coalescer, Limits};
//! # let (packets, now): (Vec<Vec<u8>>, u64) = (vec![vec![0; 60]], 0);
//! let mut coalescer = Coalescer::new(Limits::default());
//! let mut send = |frame: &[u8], offload: Offload| { /* to the stack */ };
//! for packet in &packets {
//!     coalescer.push(packet, Offload::default(), now, &mut send);
//! }
//! coalescer.flush(&mut send); // at the end of a batch, or
//! coalescer.expire(now, &mut send); // only what waited too long
//! ```

mod held;
mod packet;
mod store;

use std::sync::Arc;

use serde::Serialize;

use self::held::Held;
use self::packet::{Kind, Packet};
use self::store::Copies;
pub(crate) use self::store::Store;
use super::stats::reasons;
use super::{Class, ClassCounters, ClassStats};
use crate::frame::{MAX_PACKET, Offload};
use crate::sync::Counter;

/// Datagrams in one frame at most. As many as the kernel's GRO merges (`UDP_GRO_CNT_MAX` in
/// `net/ipv4/udp_offload.c`), which whoever receives with `UDP_GRO` has room for, and no more than it cuts: a frame
/// of more than `UDP_MAX_SEGMENTS` (`include/linux/udp.h`: 64, and 128 from Linux 6.9 on) is refused
/// (`virtio_net_hdr_to_skb()`).
pub const MAX_DATAGRAMS: u32 = 64;

/// When what is held is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the longest frame, from its IP header on; 65535 at most.
    pub size: usize,
    /// Bytes of the longest packet that is merged, from its IP header on: what the sink sends in one piece. A longer one
    /// would not come back as it was, and what is to become of it is decided where it leaves.
    pub packet: usize,
    /// Packets in one frame; of UDP [`MAX_DATAGRAMS`] at most.
    pub segments: u32,
    /// How long the first packet may wait, in units of the time that is passed in.
    pub age: u64,
    /// Flows held at a time. Each takes 64 KiB.
    pub flows: usize,
    /// Merge TCP.
    pub tcp: bool,
    /// Merge UDP.
    pub udp: bool,
}

impl Default for Limits {
    /// Everything IP allows, for 8 flows, 20 µs when time is in nanoseconds.
    fn default() -> Self {
        Self {
            size: MAX_PACKET,
            packet: MAX_PACKET,
            segments: 65_535,
            age: 20_000,
            flows: 8,
            tcp: true,
            udp: true,
        }
    }
}

reasons! {
    /// Why a held frame was handed on.
    Flush {
        /// Its last packet has PSH or FIN.
        Push = "push",
        /// Its last packet is shorter than the others.
        Short = "short",
        /// It reached its limit of bytes or packets.
        Full = "full",
        /// The next packet of its flow has other headers, tags, flags or options, or is longer.
        Differs = "differs",
        /// The next packet of its flow is not the next in order.
        Order = "order",
        /// The next packet of its flow cannot be merged at all.
        Unmergeable = "unmergeable",
        /// It waited too long.
        Age = "age",
        /// Its place was needed for another flow.
        Evicted = "evicted",
        /// All was to be handed on.
        Asked = "asked",
        /// There was no memory to merge it with another packet.
        NoMemory = "no_memory",
    }
}

reasons! {
    /// Why a packet passed as it is.
    Alone {
        /// Neither TCP nor UDP over IP, or switched off.
        OtherProtocol = "other_protocol",
        /// A header is cut short or impossible.
        Malformed = "malformed",
        /// A fragment, or with IP options or extension headers.
        NotPlain = "not_plain",
        /// A checksum is wrong or not in its usual form; one that is left to do holds the sum of the pseudo-header.
        Checksum = "checksum",
        /// Bytes behind the packet, which cutting would not give back: padding, or a trailer.
        Trailer = "trailer",
        /// Longer than what the sink sends in one piece.
        AboveMtu = "above_mtu",
        /// No payload.
        Empty = "empty",
        /// SYN, RST or URG, or without ACK.
        Flags = "flags",
        /// Nothing followed that could be merged with it.
        Single = "single",
        /// Its sender left something to do, and not only its own checksum.
        Offload = "offload",
        /// Only a part of it is there.
        Cut = "cut",
    }
}

/// What a coalescer did. Written by one thread, read by any.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CoalesceCounters {
    /// Packets that came in.
    pub packets: Counter,
    /// Frames of at least two packets that went out.
    pub super_frames: Counter,
    /// Packets in those.
    pub merged: Counter,
    /// Packets in those whose checksum their sender had left to do.
    pub partial: Counter,
    classes: [ClassCounters; Class::ALL.len()],
    flushed: [Counter; Flush::ALL.len()],
    alone: [Counter; Alone::ALL.len()],
}

impl CoalesceCounters {
    /// Frames and single packets that were held and handed on for this reason.
    pub fn flushed(&self, reason: Flush) -> &Counter {
        // An enumeration without values indexes an array of its length.
        &self.flushed[reason as usize]
    }

    /// Packets that passed as they are for this reason.
    pub fn alone(&self, reason: Alone) -> &Counter {
        &self.alone[reason as usize]
    }

    /// Merged frames of one class: segments are the packets in them, lengths and bytes their own.
    pub fn class(&self, class: Class) -> &ClassCounters {
        &self.classes[class as usize]
    }

    /// A reading of all counters; reasons that are zero are left out.
    pub fn snapshot(&self) -> CoalesceStats {
        let named = |reason, counter: &Counter| {
            let frames = counter.value();
            (frames > 0).then_some(super::ReasonStats { reason, frames })
        };
        let flushed = Flush::ALL.into_iter().filter_map(|it| named(it.as_str(), self.flushed(it)));
        let alone = Alone::ALL.into_iter().filter_map(|it| named(it.as_str(), self.alone(it)));
        CoalesceStats {
            packets: self.packets.value(),
            super_frames: self.super_frames.value(),
            merged: self.merged.value(),
            partial: self.partial.value(),
            classes: ClassCounters::snapshot(&self.classes),
            flushed: flushed.collect(),
            alone: alone.collect(),
        }
    }
}

/// A reading of [`CoalesceCounters`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoalesceStats {
    /// Packets that came in.
    pub packets: u64,
    /// Frames of at least two packets that went out.
    pub super_frames: u64,
    /// Packets in those.
    pub merged: u64,
    /// Packets in those whose checksum their sender had left to do.
    pub partial: u64,
    /// Merged frames by class: segments are the packets in them, lengths and bytes their own.
    pub classes: Vec<ClassStats>,
    /// What was held and handed on, by reason.
    pub flushed: Vec<super::ReasonStats>,
    /// Packets that passed, by reason.
    pub alone: Vec<super::ReasonStats>,
}

/// Merges packets. It does no input or output; time is passed in, in any unit that only grows.
///
/// What it holds lies in buffers of type `B`: memory of its own, unless a port gives others.
#[derive(Debug)]
pub struct Coalescer<B = Vec<u8>> {
    limits: Limits,
    held: Vec<Held<B>>,
    /// Buffers of what is not held now.
    free: Vec<Held<B>>,
    counters: Arc<CoalesceCounters>,
}

/// Room for the longest packet and the link header with its tags.
pub(crate) const COALESCED: usize = MAX_PACKET + 64;

impl Coalescer {
    /// A coalescer that holds nothing. It takes the memory for all flows now.
    pub fn new(limits: Limits) -> Self {
        Self::with_buffers(limits, || Vec::with_capacity(COALESCED))
    }

    /// Takes a packet that came at `now`, and to which `offload` is left to do. `send` gets what is to be handed
    /// on: the packet itself, or what was held before it, or both.
    pub fn push(
        &mut self,
        frame: &[u8],
        offload: Offload,
        now: u64,
        send: &mut impl FnMut(&[u8], Offload),
    ) {
        self.take((frame, offload), &offload, now, &mut Copies(send));
    }

    /// Hands on what has been held since before `now` less the age limit.
    pub fn expire(&mut self, now: u64, send: &mut impl FnMut(&[u8], Offload)) {
        self.expire_to(now, &mut Copies(send));
    }

    /// Hands on all that is held.
    pub fn flush(&mut self, send: &mut impl FnMut(&[u8], Offload)) {
        self.flush_to(&mut Copies(send));
    }
}

impl<B> Coalescer<B> {
    /// A coalescer that holds nothing, in buffers that are made now, one per flow.
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

    /// Changes what is merged and how long frames may become, from the next packet on.
    pub(crate) fn adjust(&mut self, tcp: bool, udp: bool, size: usize) {
        self.limits = Limits { tcp, udp, size: size.min(MAX_PACKET), ..self.limits };
    }

    /// The counters, for any thread to read.
    pub fn counters(&self) -> &Arc<CoalesceCounters> {
        &self.counters
    }

    /// Frames that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What is held, oldest first.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &B> {
        self.held.iter().map(|held| &held.buffer)
    }

    /// As [`Coalescer::push`], for packets that `store` has.
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
        let parsed = match Packet::parse(S::bytes(&packet), partial, &self.limits) {
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

    /// Lets a packet pass that must not be merged for a reason that it does not show itself.
    pub(crate) fn pass<S: Store<Buffer = B>>(
        &mut self,
        packet: S::Packet<'_>,
        reason: Alone,
        store: &mut S,
    ) {
        self.counters.packets.add(1);
        self.counters.alone(reason).add(1);
        // With both protocols off the flow is all that is looked for.
        let limits = Limits { tcp: false, udp: false, ..self.limits };
        if let Err(kind) = Packet::parse(S::bytes(&packet), None, &limits) {
            self.flush_flow(&kind, store);
        }
        store.pass(packet);
    }

    /// As [`Coalescer::expire`].
    pub(crate) fn expire_to<S: Store<Buffer = B>>(&mut self, now: u64, store: &mut S) {
        let age = self.limits.age;
        self.flush_where(Flush::Age, store, |held| now.saturating_sub(held.since()) >= age);
    }

    /// As [`Coalescer::flush`].
    pub(crate) fn flush_to<S: Store<Buffer = B>>(&mut self, store: &mut S) {
        self.flush_where(Flush::Asked, store, |_| true);
    }

    /// Hands on what is held of the flow of a packet, as far as that can be told.
    fn flush_flow<S: Store<Buffer = B>>(&mut self, kind: &Kind<'_>, store: &mut S) {
        self.flush_where(Flush::Unmergeable, store, |held| match kind {
            Kind::Flow(flow, _) => held.is_flow::<S>(flow),
            Kind::Addresses(addresses, _) => held.has_addresses(addresses),
            // Of whatever flow it is meant to be: nobody can tell.
            Kind::Foreign(reason) => *reason == Alone::Malformed,
        });
    }

    /// Hands on, oldest first, what `which` says.
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
