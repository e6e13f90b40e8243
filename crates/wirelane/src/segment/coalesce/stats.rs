//! What a coalescer did.

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::segment::stats::{ClassCounters, ClassStats, ReasonStats, SegmentClass, reasons};
use crate::sync::Counter;

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
        /// A checksum is wrong or not in its usual form; one that is left to do holds the sum of
        /// the pseudo-header.
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
    classes: [ClassCounters; SegmentClass::ALL.len()],
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
    pub fn class(&self, class: SegmentClass) -> &ClassCounters {
        &self.classes[class as usize]
    }

    /// A reading of all counters; reasons that are zero are left out.
    pub fn snapshot(&self) -> CoalesceStats {
        let named = |reason, counter: &Counter| {
            let frames = counter.value();
            (frames > 0).then_some(ReasonStats { reason, frames })
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
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
    pub flushed: Vec<ReasonStats>,
    /// Packets that passed, by reason.
    pub alone: Vec<ReasonStats>,
}
