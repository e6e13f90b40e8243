//! The inverse of segmentation (GRO): packets of a flow that follow each other become one frame.
//!
//! What comes out says how it was put together, so that cutting it gives the very same packets back,
//! apart from Ethernet padding. Therefore only packets merge that cutting would make: with right
//! checksums, in order, of one size, with the same headers. A packet that cannot be merged is handed
//! on as it is, behind what is held of its flow: order within a flow is kept.
//!
//! ```
//! use wirelane::segment::{Coalescer, Limits, Offload};
//! # let (packets, now): (Vec<Vec<u8>>, u64) = (vec![vec![0; 60]], 0);
//! let mut coalescer = Coalescer::new(Limits::default());
//! let mut send = |frame: &[u8], offload: Offload| { /* to the stack */ };
//! for packet in &packets {
//!     coalescer.push(packet, now, &mut send);
//! }
//! coalescer.flush(&mut send); // at the end of a batch, or
//! coalescer.expire(now, &mut send); // only what waited too long
//! ```

mod held;
mod packet;

use std::sync::Arc;

use serde::Serialize;

use self::held::Held;
use self::packet::{Kind, Packet};
use super::Offload;
use super::stats::reasons;
use crate::sync::Counter;

/// When what is held is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the longest packet, from its IP header on; 65535 at most.
    pub size: usize,
    /// Packets in one frame.
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
        Self { size: 65_535, segments: 65_535, age: 20_000, flows: 8, tcp: true, udp: true }
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
        /// The next packet of its flow has other headers, flags or options, or is longer.
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
        /// A checksum is wrong or not in its usual form.
        Checksum = "checksum",
        /// No payload.
        Empty = "empty",
        /// SYN, RST or URG, or without ACK.
        Flags = "flags",
        /// Nothing followed that could be merged with it.
        Single = "single",
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
    /// What was held and handed on, by reason.
    pub flushed: Vec<super::ReasonStats>,
    /// Packets that passed, by reason.
    pub alone: Vec<super::ReasonStats>,
}

/// Merges packets. It does no input or output; time is passed in, in any unit that only grows.
#[derive(Debug)]
pub struct Coalescer {
    limits: Limits,
    held: Vec<Held>,
    /// Buffers of what is not held now.
    free: Vec<Held>,
    counters: Arc<CoalesceCounters>,
}

impl Coalescer {
    /// A coalescer that holds nothing. It takes the memory for all flows now.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits {
            size: limits.size.min(super::MAX_PACKET),
            flows: limits.flows.max(1),
            ..limits
        };
        let free = (0..limits.flows).map(|_| Held::empty()).collect();
        Self { limits, held: Vec::with_capacity(limits.flows), free, counters: Arc::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The counters, for any thread to read.
    pub fn counters(&self) -> &Arc<CoalesceCounters> {
        &self.counters
    }

    /// Frames that are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a packet that came at `now`. `send` gets what is to be handed on: the packet itself, or
    /// what was held before it, or both.
    pub fn push(&mut self, frame: &[u8], now: u64, send: &mut impl FnMut(&[u8], Offload)) {
        self.counters.packets.add(1);
        let packet = match Packet::parse(frame, &self.limits) {
            Ok(packet) => packet,
            Err(kind) => {
                // What is held of its flow, as far as that can be told, comes first.
                self.flush_where(Flush::Unmergeable, send, |held| match &kind {
                    Kind::Flow(flow, _) => held.is_flow(flow),
                    Kind::Addresses(addresses, _) => held.has_addresses(addresses),
                    Kind::Foreign(_) => false,
                });
                self.counters.alone(kind.reason()).add(1);
                return send(frame, Offload::default());
            }
        };
        if let Some(index) = self.held.iter().position(|held| held.is_flow(&packet.flow)) {
            let merged = match self.held.get_mut(index) {
                Some(held) => held.merge(&packet, &self.limits),
                None => Err(Flush::Order),
            };
            match merged {
                Ok(None) => return,
                Ok(Some(reason)) => return self.hand_on(index, reason, send),
                Err(reason) => self.hand_on(index, reason, send),
            }
        }
        if packet.ends_frame() {
            self.counters.alone(Alone::Single).add(1);
            return send(frame, Offload::default());
        }
        if self.free.is_empty() {
            let ages = self.held.iter().enumerate().map(|(index, held)| (held.since(), index));
            if let Some((_, oldest)) = ages.min() {
                self.hand_on(oldest, Flush::Evicted, send);
            }
        }
        if let Some(mut held) = self.free.pop() {
            held.start(&packet, now);
            self.held.push(held);
        }
    }

    /// Hands on what has been held since before `now` less the age limit.
    pub fn expire(&mut self, now: u64, send: &mut impl FnMut(&[u8], Offload)) {
        let age = self.limits.age;
        self.flush_where(Flush::Age, send, |held| now.saturating_sub(held.since()) >= age);
    }

    /// Hands on all that is held.
    pub fn flush(&mut self, send: &mut impl FnMut(&[u8], Offload)) {
        self.flush_where(Flush::Asked, send, |_| true);
    }

    /// Hands on, oldest first, what `which` says.
    fn flush_where(
        &mut self,
        reason: Flush,
        send: &mut impl FnMut(&[u8], Offload),
        which: impl Fn(&Held) -> bool,
    ) {
        while let Some(index) = self.held.iter().position(&which) {
            self.hand_on(index, reason, send);
        }
    }

    fn hand_on(&mut self, index: usize, reason: Flush, send: &mut impl FnMut(&[u8], Offload)) {
        if index >= self.held.len() {
            return;
        }
        let mut held = self.held.remove(index);
        let segments = held.segments();
        self.counters.flushed(reason).add(1);
        if segments > 1 {
            self.counters.super_frames.add(1);
            self.counters.merged.add(segments.into());
        } else {
            self.counters.alone(Alone::Single).add(1);
        }
        let (frame, offload) = held.finish();
        send(frame, offload);
        self.free.push(held);
    }
}
