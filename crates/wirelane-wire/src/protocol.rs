//! IP protocol numbers, which are also IPv6 next-header values.

use core::fmt;

use crate::field::fields;

/// An IP protocol number, or an IPv6 next-header value (the IANA "Assigned Internet Protocol
/// Numbers" registry).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

fields! {
    Protocol: 1, |[number]: [u8; 1]| Protocol(number), |it: Protocol| [it.0];
}

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP over IPv4.
    pub const ICMP: Self = Self(1);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// DCCP.
    pub const DCCP: Self = Self(33);
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header (RFC 8200 section 4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header (RFC 8200 section 4.5).
    pub const FRAGMENT: Self = Self(44);
    /// Generic routing encapsulation (RFC 2784).
    pub const GRE: Self = Self(47);
    /// Encapsulating security payload (RFC 4303): the rest is encrypted.
    pub const ESP: Self = Self(50);
    /// Authentication header (RFC 4302).
    pub const AH: Self = Self(51);
    /// ICMP over IPv6.
    pub const ICMPV6: Self = Self(58);
    /// IPv6: no further header (RFC 8200 section 4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options (RFC 8200 section 4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// SCTP.
    pub const SCTP: Self = Self(132);
    /// UDP-Lite.
    pub const UDP_LITE: Self = Self(136);

    /// Whether the header begins with a 16-bit source port and a 16-bit destination port.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::DCCP | Self::SCTP | Self::UDP_LITE)
    }

    /// Whether this is an IPv6 extension header that [`crate::ipv6::walk`] steps over.
    #[inline]
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP
                | Self::ROUTING
                | Self::FRAGMENT
                | Self::AH
                | Self::DESTINATION_OPTIONS
        )
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMP => "icmp",
            Self(2) => "igmp",
            Self::IPV4 => "ipv4",
            Self::TCP => "tcp",
            Self::UDP => "udp",
            Self::DCCP => "dccp",
            Self::IPV6 => "ipv6",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "gre",
            Self::ESP => "esp",
            Self::AH => "ah",
            Self::ICMPV6 => "icmp6",
            Self::NO_NEXT_HEADER => "none",
            Self::DESTINATION_OPTIONS => "destination-options",
            Self(46) => "rsvp",
            Self(88) => "eigrp",
            Self(89) => "ospf",
            Self(103) => "pim",
            Self(112) => "vrrp",
            Self(113) => "pgm",
            Self(115) => "l2tp",
            Self::SCTP => "sctp",
            Self::UDP_LITE => "udp-lite",
            _ => return None,
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "proto-{}", self.0),
        }
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
