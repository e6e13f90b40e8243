//! The counters of a coalescer.

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::segment::stats::{ClassCounters, ClassStats, ReasonStats, SegmentClass, reasons};
use crate::sync::Counter;

reasons! {
    /// Why a held frame was passed on.
    Flush {
        /// Its last packet has PSH or FIN.
        Push = "push",
        /// Its last packet is shorter than the others.
        Short = "short",
        /// It reached its limit of bytes or packets.
        Full = "full",
        /// The next packet of its flow is longer, or has other headers, tags, flags or options.
        Differs = "differs",
        /// The next packet of its flow is not the next in order.
        Order = "order",
        /// The next packet of its flow cannot be merged at all.
        Unmergeable = "unmergeable",
        /// It waited too long.
        Age = "age",
        /// Its buffer was needed for another flow.
        Evicted = "evicted",
        /// The caller requested all frames.
        Asked = "asked",
        /// No memory was available to merge it with another packet.
        NoMemory = "no_memory",
    }
}

reasons! {
    /// Why a packet was passed on unchanged.
    Alone {
        /// Neither TCP nor UDP over IP, or merging of the protocol is off.
        OtherProtocol = "other_protocol",
        /// A header is cut short or impossible.
        Malformed = "malformed",
        /// A fragment, or with IP options or extension headers.
        NotPlain = "not_plain",
        /// A checksum is wrong or not in its usual form; or a partial checksum is not the sum of
        /// the pseudo-header.
        Checksum = "checksum",
        /// The frame has padding or a trailer after the packet, which segmentation would not
        /// restore.
        Trailer = "trailer",
        /// Longer than the sink's MTU.
        AboveMtu = "above_mtu",
        /// No payload.
        Empty = "empty",
        /// SYN, RST or URG, or without ACK.
        Flags = "flags",
        /// No following packet could be merged with it.
        Single = "single",
        /// It has other pending offloads than its own checksum.
        Offload = "offload",
        /// The packet is truncated.
        Cut = "cut",
    }
}

/// The counters of a coalescer. One thread writes them, any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CoalesceCounters {
    /// Packets received.
    pub packets: Counter,
    /// Frames of at least two packets.
    pub super_frames: Counter,
    /// Packets in these frames.
    pub merged: Counter,
    /// Packets in these frames that had a partial checksum.
    pub partial: Counter,
    classes: [ClassCounters; SegmentClass::ALL.len()],
    flushed: [Counter; Flush::ALL.len()],
    alone: [Counter; Alone::ALL.len()],
}

impl CoalesceCounters {
    /// Frames and single packets that were held and passed on for this reason.
    pub fn flushed(&self, reason: Flush) -> &Counter {
        // An enumeration without values indexes an array of its length.
        &self.flushed[reason as usize]
    }

    /// Packets that were passed on unchanged for this reason.
    pub fn alone(&self, reason: Alone) -> &Counter {
        &self.alone[reason as usize]
    }

    /// Merged frames of one class: `segments` counts their packets, lengths and bytes are of the
    /// frames.
    pub fn class(&self, class: SegmentClass) -> &ClassCounters {
        &self.classes[class as usize]
    }

    /// A snapshot of all counters, without reasons that are zero.
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

/// The counters of merging for one RX queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct CoalesceStats {
    /// Packets received.
    pub packets: u64,
    /// Frames of at least two packets.
    pub super_frames: u64,
    /// Packets in these frames.
    pub merged: u64,
    /// Packets in these frames that had a partial checksum.
    pub partial: u64,
    /// Merged frames by class: `segments` counts their packets, lengths and bytes are of the
    /// frames.
    pub classes: Vec<ClassStats>,
    /// Held frames and single packets that were passed on, by reason.
    pub flushed: Vec<ReasonStats>,
    /// Packets that were passed on unchanged, by reason.
    pub alone: Vec<ReasonStats>,
}
