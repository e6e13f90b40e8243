//! The headers of a packet, decoded once.

use crate::wire::flow::Transport;
use crate::wire::link::Link;
use crate::wire::{Addresses, EtherType, Layers, Ports, Protocol, Tunnel, WireError};

/// The maximum number of nested tunnels to decode.
const DEPTH: usize = 4;

/// The reason for packets without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// They are not IP.
    NotIp,
    /// Their protocol has no ports, or they are fragments.
    NoPorts,
    /// The captured bytes end within the headers.
    Cut,
    /// A header contains an invalid value.
    Malformed,
    /// The link type is not supported.
    UnknownLink,
    /// The link layer encrypted their content.
    Encrypted,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::NotIp,
        Self::NoPorts,
        Self::Cut,
        Self::Malformed,
        Self::UnknownLink,
        Self::Encrypted,
    ];

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::NoPorts => "no_ports",
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::UnknownLink => "unknown_link",
            Self::Encrypted => "encrypted",
        }
    }

    fn of(error: WireError) -> Self {
        if matches!(error, WireError::Truncated { .. }) { Self::Cut } else { Self::Malformed }
    }
}

/// The headers before the network header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front {
    pub(super) ethertype: EtherType,
    pub(super) vlans: [Option<u16>; 2],
    pub(super) internet: Result<Internet, Reason>,
}

/// The fields of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Internet {
    pub(super) addresses: Addresses,
    pub(super) protocol: Protocol,
    pub(super) ports: Result<Ports, Reason>,
}

/// Decodes the bytes of a packet of a LINKTYPE_ value; `inner`: use the innermost IP header of
/// tunnels instead of the outermost one.
#[inline]
pub(super) fn decode(link_type: u16, data: &[u8], inner: bool) -> Result<Front, Reason> {
    match Link::parse(link_type, data) {
        Link::Network { ethertype, at, outer_vlan, inner_vlan } => {
            let bytes = data.get(at..).unwrap_or_default();
            let (ethertype, internet) = internet(ethertype, bytes, inner);
            Ok(Front { ethertype, vlans: [outer_vlan, inner_vlan], internet })
        }
        Link::Control => Err(Reason::NotIp),
        Link::Encrypted => Err(Reason::Encrypted),
        Link::Unknown => Err(Reason::UnknownLink),
        Link::Short => Err(Reason::Cut),
    }
}

/// The IP header and its ethertype; with `inner`, from the innermost tunnel.
#[inline]
fn internet(
    mut ethertype: EtherType,
    bytes: &[u8],
    inner: bool,
) -> (EtherType, Result<Internet, Reason>) {
    let mut layers = match Layers::network(ethertype, bytes, 0) {
        Ok(layers) => layers,
        Err(error) => return (ethertype, Err(Reason::of(error))),
    };
    if inner {
        for _ in 0..DEPTH {
            let Some(outer) = layers.1.filter(|outer| !outer.is_fragment) else { break };
            let Some(tunnel) = Tunnel::of(outer.protocol, outer.bytes) else { break };
            let bytes = outer.bytes.get(tunnel.at..).unwrap_or_default();
            // If the inner packet is not IP or not complete, the outer packet counts.
            let Ok(inside @ (_, Some(_))) = Layers::network(tunnel.ethertype, bytes, 0) else {
                break;
            };
            (layers, ethertype) = (inside, tunnel.ethertype);
        }
    }
    let (network, transport) = layers;
    let internet = network.addresses().zip(transport).ok_or(Reason::NotIp);
    let internet = internet.map(|(addresses, transport)| Internet {
        addresses,
        protocol: transport.protocol,
        ports: ports(&transport),
    });
    (ethertype, internet)
}

#[inline]
fn ports(transport: &Transport<'_>) -> Result<Ports, Reason> {
    transport.ports().map_err(Reason::of)?.ok_or(Reason::NoPorts)
}
