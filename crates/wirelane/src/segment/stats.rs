//! The counters of the segmenter, per class of traffic.

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::sync::Counter;

/// The kind of packet that is segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentClass {
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams over IPv4.
    Udp4,
    /// UDP datagrams over IPv6.
    Udp6,
    /// IPv4 fragments.
    Frag4,
    /// IPv6 fragments.
    Frag6,
}

impl SegmentClass {
    /// All classes, in the order of the counters.
    pub const ALL: [Self; 6] =
        [Self::Tcp4, Self::Tcp6, Self::Udp4, Self::Udp6, Self::Frag4, Self::Frag6];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp4 => "tcp4",
            Self::Tcp6 => "tcp6",
            Self::Udp4 => "udp4",
            Self::Udp6 => "udp6",
            Self::Frag4 => "frag4",
            Self::Frag6 => "frag6",
        }
    }
}

/// A closed set of reasons, each with a name and a counter.
macro_rules! reasons {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$inner])* $variant,)+ }

        impl $name {
            /// All of them, in the order of the counters.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// Its name in reports.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(super) use reasons;

reasons! {
    /// Why a frame passes without segmentation.
    Bypass {
        /// It requests no offload, or only its checksum.
        NotAsked = "not_asked",
        /// Its payload fits one segment.
        Fits = "fits",
        /// The sink segments it.
        SinkSegments = "sink_segments",
    }
}

reasons! {
    /// Why a frame is not segmented and must not be sent.
    Refusal {
        /// It is longer than the MTU and requests no segmentation, or datagrams longer than the
        /// MTU.
        AboveMtu = "above_mtu",
        /// It is not IP, or has another version than its offload.
        NotIp = "not_ip",
        /// A header is truncated or impossible.
        Malformed = "malformed",
        /// A length field differs from the length of the frame.
        LengthMismatch = "length_mismatch",
        /// It is a fragment already.
        Fragment = "fragment",
        /// A jumbo payload option (RFC 2675), or a length beyond the limits of IP.
        Jumbogram = "jumbogram",
        /// An authentication header covers fields that would change (RFC 4302).
        Authenticated = "authenticated",
        /// A routing header of an unknown kind, which hides the final receiver.
        RoutingHeader = "routing_header",
        /// The upper layer differs from the offload's.
        OtherProtocol = "other_protocol",
        /// SYN or RST, which only one segment may have.
        SynOrRst = "syn_or_rst",
        /// The checksum is not at the upper layer's offset.
        ChecksumPlace = "checksum_place",
        /// "Don't fragment" (RFC 791) is set, and fragments are requested.
        DontFragment = "dont_fragment",
        /// Headers are longer than [`super::parameters::MAX_HEADER`].
        HeadersTooLong = "headers_too_long",
        /// The MTU leaves no room for payload after the headers.
        MtuTooSmall = "mtu_too_small",
        /// GRE with sequence numbers (RFC 2890). Only the sender knows the next one.
        GreSequence = "gre_sequence",
        /// The tunnel is unknown, or differs from the offload's.
        Tunnel = "tunnel",
        /// More than two tunnels.
        TunnelDepth = "tunnel_depth",
        /// Fragments within a tunnel.
        TunnelFragment = "tunnel_fragment",
    }
}

/// Counters of one class. One thread writes them, any thread reads them.
#[derive(Debug, Default)]
pub struct ClassCounters {
    /// Frames that were segmented.
    pub super_frames: Counter,
    /// Segments, datagrams or fragments sent.
    pub segments: Counter,
    /// Their bytes, with their headers.
    pub bytes: Counter,
    /// The shortest one; 0 if there was none.
    pub smallest_frame: Counter,
    /// The longest one.
    pub largest_frame: Counter,
    /// The smallest payload per segment; 0 if no frame was segmented.
    pub smallest_mss: Counter,
    /// The largest payload per segment.
    pub largest_mss: Counter,
}

impl ClassCounters {
    /// Counts a frame of this class with the payload of its packets and the lengths of the shortest
    /// and the longest one.
    pub(super) fn count(&self, mss: usize, smallest: usize, largest: usize) {
        let at_least = |counter: &Counter, value: usize| {
            if value as u64 > counter.value() {
                counter.set(value as u64);
            }
        };
        let at_most = |counter: &Counter, value: usize| {
            if counter.value() == 0 || (value as u64) < counter.value() {
                counter.set(value as u64);
            }
        };
        self.super_frames.add(1);
        at_most(&self.smallest_mss, mss);
        at_least(&self.largest_mss, mss);
        at_most(&self.smallest_frame, smallest);
        at_least(&self.largest_frame, largest);
    }

    /// A snapshot of the classes in use.
    pub(super) fn snapshot(classes: &[Self; SegmentClass::ALL.len()]) -> Vec<ClassStats> {
        let read = |(class, counters): (SegmentClass, &Self)| ClassStats {
            class: class.as_str(),
            super_frames: counters.super_frames.value(),
            segments: counters.segments.value(),
            bytes: counters.bytes.value(),
            smallest_frame: counters.smallest_frame.value(),
            largest_frame: counters.largest_frame.value(),
            smallest_mss: counters.smallest_mss.value(),
            largest_mss: counters.largest_mss.value(),
        };
        let all = SegmentClass::ALL.into_iter().zip(classes).map(read);
        all.filter(|stats| stats.super_frames > 0).collect()
    }
}

/// The counters of a segmenter. One thread writes them, any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SegmentCounters {
    classes: [ClassCounters; SegmentClass::ALL.len()],
    bypassed: [Counter; Bypass::ALL.len()],
    refused: [Counter; Refusal::ALL.len()],
    /// Frames whose padding or trailer was removed.
    pub trailers: Counter,
}

impl SegmentCounters {
    /// The counters of one class.
    pub fn class(&self, class: SegmentClass) -> &ClassCounters {
        // An enumeration without values indexes an array of its length.
        &self.classes[class as usize]
    }

    /// Frames that passed for this reason.
    pub fn bypassed(&self, reason: Bypass) -> &Counter {
        &self.bypassed[reason as usize]
    }

    /// Frames that were refused for this reason.
    pub fn refused(&self, reason: Refusal) -> &Counter {
        &self.refused[reason as usize]
    }

    /// A snapshot of all counters; the lists omit zero counters.
    pub fn snapshot(&self) -> SegmentStats {
        let named = |reason, counter: &Counter| {
            let frames = counter.value();
            (frames > 0).then_some(ReasonStats { reason, frames })
        };
        SegmentStats {
            classes: ClassCounters::snapshot(&self.classes),
            bypassed: Bypass::ALL
                .into_iter()
                .filter_map(|reason| named(reason.as_str(), self.bypassed(reason)))
                .collect(),
            refused: Refusal::ALL
                .into_iter()
                .filter_map(|reason| named(reason.as_str(), self.refused(reason)))
                .collect(),
            trailers: self.trailers.value(),
        }
    }
}

/// The counters of segmentation for one TX queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct SegmentStats {
    /// Classes with segmented frames.
    pub classes: Vec<ClassStats>,
    /// Frames that passed, by reason.
    pub bypassed: Vec<ReasonStats>,
    /// Frames that were refused, by reason.
    pub refused: Vec<ReasonStats>,
    /// Frames whose padding or trailer was removed.
    pub trailers: u64,
}

/// The counters of one class of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct ClassStats {
    /// Name of the class.
    pub class: &'static str,
    /// Frames that were segmented.
    pub super_frames: u64,
    /// Segments, datagrams or fragments sent.
    pub segments: u64,
    /// Their bytes, with their headers.
    pub bytes: u64,
    /// The shortest one; 0 if there was none.
    pub smallest_frame: u64,
    /// The longest one.
    pub largest_frame: u64,
    /// The smallest payload per segment.
    pub smallest_mss: u64,
    /// The largest payload per segment.
    pub largest_mss: u64,
}

/// Frames by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct ReasonStats {
    /// Name of the reason.
    pub reason: &'static str,
    /// Frames.
    pub frames: u64,
}
