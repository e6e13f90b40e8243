//! The headers of a packet, decoded once.

use wirelane::wire::flow::Transport;
use wirelane::wire::link::Link;
use wirelane::wire::{Addresses, EtherType, Layers, Ports, Protocol, WireError};

/// Why packets have no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// They are not IP.
    NotIp,
    /// Their protocol has no ports, or they are fragments.
    NoPorts,
    /// The captured bytes end within the headers.
    Cut,
    /// A header holds what it must not.
    Malformed,
    /// The link type is unknown here.
    UnknownLink,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::NotIp, Self::NoPorts, Self::Cut, Self::Malformed, Self::UnknownLink];

    /// As in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::NoPorts => "no_ports",
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::UnknownLink => "unknown_link",
        }
    }

    fn of(error: WireError) -> Self {
        if matches!(error, WireError::Truncated { .. }) { Self::Cut } else { Self::Malformed }
    }
}

/// What stands before the network header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    pub(crate) ethertype: EtherType,
    pub(crate) vlans: [Option<u16>; 2],
    pub(crate) internet: Result<Internet, Reason>,
}

/// What an IP packet says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Internet {
    pub(crate) addresses: Addresses,
    pub(crate) protocol: Protocol,
    pub(crate) ports: Result<Ports, Reason>,
}

/// Decodes the bytes of a packet of a LINKTYPE_ value.
#[inline]
pub(crate) fn decode(link_type: u16, data: &[u8]) -> Result<Front, Reason> {
    match Link::parse(link_type, data) {
        Link::Network { ethertype, at, outer_vlan, inner_vlan } => {
            let internet = internet(ethertype, data.get(at..).unwrap_or_default(), at);
            Ok(Front { ethertype, vlans: [outer_vlan, inner_vlan], internet })
        }
        Link::Unknown => Err(Reason::UnknownLink),
        Link::Short => Err(Reason::Cut),
    }
}

#[inline]
fn internet(ethertype: EtherType, bytes: &[u8], at: usize) -> Result<Internet, Reason> {
    let (network, transport) = Layers::network(ethertype, bytes, at).map_err(Reason::of)?;
    let Some((addresses, transport)) = network.addresses().zip(transport) else {
        return Err(Reason::NotIp);
    };
    Ok(Internet { addresses, protocol: transport.protocol, ports: ports(&transport) })
}

#[inline]
fn ports(transport: &Transport<'_>) -> Result<Ports, Reason> {
    transport.ports().map_err(Reason::of)?.ok_or(Reason::NoPorts)
}
