//! The rules with their references, and findings.

use std::fmt;

/// Defines the rules: variant, name, reference, and description.
macro_rules! rules {
    ($($(#[$inner:meta])* $variant:ident: $name:literal, $reference:literal, $says:literal;)+) => {
        /// A rule for packets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule { $(#[doc = $says] $(#[$inner])* $variant,)+ }

        impl Rule {
            /// All rules, in the order of the summary.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The document and section.
            pub const fn reference(self) -> &'static str {
                match self { $(Self::$variant => $reference,)+ }
            }

            /// The description of the rule.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => $says,)+ }
            }
        }
    };
}

rules! {
    Ipv4Header: "ipv4-header", "RFC 791 section 3.1",
        "version 4, a header of at least 20 bytes, and a total length that holds it";
    Ipv6Header: "ipv6-header", "RFC 8200 sections 3 and 4",
        "version 6, a whole header, and extension headers that end within the packet";
    IpLength: "ip-length", "RFC 791 section 3.1, RFC 8200 section 3",
        "the stated length is not beyond the frame";
    Ipv4Checksum: "ipv4-checksum", "RFC 791 section 3.1, RFC 1071",
        "the checksum of the IPv4 header";
    Ipv4Id: "ipv4-id", "RFC 6864 sections 4.1 and 4.3",
        "different packets of a flow have different identifications, unless DF is set";
    Mtu: "mtu", "RFC 894, RFC 791 section 3.2",
        "no packet is longer than the MTU";
    SuperFrame: "super-frame", "RFC 894",
        "longer than a link takes: captured before the device or the kernel cut it, or after it \
         was put together";
    FragmentSize: "fragment-size", "RFC 791 section 3.2, RFC 8200 section 4.5",
        "fragments but the last are multiples of 8 bytes, and hold something";
    FragmentOversize: "fragment-oversize", "RFC 791 section 3.1, RFC 8200 section 4.5",
        "the packet that fragments make is at most 65535 bytes long";
    FragmentOverlap: "fragment-overlap", "RFC 791 section 3.2, RFC 8200 section 4.5, RFC 5722",
        "fragments of one packet do not overlap";
    FragmentEnd: "fragment-end", "RFC 791 section 3.2, RFC 8200 section 4.5",
        "one fragment is the last, and nothing lies behind it";
    FragmentMissing: "fragment-missing", "RFC 791 section 3.2, RFC 8200 section 4.5",
        "all fragments of a packet are there";
    FragmentOptions: "fragment-options", "RFC 791 section 3.1",
        "later fragments have only the options that are to be copied";
    Fragment6Chain: "fragment6-chain", "RFC 8200 section 4.5, RFC 7112",
        "the first fragment has all headers up to that of the upper layer";
    Fragment6Small: "fragment6-small", "RFC 8200 section 5",
        "fragments but the last need not be shorter than 1280 bytes, which every link takes";
    Fragment6Atomic: "fragment6-atomic", "RFC 8021, RFC 6946",
        "no fragment header in a packet that is whole";
    TcpHeader: "tcp-header", "RFC 9293 section 3.1",
        "a header of at least 20 bytes within the packet";
    TcpOptions: "tcp-options", "RFC 9293 section 3.2",
        "options end within the header and have possible lengths";
    TcpChecksum: "tcp-checksum", "RFC 9293 section 3.1, RFC 8200 section 8.1",
        "the checksum of the segment and its pseudo-header";
    TcpFin: "tcp-fin", "RFC 9293 section 3.10.4",
        "no data behind FIN: it belongs to the last segment";
    TcpCwr: "tcp-cwr", "RFC 3168 section 6.1.2",
        "CWR only on the first segment after the window was reduced (unless it is a counter, RFC \
         9768)";
    UdpLength: "udp-length", "RFC 768, RFC 9868 section 7",
        "the length is at least 8 and within the IP packet";
    UdpChecksum: "udp-checksum", "RFC 768, RFC 8200 section 8.1",
        "the checksum of the datagram and its pseudo-header";
    UdpZero: "udp-zero", "RFC 768",
        "a checksum that comes to 0 is sent as 0xffff: 0 says that there is none";
    Udp6Zero: "udp6-zero", "RFC 8200 section 8.1, RFC 6935",
        "over IPv6 there is a checksum, except in tunnels";
    GreChecksum: "gre-checksum", "RFC 2784 section 2.5",
        "the checksum of the GRE header and what it carries";
    SegmentSequence: "segment-sequence", "RFC 9293 section 3.4",
        "sequence numbers of the segments of a super-frame advance by their payload";
    SegmentMissing: "segment-missing", "RFC 9293 section 3.4",
        "all segments of a super-frame are there";
    SegmentSize: "segment-size", "RFC 9293 section 3.7.1",
        "segments of a super-frame have one size, the last one excepted";
    SegmentFlags: "segment-flags", "RFC 9293 sections 3.9.1 and 3.10.4",
        "PSH and FIN are on the last segment of a super-frame only, the other flags on all";
    SegmentCwr: "segment-cwr", "RFC 3168 section 6.1.2, RFC 9768 section 3.2.2.1",
        "CWR is on the first segment of a super-frame only, or on all if it is a counter";
    SegmentUrgent: "segment-urgent", "RFC 9293 section 3.1",
        "the urgent pointer counts from the segment's own sequence number";
    SegmentOptions: "segment-options", "RFC 9293 section 3.2, RFC 7323 section 3.2",
        "every segment of a super-frame has its TCP options";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The certainty of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The rule is broken: a compliant sender does not send such packets.
    Violation,
    /// Notable, but valid or undecidable from this capture.
    Note,
}

/// A violation or note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The number of the packet in the capture, from 1.
    pub packet: u64,
    /// Another packet that proves the finding.
    pub other: Option<u64>,
    /// The rule.
    pub rule: Rule,
    /// Whether the rule is broken.
    pub severity: Severity,
    /// The tunnels around the packet, such as `in VXLAN`; empty without tunnels.
    pub place: String,
    /// The expected value.
    pub expected: String,
    /// The found value.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, other, rule, severity, place, expected, found } = self;
        write!(f, "packet {packet}: ")?;
        if *severity == Severity::Note {
            f.write_str("note: ")?;
        }
        write!(f, "{rule}: ")?;
        if !place.is_empty() {
            write!(f, "{place}: ")?;
        }
        write!(f, "expected {expected}, found {found}")?;
        if let Some(other) = other {
            write!(f, " (packet {other})")?;
        }
        write!(f, " [{}]", rule.reference())
    }
}
