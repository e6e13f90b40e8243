//! The protocols of a packet and their fields: one table for the language, its printer, flow files
//! and the documentation.
//!
//! What is computed (lengths, checksums, next protocols) has a [`Preset`] that says how. A new
//! protocol is a row in [`table`](crate::table) and, if it has parts of variable length, a branch
//! in `layout`.

use std::fmt;

/// One protocol: its name, its header and the fields in it.
#[derive(Debug)]
pub struct Protocol {
    /// How code names it.
    pub id: Id,
    /// How people name it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Bytes of the header without optional parts.
    pub length: usize,
    /// In the order of the header.
    pub fields: &'static [Field],
}

impl Protocol {
    /// The field of this name.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Protocol {}

impl fmt::Display for Protocol {
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
pub struct Field {
    /// How people name it.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// Its width, up to 128; 0 for bytes of any number.
    pub bits: u8,
    /// How its values are written.
    pub kind: Kind,
    /// What it holds when nobody says so.
    pub preset: Preset,
}

impl Field {
    /// The highest value.
    pub fn max(&self) -> u128 {
        match self.bits {
            128.. => u128::MAX,
            bits => (1 << bits) - 1,
        }
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.name == other.name && self.place == other.place)
    }
}

impl Eq for Field {}

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Bits after the start of the header.
    Bit(u16),
    /// In an optional part of the header that is there when the field is set.
    Optional,
    /// Not in the header: it says how the payload is made.
    Payload,
}

/// How the values of a field are written.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Decimal, or hexadecimal with `0x`.
    Number,
    /// `02:00:00:00:00:01`.
    Mac,
    /// `10.0.0.1`, `10.0.0.0/24`.
    Ipv4,
    /// `2001:db8::1`, `2001:db8::/64`.
    Ipv6,
    /// A number that may have a name.
    Names(&'static [(&'static str, u16)]),
    /// Names joined by `+`; the first one is the lowest bit.
    Flags(&'static [&'static str]),
    /// Hexadecimal digits, an even number of them.
    Hex,
    /// Characters, in quotes if there are spaces.
    Text,
}

/// What a field holds when nobody says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A number.
    Value(u128),
    /// Computed from the layer that follows; the number before payload or an unknown one.
    Next(u128),
    /// Computed from the length of the header.
    HeaderLength,
    /// Computed from the length of the frame.
    Length,
    /// Computed over what it covers.
    Checksum,
    /// It is not there.
    Absent,
}

impl Preset {
    /// Whether `auto` can be written.
    pub fn is_computed(self) -> bool {
        matches!(self, Self::Next(_) | Self::HeaderLength | Self::Length | Self::Checksum)
    }
}
