//! Tunnels over IP: VXLAN, Geneve, GRE, IP in IP.

use crate::ethernet::EtherType;
use crate::field::{be16, split};
use crate::geneve::GeneveView;
use crate::gre::GreView;
use crate::link::Link;
use crate::protocol::Protocol;
use crate::vxlan::VxlanView;
use crate::{geneve, udp, vxlan};

/// Linux's default port of VXLAN.
const VXLAN_LINUX: u16 = 8472;

/// The kind of encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
    /// RFC 2784.
    Gre,
    /// IP in IP: RFC 2003, RFC 4213, RFC 2473.
    Ip,
}

impl TunnelKind {
    /// The name in text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Ip => "ip",
        }
    }
}

/// The headers between an outer IP header and an inner network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The kind of encapsulation.
    pub kind: TunnelKind,
    /// VNI of VXLAN and Geneve, key of GRE if it has one.
    pub id: Option<u32>,
    /// The type of the inner packet, behind any inner Ethernet header and tags.
    pub ethertype: EtherType,
    /// Where that packet begins, from the outer transport header on.
    pub at: usize,
}

impl Tunnel {
    /// Whether a packet to this UDP port may contain another packet.
    #[inline]
    pub const fn is_port(port: u16) -> bool {
        matches!(port, vxlan::PORT | VXLAN_LINUX | geneve::PORT)
    }

    /// Reads the payload of an IP packet; `None` if it is no tunnel, cut, or of an unknown kind.
    #[inline]
    pub fn of(protocol: Protocol, bytes: &[u8]) -> Option<Self> {
        // Most packets are no tunnels.
        match protocol {
            Protocol::UDP => {
                let (header, _) = split::<4>(bytes).ok()?;
                match be16::<2, 4>(header) {
                    vxlan::PORT | VXLAN_LINUX => vxlan_of(bytes),
                    geneve::PORT => geneve_of(bytes),
                    _ => None,
                }
            }
            Protocol::GRE => gre_of(bytes),
            Protocol::IPV4 => Some(Self::ip(EtherType::IPV4)),
            Protocol::IPV6 => Some(Self::ip(EtherType::IPV6)),
            _ => None,
        }
    }

    const fn ip(ethertype: EtherType) -> Self {
        Self { kind: TunnelKind::Ip, id: None, ethertype, at: 0 }
    }

    /// The inner Ethernet frame or packet begins `at` bytes in.
    fn around(
        kind: TunnelKind,
        id: Option<u32>,
        ethertype: EtherType,
        at: usize,
        bytes: &[u8],
    ) -> Option<Self> {
        if ethertype != EtherType::BRIDGED {
            return Some(Self { kind, id, ethertype, at });
        }
        match Link::ethernet(bytes.get(at..)?) {
            Link::Network { ethertype, at: skipped, .. } => {
                Some(Self { kind, id, ethertype, at: at + skipped })
            }
            _ => None,
        }
    }
}

fn vxlan_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = VxlanView::new(bytes.get(udp::LEN..)?).ok()?;
    let at = udp::LEN + vxlan::LEN;
    Tunnel::around(TunnelKind::Vxlan, Some(view.id()), EtherType::BRIDGED, at, bytes)
}

fn geneve_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = GeneveView::new(bytes.get(udp::LEN..)?).ok()?;
    let at = udp::LEN + view.header_len();
    Tunnel::around(TunnelKind::Geneve, Some(view.id()), view.protocol(), at, bytes)
}

fn gre_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = GreView::new(bytes).ok()?;
    Tunnel::around(TunnelKind::Gre, view.key(), view.protocol(), view.header_len(), bytes)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::flow::Layers;

    /// Ethernet, IPv4 of this protocol, and its payload.
    fn frame(protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut frame = [0; 34];
        (frame[12], frame[14], frame[17], frame[22], frame[23]) =
            (8, 0x45, 20 + rest.len() as u8, 64, protocol);
        [&frame[..], rest].concat()
    }

    fn udp(port: u16, rest: &[u8]) -> Vec<u8> {
        let len = (8 + rest.len() as u16).to_be_bytes();
        frame(17, &[&[0, 9], &port.to_be_bytes()[..], &len, &[0, 0], rest].concat())
    }

    /// The innermost protocol of a frame, and its encapsulations, the outermost first.
    fn innermost(frame: &[u8]) -> (Protocol, Vec<(TunnelKind, Option<u32>)>) {
        let mut transport = Layers::parse(frame).unwrap().transport.unwrap();
        let mut wraps = Vec::new();
        while let Some(tunnel) = Tunnel::of(transport.protocol, transport.bytes) {
            let inner = Layers::network(tunnel.ethertype, &transport.bytes[tunnel.at..], 0);
            wraps.push((tunnel.kind, tunnel.id));
            transport = inner.unwrap().1.unwrap();
        }
        (transport.protocol, wraps)
    }

    #[test]
    fn what_is_inside_is_found() {
        let inner = frame(6, &[0; 20]);
        let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat();
        let geneve = [&[0, 0, 0x65, 0x58, 0, 0, 9, 0], &inner[..]].concat();
        let gre = [&[0x20, 0, 8, 0, 0, 0, 0, 5], &inner[14..]].concat();
        let without_key = [&[0, 0, 8, 0], &inner[14..]].concat();
        for (outer, kind, id) in [
            (udp(4789, &vxlan), TunnelKind::Vxlan, Some(7)),
            (udp(8472, &vxlan), TunnelKind::Vxlan, Some(7)),
            (udp(6081, &geneve), TunnelKind::Geneve, Some(9)),
            (frame(47, &gre), TunnelKind::Gre, Some(5)),
            (frame(47, &without_key), TunnelKind::Gre, None),
            (frame(4, &inner[14..]), TunnelKind::Ip, None),
        ] {
            assert_eq!(innermost(&outer), (Protocol::TCP, [(kind, id)].to_vec()));
        }
        // Nested tunnels.
        let twice = udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame(47, &gre)[..]].concat());
        let wraps = [(TunnelKind::Vxlan, Some(7)), (TunnelKind::Gre, Some(5))].to_vec();
        assert_eq!(innermost(&twice), (Protocol::TCP, wraps));
        assert_eq!(innermost(&udp(53, &vxlan)), (Protocol::UDP, Vec::new()));
    }

    #[test]
    fn what_is_cut_has_nothing_inside() {
        let outer = udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame(6, &[0; 20])[..]].concat());
        for len in 42..outer.len() {
            let transport = Layers::parse(&outer[..len]).unwrap().transport.unwrap();
            let tunnel = Tunnel::of(transport.protocol, transport.bytes);
            // The inner Ethernet header must be present.
            assert_eq!(tunnel.is_some(), len >= 42 + 8 + 14, "{len}");
        }
    }
}
