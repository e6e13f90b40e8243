//! IP protocols and their names.

use wirelane_wire::Protocol;

pub(crate) const ICMP: u8 = Protocol::ICMP.0;
pub(crate) const IGMP: u8 = 2;
pub(crate) const TCP: u8 = Protocol::TCP.0;
pub(crate) const UDP: u8 = Protocol::UDP.0;
pub(crate) const DCCP: u8 = Protocol::DCCP.0;
pub(crate) const GRE: u8 = Protocol::GRE.0;
pub(crate) const ESP: u8 = Protocol::ESP.0;
pub(crate) const AH: u8 = Protocol::AH.0;
pub(crate) const ICMPV6: u8 = Protocol::ICMPV6.0;
pub(crate) const NOTHING: u8 = Protocol::NO_NEXT_HEADER.0;
pub(crate) const SCTP: u8 = Protocol::SCTP.0;
pub(crate) const ETHERNET: u8 = 143;

/// Whether the ports of a packet are printed with its addresses.
pub(crate) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP | DCCP)
}

/// The name of an IP protocol.
pub(crate) fn name(protocol: u8) -> Option<&'static str> {
    Some(match Protocol(protocol) {
        Protocol::HOP_BY_HOP => "Options",
        Protocol::ICMP => "ICMP",
        Protocol(IGMP) => "IGMP",
        Protocol::IPV4 => "IPIP",
        Protocol::TCP => "TCP",
        Protocol(8) => "EGP",
        Protocol(9) => "IGRP",
        Protocol::UDP => "UDP",
        Protocol::DCCP => "DCCP",
        Protocol::IPV6 => "IPv6",
        Protocol::ROUTING => "Routing",
        Protocol::FRAGMENT => "Fragment",
        Protocol(46) => "RSVP",
        Protocol::GRE => "GRE",
        Protocol::ESP => "ESP",
        Protocol::AH => "AH",
        Protocol(55) => "Mobile IP",
        Protocol::ICMPV6 => "ICMPv6",
        Protocol(88) => "EIGRP",
        Protocol(89) => "OSPF",
        Protocol(103) => "PIM",
        Protocol(108) => "Compressed IP",
        Protocol(112) => "VRRP",
        Protocol(113) => "PGM",
        Protocol(115) => "L2TP",
        Protocol::SCTP => "SCTP",
        Protocol(135) => "Mobility",
        Protocol::UDP_LITE => "UDPLite",
        Protocol(137) => "MPLS",
        Protocol(ETHERNET) => "Ethernet",
        _ => return None,
    })
}
