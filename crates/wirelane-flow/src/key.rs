//! The key of a flow.

use std::net::IpAddr;

use wirelane_wire::{Protocol, TunnelKind};

/// The values that all packets of a flow share, in the direction of its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The address of the initiator (`sourceIPv4Address` 8, `sourceIPv6Address` 27).
    pub source: IpAddr,
    /// The address of the responder (`destinationIPv4Address` 12, `destinationIPv6Address` 28).
    pub destination: IpAddr,
    /// The source port (`sourceTransportPort` 7); for ICMP the type; 0 without ports.
    pub source_port: u16,
    /// The destination port (`destinationTransportPort` 11); for ICMP the code.
    pub destination_port: u16,
    /// The upper-layer protocol after any extension headers (`protocolIdentifier` 4).
    pub protocol: Protocol,
    /// The identifier of the outermost VLAN tag (`dot1qVlanId` 243).
    pub vlan: Option<u16>,
    /// The identifier of the next VLAN tag (`dot1qCustomerVlanId` 245).
    pub inner_vlan: Option<u16>,
    /// The tunnel of the packets. The addresses, ports and protocol above are then the inner ones.
    pub tunnel: Option<Tunnel>,
}

/// The outer headers of a tunnelled flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// The encapsulation.
    pub kind: TunnelKind,
    /// The outer source of the first packet.
    pub source: IpAddr,
    /// The outer destination of the first packet.
    pub destination: IpAddr,
    /// The VNI of VXLAN and Geneve, or the optional key of GRE (`layer2SegmentId` 351).
    pub id: Option<u32>,
}
