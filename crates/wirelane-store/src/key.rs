//! Fields of an index, and ranges of their values.

/// A field of packets that an index has keys for.
///
/// Each is defined by the bytes at fixed offsets that tcpdump's filter language loads. A dissector
/// may interpret them differently, but a filter must never accept a packet whose key is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Field {
    /// The type after the addresses and any VLAN tags: 16 bits.
    EtherType = 1,
    /// A VLAN identifier of any tag: 12 bits.
    Vlan = 2,
    /// The protocol of IPv4, or the next header of IPv6: 8 bits.
    Protocol = 3,
    /// An IPv4 address, source or destination, of IPv4, ARP or RARP: 32 bits.
    Ipv4 = 4,
    /// An IPv6 address, source or destination: 128 bits.
    Ipv6 = 5,
    /// A port of TCP, UDP or SCTP, source or destination: 16 bits.
    Port = 6,
    /// Both addresses, both ports and the protocol, the same for both directions: 32 bits of a hash
    /// ([`FlowId::key`](crate::FlowId::key)).
    Flow = 7,
}

impl Field {
    /// All fields, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::EtherType,
        Self::Vlan,
        Self::Protocol,
        Self::Ipv4,
        Self::Ipv6,
        Self::Port,
        Self::Flow,
    ];

    /// Bytes of a key.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Protocol => 1,
            Self::EtherType | Self::Vlan | Self::Port => 2,
            Self::Ipv4 | Self::Flow => 4,
            Self::Ipv6 => 16,
        }
    }
}

/// A condition on one field: its value is in a range. An address prefix is a range, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// The field.
    pub field: Field,
    /// The smallest value.
    pub first: u128,
    /// The largest value, included.
    pub last: u128,
}

impl Term {
    /// Exactly this value.
    #[must_use]
    pub fn equal(field: Field, value: impl Into<u128>) -> Self {
        let value = value.into();
        Self { field, first: value, last: value }
    }
}
