//! Who talks to whom.

use std::net::IpAddr;

use wirelane_wire::{Protocol, TunnelKind};

/// What all packets of a flow share, as its first packet had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who began (`sourceIPv4Address` 8, `sourceIPv6Address` 27).
    pub source: IpAddr,
    /// Whom it was sent to (`destinationIPv4Address` 12, `destinationIPv6Address` 28).
    pub destination: IpAddr,
    /// The port of the source (`sourceTransportPort` 7); for ICMP the type; 0 where there is none.
    pub source_port: u16,
    /// The port of the destination (`destinationTransportPort` 11); for ICMP the code.
    pub destination_port: u16,
    /// The upper layer behind any extension headers (`protocolIdentifier` 4).
    pub protocol: Protocol,
    /// The identifier of the outermost VLAN tag (`dot1qVlanId` 243).
    pub vlan: Option<u16>,
    /// The identifier of the next VLAN tag (`dot1qCustomerVlanId` 245).
    pub inner_vlan: Option<u16>,
    /// What the packets travelled in; the fields above are then the inner ones.
    pub tunnel: Option<Tunnel>,
}

/// The outer headers of a tunnelled flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// How packets are wrapped.
    pub kind: TunnelKind,
    /// The outer source of the first packet.
    pub source: IpAddr,
    /// The outer destination of the first packet.
    pub destination: IpAddr,
    /// VNI of VXLAN and Geneve, key of GRE if it has one (`layer2SegmentId` 351).
    pub id: Option<u32>,
}
