//! The part of a condition on columns that a store's index and a filter can check.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use wirelane_store::{Field, Keys, Term};

/// Protocols whose inner headers appear in columns, but neither in an index nor in a filter:
/// tunnels and IPv6 extension headers.
///
/// IP protocols: IP in IP (4 and 41), GRE, the extension headers of IPv6. DCCP and UDP-Lite are
/// here because their ports have no keys.
const HIDING_PROTOCOLS: [u8; 11] = [4, 41, 47, 0, 43, 44, 51, 60, 33, 135, 136];
/// UDP destination ports: VXLAN (RFC 7348), Linux's older VXLAN port, Geneve (RFC 8926).
const HIDING_PORTS: [u16; 3] = [4789, 8472, 6081];

/// A condition on a packet. `keys` and `expression` also accept every packet that may hide headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    Address(AddressSide, IpAddr),
    Port(AddressSide, u16),
    Protocol(u8),
    /// The outer tag. Expressions leave it out: libpcap's `vlan` shifts the offsets of later terms.
    Vlan(u16),
    All(Vec<Self>),
    Any(Vec<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AddressSide {
    Source,
    Destination,
}

impl Ask {
    /// Keys of extents that may contain such packets.
    pub(super) fn keys(&self) -> Keys {
        let hiding = HIDING_PROTOCOLS.iter().map(|it| Term::equal(Field::Protocol, *it));
        let hiding = hiding.chain(HIDING_PORTS.iter().map(|it| Term::equal(Field::Port, *it)));
        let hiding = hiding.map(Keys::Term);
        Keys::Any(std::iter::once(self.plain_keys()).chain(hiding).collect())
    }

    /// Keys of such packets without hidden headers.
    pub(super) fn plain_keys(&self) -> Keys {
        let all = |asks: &[Self]| asks.iter().map(Self::plain_keys).collect();
        match self {
            Self::Address(_, IpAddr::V4(address)) => term(Field::Ipv4, u32::from(*address)),
            Self::Address(_, IpAddr::V6(address)) => term(Field::Ipv6, u128::from(*address)),
            Self::Port(_, port) => term(Field::Port, *port),
            Self::Protocol(protocol) => term(Field::Protocol, *protocol),
            Self::Vlan(id) => term(Field::Vlan, *id),
            Self::All(asks) => Keys::All(all(asks)),
            Self::Any(asks) => Keys::Any(all(asks)),
        }
    }

    /// An expression of pcap-filter(7) that accepts such packets; `None` if it would accept all.
    pub(super) fn expression(&self) -> Option<String> {
        let plain = self.plain_expression()?;
        let protocols = HIDING_PROTOCOLS.iter().map(|it| format!("ip[9]={it} or ip6[6]={it}"));
        let ports = HIDING_PORTS.iter().map(|it| format!("udp dst port {it}"));
        let hiding: Vec<_> = protocols.chain(ports).collect();
        // Double tags are last, because `vlan` shifts the offsets of later terms. The terms before
        // do not see behind a second tag.
        Some(format!("({plain}) or {} or (vlan and vlan)", hiding.join(" or ")))
    }

    fn plain_expression(&self) -> Option<String> {
        match self {
            Self::Address(side, address) => Some(format!("{} host {address}", side.word())),
            Self::Port(side, port) => Some(format!("{} port {port}", side.word())),
            Self::Protocol(it) => Some(format!("ip[9]={it} or ip6[6]={it}")),
            Self::Vlan(_) => None,
            Self::All(asks) => {
                let known: Vec<_> = asks.iter().filter_map(Self::plain_expression).collect();
                (!known.is_empty()).then(|| joined(&known, "and"))
            }
            Self::Any(asks) => {
                let known: Option<Vec<_>> = asks.iter().map(Self::plain_expression).collect();
                known.filter(|known| !known.is_empty()).map(|known| joined(&known, "or"))
            }
        }
    }
}

impl AddressSide {
    fn word(self) -> &'static str {
        match self {
            Self::Source => "src",
            Self::Destination => "dst",
        }
    }
}

fn term(field: Field, value: impl Into<u128>) -> Keys {
    Keys::Term(Term::equal(field, value))
}

fn joined(expressions: &[String], word: &str) -> String {
    let parts: Vec<_> = expressions.iter().map(|it| format!("({it})")).collect();
    parts.join(&format!(" {word} "))
}
