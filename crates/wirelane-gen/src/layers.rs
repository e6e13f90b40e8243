//! The order of layers: allowed successors, implied lower layers, and the fields that name the next
//! protocol.

use crate::error::{Error, Result};
use crate::protocol::{Id, ProtocolSpec};
use crate::recipe::{Layer, Recipe};
use crate::table;

impl Recipe {
    /// The recipe including implied layers: Ethernet below IP, IPv4 below UDP and so on.
    ///
    /// # Errors
    /// A layer cannot follow its predecessor.
    pub fn complete(&self) -> Result<Self> {
        let mut layers = Vec::new();
        for layer in &self.layers {
            place(&mut layers, layer.clone())?;
        }
        Ok(Self { layers })
    }
}

fn place(layers: &mut Vec<Layer>, layer: Layer) -> Result<()> {
    let below = layers.last().map(|layer| layer.protocol);
    let missing = missing(below.map(|protocol| protocol.id), layer.protocol.id);
    let missing = missing.map_err(|hint| {
        let below = below.map_or("nothing", |protocol| protocol.name);
        Error::new(format!("{} cannot follow {below}{hint}", layer.protocol))
    })?;
    if let Some(id) = missing {
        place(layers, Layer { protocol: table::of(id), settings: Vec::new() })?;
    }
    layers.push(layer);
    Ok(())
}

/// The layer that must be inserted between `below` and `layer`. The error is a hint, possibly
/// empty, if they do not fit.
fn missing(below: Option<Id>, layer: Id) -> Result<Option<Id>, &'static str> {
    use Id::{
        Advertisement, Arp, Destination, Eth, Fragment, Geneve, Gre, HopByHop, Icmp, Icmpv6, Ipv4,
        Ipv6, Mpls, Payload, Routing, Solicitation, Tcp, Udp, Vlan, Vxlan,
    };
    let link = matches!(below, Some(Eth | Vlan));
    let frames = matches!(below, None | Some(Vxlan));
    let ipv6 = matches!(below, Some(Ipv6 | HopByHop | Destination | Routing | Fragment));
    let internet = ipv6 || matches!(below, Some(Ipv4));
    // Layers that carry IP without an Ethernet header.
    let bare = matches!(below, Some(Mpls | Gre | Geneve));
    let tunnel = matches!(below, Some(Gre | Geneve));
    let end = matches!(below, Some(Payload | Arp | Udp | Tcp | Icmp | Icmpv6))
        || matches!(below, Some(Solicitation | Advertisement));
    match layer {
        Payload if below == Some(Payload) => Err(""),
        Payload if below.is_none() => Ok(Some(Eth)),
        Payload => Ok(None),
        Vxlan | Geneve if below == Some(Udp) => Ok(None),
        _ if end => Err(""),
        Eth if below.is_none() || bare || below == Some(Vxlan) => Ok(None),
        Eth => Err(""),
        Vlan | Arp if link => Ok(None),
        Vlan | Arp if frames || tunnel => Ok(Some(Eth)),
        Vlan | Arp => Err(""),
        Mpls if link || internet || matches!(below, Some(Mpls | Gre)) => Ok(None),
        Mpls => Ok(Some(Eth)),
        Ipv4 | Ipv6 if link || internet || bare => Ok(None),
        Ipv4 | Ipv6 => Ok(Some(Eth)),
        HopByHop | Destination | Routing | Fragment if ipv6 => Ok(None),
        HopByHop | Destination | Routing | Fragment => Ok(Some(Ipv6)),
        Icmp if ipv6 => Err("; over IPv6 it is icmpv6"),
        Icmpv6 | Solicitation | Advertisement if ipv6 => Ok(None),
        Icmpv6 | Solicitation | Advertisement if internet => Err("; over IPv4 it is icmp"),
        Icmpv6 | Solicitation | Advertisement => Ok(Some(Ipv6)),
        Udp | Tcp | Icmp | Gre if internet => Ok(None),
        Udp | Tcp | Icmp | Gre => Ok(Some(Ipv4)),
        Vxlan | Geneve => Ok(Some(Udp)),
    }
}

/// The value of the next-protocol field of `layers[at]`; `otherwise` before a payload.
pub(crate) fn next(layers: &[Layer], at: usize, otherwise: u128) -> u128 {
    let id = |at: usize| layers.get(at).map(|layer| layer.protocol.id);
    let Some((this, next)) = id(at).zip(id(at + 1)) else {
        return otherwise;
    };
    match this {
        Id::Eth | Id::Vlan | Id::Gre | Id::Geneve => match next {
            // IEEE 802.1ad: the outer tags are service tags.
            Id::Vlan if id(at + 2) == Some(Id::Vlan) => 0x88a8,
            Id::Vlan => 0x8100,
            Id::Mpls => 0x8847,
            Id::Arp => 0x0806,
            Id::Ipv4 => 0x0800,
            Id::Ipv6 => 0x86dd,
            Id::Eth => 0x6558,
            _ => otherwise,
        },
        Id::Mpls => u128::from(next != Id::Mpls),
        Id::Udp => match next {
            Id::Vxlan => 4789,
            Id::Geneve => 6081,
            _ => otherwise,
        },
        _ => number(next).map_or(otherwise, u128::from),
    }
}

/// The hop limit of the header before layer `from`: 255 for neighbour discovery (RFC 4861 section
/// 7.1).
pub(crate) fn hop_limit(layers: &[Layer], from: usize, otherwise: u128) -> u128 {
    let extension = |id| matches!(id, Id::HopByHop | Id::Destination | Id::Routing | Id::Fragment);
    let ids = layers.iter().skip(from).map(|layer| layer.protocol.id);
    match ids.into_iter().find(|id| !extension(*id)) {
        Some(Id::Solicitation | Id::Advertisement) => 255,
        _ => otherwise,
    }
}

/// The IP protocol number of a layer.
fn number(id: Id) -> Option<u8> {
    Some(match id {
        Id::HopByHop => 0,
        Id::Icmp => 1,
        Id::Ipv4 => 4,
        Id::Tcp => 6,
        Id::Udp => 17,
        Id::Ipv6 => 41,
        Id::Routing => 43,
        Id::Fragment => 44,
        Id::Gre => 47,
        Id::Icmpv6 | Id::Solicitation | Id::Advertisement => 58,
        Id::Destination => 60,
        Id::Mpls => 137,
        _ => return None,
    })
}

/// Whether the packet ends with this header. The rest of the frame is padding.
pub(crate) fn is_closed(protocol: &ProtocolSpec) -> bool {
    matches!(protocol.id, Id::Solicitation | Id::Advertisement)
}

/// The protocol number in the pseudo-header, for protocols whose checksum includes one.
pub(crate) fn pseudo(protocol: &ProtocolSpec) -> Option<u8> {
    match protocol.id {
        Id::Udp | Id::Tcp | Id::Icmpv6 | Id::Solicitation | Id::Advertisement => {
            number(protocol.id)
        }
        _ => None,
    }
}
