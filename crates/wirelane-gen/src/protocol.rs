//! Protocols and their fields: one table for the parser, the formatter, flow files and the
//! documentation.
//!
//! Computed fields (lengths, checksums, next protocols) have a [`Preset`]. A new protocol needs a
//! row in [`table`](crate::table) and, for parts of variable length, a branch in `header`.

use std::fmt;

/// A protocol: its name, its header and its fields.
#[derive(Debug)]
pub struct ProtocolSpec {
    /// The identifier in code.
    pub id: Id,
    /// The name in the notation.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The length of the header without optional parts, in bytes.
    pub length: usize,
    /// The fields in header order.
    pub fields: &'static [ProtocolField],
}

impl ProtocolSpec {
    /// The field with this name.
    pub fn field(&'static self, name: &str) -> Option<&'static ProtocolField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl PartialEq for ProtocolSpec {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for ProtocolSpec {}

impl fmt::Display for ProtocolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Id {
    Eth,
    Vlan,
    Mpls,
    Arp,
    Ipv4,
    Ipv6,
    HopByHop,
    Destination,
    Routing,
    Fragment,
    Udp,
    Tcp,
    Icmp,
    Icmpv6,
    Solicitation,
    Advertisement,
    Vxlan,
    Gre,
    Geneve,
    Payload,
}

/// One field of a protocol.
#[derive(Debug)]
pub struct ProtocolField {
    /// The name in the notation.
    pub name: &'static str,
    /// Its position.
    pub place: FieldPosition,
    /// Its width, up to 128; 0 for a byte string.
    pub bits: u8,
    /// The notation of its values.
    pub kind: Notation,
    /// Its default.
    pub preset: Preset,
}

impl ProtocolField {
    /// The highest value.
    pub fn max(&self) -> u128 {
        match self.bits {
            128.. => u128::MAX,
            bits => (1 << bits) - 1,
        }
    }
}

impl PartialEq for ProtocolField {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.name == other.name && self.place == other.place)
    }
}

impl Eq for ProtocolField {}

/// The position of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPosition {
    /// The offset from the start of the header in bits.
    Bit(u16),
    /// In an optional part of the header, which is present if the field is set.
    Optional,
    /// Outside the header: it describes the payload.
    Payload,
}

/// The notation of a field's values.
#[derive(Clone, Copy, Debug)]
pub enum Notation {
    /// A number: decimal, or hexadecimal with `0x`.
    Number,
    /// A MAC address: `02:00:00:00:00:01`.
    Mac,
    /// IPv4 addresses: `10.0.0.1`, `10.0.0.0/24`.
    Ipv4,
    /// IPv6 addresses: `2001:db8::1`, `2001:db8::/64`.
    Ipv6,
    /// A number that may have a name.
    Names(&'static [(&'static str, u16)]),
    /// Flag names joined by `+`. The first name is the lowest bit.
    Flags(&'static [&'static str]),
    /// An even number of hexadecimal digits.
    Hex,
    /// Text, in quotes if it has spaces.
    Text,
}

/// The default of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A number.
    Value(u128),
    /// Computed from the next layer; this number before a payload or an unknown layer.
    Next(u128),
    /// Computed from the length of the header.
    HeaderLength,
    /// Computed from the length of the frame.
    Length,
    /// A computed checksum.
    Checksum,
    /// Absent.
    Absent,
}

impl Preset {
    /// Whether the field accepts `auto`.
    pub fn is_computed(self) -> bool {
        matches!(self, Self::Next(_) | Self::HeaderLength | Self::Length | Self::Checksum)
    }
}
