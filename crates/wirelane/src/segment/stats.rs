//! What the segmenter did, per class of traffic.

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::sync::Counter;

/// What kind of packet is cut.
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
    /// Why a frame passes without being cut.
    Bypass {
        /// It asked for nothing, or only for its checksum.
        NotAsked = "not_asked",
        /// Its payload fits one segment.
        Fits = "fits",
        /// The sink cuts it itself.
        SinkSegments = "sink_segments",
    }
}

reasons! {
    /// Why a frame is not cut and must not be sent.
    Refusal {
        /// It is longer than the MTU and asked for nothing, or for datagrams longer than the MTU.
        AboveMtu = "above_mtu",
        /// It is not IP, or of another version than it says.
        NotIp = "not_ip",
        /// A header is cut short or impossible.
        Malformed = "malformed",
        /// A stated length differs from that of the frame.
        LengthMismatch = "length_mismatch",
        /// It is a fragment already.
        Fragment = "fragment",
        /// A jumbo payload option (RFC 2675), or lengths beyond those of IP.
        Jumbogram = "jumbogram",
        /// An authentication header covers what would change (RFC 4302).
        Authenticated = "authenticated",
        /// A routing header of an unknown kind, which hides the final receiver.
        RoutingHeader = "routing_header",
        /// The upper layer is not the one it says.
        OtherProtocol = "other_protocol",
        /// SYN or RST, of which there can be only one.
        SynOrRst = "syn_or_rst",
        /// The checksum is not where the upper layer has it.
        ChecksumPlace = "checksum_place",
        /// "Don't fragment" (RFC 791) and fragments asked for.
        DontFragment = "dont_fragment",
        /// Headers are longer than [`super::MAX_HEADER`].
        HeadersTooLong = "headers_too_long",
        /// The MTU leaves no room for payload behind the headers.
        MtuTooSmall = "mtu_too_small",
        /// GRE with sequence numbers (RFC 2890), of which only the sender knows the next.
        GreSequence = "gre_sequence",
        /// Not the tunnel it says, or one that is unknown.
        Tunnel = "tunnel",
        /// More tunnels than two.
        TunnelDepth = "tunnel_depth",
        /// Fragments within a tunnel.
        TunnelFragment = "tunnel_fragment",
    }
}

/// Counters of one class. Written by one thread, read by any.
#[derive(Debug, Default)]
pub struct ClassCounters {
    /// Frames that were cut.
    pub super_frames: Counter,
    /// Segments, datagrams or fragments that came out.
    pub segments: Counter,
    /// Bytes of those, with their headers.
    pub bytes: Counter,
    /// The shortest that came out; 0 if none did.
    pub smallest_frame: Counter,
    /// The longest that came out.
    pub largest_frame: Counter,
    /// The smallest payload per segment; 0 if none was cut.
    pub smallest_mss: Counter,
    /// The largest payload per segment.
    pub largest_mss: Counter,
}

impl ClassCounters {
    /// A frame of this class and the packets it consists of: their payload, and the shortest and
    /// the longest of what comes out.
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

    /// A reading of the classes of which there was anything.
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

/// What one segmenter did. Written by one thread, read by any.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SegmentCounters {
    classes: [ClassCounters; SegmentClass::ALL.len()],
    bypassed: [Counter; Bypass::ALL.len()],
    refused: [Counter; Refusal::ALL.len()],
    /// Frames that went on without what they had behind their packet: padding or a trailer.
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

    /// A reading of all counters; those that are zero are left out of the lists.
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

/// A reading of [`SegmentCounters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct SegmentStats {
    /// Classes of which anything was cut.
    pub classes: Vec<ClassStats>,
    /// Frames that passed, by reason.
    pub bypassed: Vec<ReasonStats>,
    /// Frames that were refused, by reason.
    pub refused: Vec<ReasonStats>,
    /// Frames that went on without what they had behind their packet: padding or a trailer.
    pub trailers: u64,
}

/// A reading of [`ClassCounters`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct ClassStats {
    /// Name of the class.
    pub class: &'static str,
    /// Frames that were cut.
    pub super_frames: u64,
    /// What came out.
    pub segments: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The shortest that came out.
    pub smallest_frame: u64,
    /// The longest that came out.
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
