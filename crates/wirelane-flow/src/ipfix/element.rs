//! Information elements: IANA elements, reverse elements (RFC 5103) and private elements.

/// The enterprise number of reverse IANA elements (RFC 5103 section 6.1).
pub(super) const REVERSE: u32 = 29_305;

/// The enterprise number for examples (RFC 5612), used in pipes between Wirelane programs.
pub const EXAMPLE: u32 = 32_473;

/// Marks a private element of the reverse direction (RFC 5103 section 6.2).
pub(super) const REVERSE_BIT: u16 = 0x4000;

/// A variable length, which each record states (RFC 7011 section 7).
pub(super) const VARIABLE: u16 = u16::MAX;

/// An information element, and its length in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// The enterprise number; 0 for IANA elements.
    pub(super) enterprise: u32,
    pub(super) id: u16,
    pub(super) length: u16,
}

/// IANA elements that flows use (registry "IP Flow Information Export (IPFIX) Entities").
pub(super) mod iana {
    pub(in super::super) const OCTETS: u16 = 1;
    pub(in super::super) const PACKETS: u16 = 2;
    pub(in super::super) const PROTOCOL: u16 = 4;
    pub(in super::super) const TCP_FLAGS: u16 = 6;
    pub(in super::super) const SOURCE_PORT: u16 = 7;
    pub(in super::super) const SOURCE_IPV4: u16 = 8;
    pub(in super::super) const DESTINATION_PORT: u16 = 11;
    pub(in super::super) const DESTINATION_IPV4: u16 = 12;
    pub(in super::super) const SOURCE_IPV6: u16 = 27;
    pub(in super::super) const DESTINATION_IPV6: u16 = 28;
    pub(in super::super) const ICMPV4: u16 = 32;
    pub(in super::super) const EXPORTED_OCTETS: u16 = 40;
    pub(in super::super) const EXPORTED_MESSAGES: u16 = 41;
    pub(in super::super) const EXPORTED_FLOWS: u16 = 42;
    pub(in super::super) const MIN_TTL: u16 = 52;
    pub(in super::super) const MAX_TTL: u16 = 53;
    pub(in super::super) const INTERFACE_NAME: u16 = 82;
    pub(in super::super) const END_REASON: u16 = 136;
    pub(in super::super) const ICMPV6: u16 = 139;
    pub(in super::super) const EXPORTING_PROCESS: u16 = 144;
    pub(in super::super) const START_MILLISECONDS: u16 = 152;
    pub(in super::super) const END_MILLISECONDS: u16 = 153;
    pub(in super::super) const START_NANOSECONDS: u16 = 156;
    pub(in super::super) const END_NANOSECONDS: u16 = 157;
    pub(in super::super) const NOT_SENT_FLOWS: u16 = 166;
    pub(in super::super) const NOT_SENT_PACKETS: u16 = 167;
    pub(in super::super) const NOT_SENT_OCTETS: u16 = 168;
    pub(in super::super) const DSCP: u16 = 195;
    pub(in super::super) const BIFLOW_DIRECTION: u16 = 239;
    pub(in super::super) const VLAN: u16 = 243;
    pub(in super::super) const INNER_VLAN: u16 = 245;
    pub(in super::super) const LAYER_2_SEGMENT: u16 = 351;
    pub(in super::super) const PAYLOAD: u16 = 401;
}

/// SHA-1 of Community ID v1, 20 bytes.
pub const COMMUNITY: u16 = 1;
/// The time from SYN to the ACK of the handshake, in ns; all ones if unknown.
pub const HANDSHAKE_RTT: u16 = 2;
/// TCP segments whose bytes were sent before. This and the next elements have bit 14 set for the
/// reverse direction.
pub const RETRANSMISSIONS: u16 = 3;
/// TCP segments that arrived after later ones.
pub const OUT_OF_ORDER: u16 = 4;
/// TCP segments with a window of 0.
pub const ZERO_WINDOWS: u16 = 5;
/// Packets marked Congestion Experienced.
pub const CONGESTION_EXPERIENCED: u16 = 6;
/// The queue of the first packet.
pub const QUEUE: u16 = 7;
/// The encapsulation: 1 VXLAN, 2 Geneve, 3 GRE, 4 IP in IP.
pub const TUNNEL_KIND: u16 = 8;
/// The outer source address, 4 or 16 bytes.
pub const TUNNEL_SOURCE: u16 = 9;
/// The outer destination address, 4 or 16 bytes.
pub const TUNNEL_DESTINATION: u16 = 10;
/// The VNI or GRE key.
pub const TUNNEL_ID: u16 = 11;
