//! What travels in IP packets of others: VXLAN, Geneve, GRE, IP in IP.

use crate::link::Link;
use crate::{
    EtherType, GeneveView, GreView, Protocol, VxlanView, field::be16, field::split, geneve, udp,
    vxlan,
};

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
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Ip => "ip",
        }
    }
}

/// What stands between an outer IP header and an inner network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// How the packet is wrapped.
    pub kind: TunnelKind,
    /// VNI of VXLAN and Geneve, key of GRE; 0 where there is none.
    pub id: u32,
    /// What is inside, behind any inner Ethernet header and tags.
    pub ethertype: EtherType,
    /// Where that begins, from the outer transport header on.
    pub at: usize,
}

impl Tunnel {
    /// Reads what an IP packet carries; `None` if it is no tunnel's, or cut, or of a kind unknown here.
    #[inline]
    pub fn of(protocol: Protocol, bytes: &[u8]) -> Option<Self> {
        // Most are none.
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
        Self { kind: TunnelKind::Ip, id: 0, ethertype, at: 0 }
    }

    /// What is inside lies `at` bytes in: the Ethernet frame or the packet.
    fn around(
        kind: TunnelKind,
        id: u32,
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
            Link::Unknown | Link::Short => None,
        }
    }
}

fn vxlan_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = VxlanView::new(bytes.get(udp::LEN..)?).ok()?;
    let at = udp::LEN + vxlan::LEN;
    Tunnel::around(TunnelKind::Vxlan, view.id(), EtherType::BRIDGED, at, bytes)
}

fn geneve_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = GeneveView::new(bytes.get(udp::LEN..)?).ok()?;
    let at = udp::LEN + view.header_len();
    Tunnel::around(TunnelKind::Geneve, view.id(), view.protocol(), at, bytes)
}

fn gre_of(bytes: &[u8]) -> Option<Tunnel> {
    let view = GreView::new(bytes).ok()?;
    let id = view.key().unwrap_or(0);
    Tunnel::around(TunnelKind::Gre, id, view.protocol(), view.header_len(), bytes)
}
