//! Tunnels that carry packets: what is inside of VXLAN, Geneve, GRE, and IP in IP.
//!
//! ```
//! use wirelane_wire::Layers;
//!
//! /// The protocol of the innermost IP header of a frame.
//! fn innermost(frame: &[u8]) -> Option<wirelane_wire::Protocol> {
//!     let mut transport = Layers::parse(frame).ok()?.transport?;
//!     while let Some(inside) = transport.inside() {
//!         match Layers::network(inside.ethertype, inside.bytes, 0) {
//!             Ok((_, Some(inner))) => transport = inner,
//!             _ => break,
//!         }
//!     }
//!     Some(transport.protocol)
//! }
//! # assert_eq!(innermost(&[0; 60]), None);
//! ```

use crate::flow::Transport;
use crate::{EtherType, GeneveView, GreView, Link, Protocol, VxlanView, geneve, udp, vxlan};

/// What Linux takes for VXLAN when it is not told the port.
const VXLAN_LINUX: u16 = 8472;

/// How packets are wrapped.
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
    /// As in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Ip => "ip",
        }
    }
}

/// What a tunnel carries, behind its own headers and those of a frame in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside<'a> {
    /// How it is wrapped.
    pub kind: TunnelKind,
    /// VNI of VXLAN and Geneve, key of GRE; 0 where there is none.
    pub id: u32,
    /// What it is.
    pub ethertype: EtherType,
    /// Where it begins, from the transport header of the tunnel on.
    pub at: usize,
    /// Its bytes, as far as they are there.
    pub bytes: &'a [u8],
}

impl<'a> Transport<'a> {
    /// Whether it may be the outside of a tunnel: quick, for most are none.
    #[inline]
    #[must_use]
    pub fn may_carry(&self) -> bool {
        match self.protocol {
            Protocol::UDP => {
                matches!(self.destination(), Some(vxlan::PORT | geneve::PORT | VXLAN_LINUX))
            }
            protocol => matches!(protocol, Protocol::GRE | Protocol::IPV4 | Protocol::IPV6),
        }
    }

    /// What it carries, if it is a tunnel's; for [`Layers::network`](crate::Layers::network), which says whether that is a
    /// packet.
    #[must_use]
    pub fn inside(&self) -> Option<Inside<'a>> {
        if self.is_fragment || !self.may_carry() {
            return None;
        }
        let bytes = self.bytes;
        let (kind, ethertype, at, id) = match self.protocol {
            Protocol::IPV4 => (TunnelKind::Ip, EtherType::IPV4, 0, 0),
            Protocol::IPV6 => (TunnelKind::Ip, EtherType::IPV6, 0, 0),
            Protocol::GRE => {
                let view = GreView::new(bytes).ok()?;
                (TunnelKind::Gre, view.protocol(), view.header_len(), view.key().unwrap_or(0))
            }
            _ if self.destination() == Some(geneve::PORT) => {
                let view = GeneveView::new(bytes.get(udp::LEN..)?).ok()?;
                let at = udp::LEN + view.header_len();
                (TunnelKind::Geneve, view.protocol(), at, view.id())
            }
            _ => {
                let view = VxlanView::new(bytes.get(udp::LEN..)?).ok()?;
                (TunnelKind::Vxlan, EtherType::BRIDGED, udp::LEN + vxlan::LEN, view.id())
            }
        };
        let inner = bytes.get(at..)?;
        let (ethertype, skipped) = match ethertype {
            EtherType::BRIDGED => match Link::ethernet(inner) {
                Link::Network { ethertype, at, .. } => (ethertype, at),
                Link::Unknown | Link::Short => return None,
            },
            ethertype => (ethertype, 0),
        };
        Some(Inside { kind, id, ethertype, at: at + skipped, bytes: inner.get(skipped..)? })
    }

    #[inline]
    fn destination(&self) -> Option<u16> {
        self.ports().ok().flatten().map(|ports| ports.destination)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::Layers;

    /// Ethernet, IPv4 of this protocol, and what follows.
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

    /// The innermost protocol of a frame, and how it is wrapped, the outermost first.
    fn innermost(frame: &[u8]) -> (Protocol, Vec<(TunnelKind, u32)>) {
        let mut transport = Layers::parse(frame).unwrap().transport.unwrap();
        let mut wraps = Vec::new();
        while let Some(inside) = transport.inside() {
            let inner = Layers::network(inside.ethertype, inside.bytes, 0).unwrap();
            assert_eq!(transport.bytes[inside.at..].len(), inside.bytes.len());
            wraps.push((inside.kind, inside.id));
            transport = inner.1.unwrap();
        }
        (transport.protocol, wraps)
    }

    #[test]
    fn what_is_inside_is_found() {
        let inner = frame(6, &[0; 20]);
        let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0], &inner[..]].concat();
        let geneve = [&[0, 0, 0x65, 0x58, 0, 0, 9, 0], &inner[..]].concat();
        let gre = [&[0x20, 0, 8, 0, 0, 0, 0, 5], &inner[14..]].concat();
        for (outer, kind, id) in [
            (udp(4789, &vxlan), TunnelKind::Vxlan, 7),
            (udp(8472, &vxlan), TunnelKind::Vxlan, 7),
            (udp(6081, &geneve), TunnelKind::Geneve, 9),
            (frame(47, &gre), TunnelKind::Gre, 5),
            (frame(4, &inner[14..]), TunnelKind::Ip, 0),
        ] {
            assert_eq!(innermost(&outer), (Protocol::TCP, [(kind, id)].to_vec()));
        }
        // In one another.
        let twice = udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame(47, &gre)[..]].concat());
        let wraps = [(TunnelKind::Vxlan, 7), (TunnelKind::Gre, 5)].to_vec();
        assert_eq!(innermost(&twice), (Protocol::TCP, wraps));
        assert_eq!(innermost(&udp(53, &vxlan)), (Protocol::UDP, Vec::new()));
    }

    #[test]
    fn what_is_cut_has_nothing_inside() {
        let outer = udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &frame(6, &[0; 20])[..]].concat());
        for len in 42..outer.len() {
            let transport = Layers::parse(&outer[..len]).unwrap().transport.unwrap();
            // The Ethernet header in it has to be there.
            assert_eq!(transport.inside().is_some(), len >= 42 + 8 + 14, "{len}");
        }
    }
}
