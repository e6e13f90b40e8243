//! The compact form of keys in the table, the same for both directions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wirelane_wire::Protocol;

/// Two ends. The ends of a key are in order, so that both directions of a conversation have the
/// same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoints {
    pub(crate) first: [u64; 2],
    pub(crate) second: [u64; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) is_v6: bool,
}

impl Endpoints {
    #[inline]
    pub(crate) fn swapped(self) -> Self {
        let [first, second] = self.ports;
        Self { first: self.second, second: self.first, ports: [second, first], ..self }
    }

    /// The ends in order, and whether they were swapped.
    #[inline]
    pub(crate) fn ordered(self) -> (Self, bool) {
        let [from, to] = self.ports;
        if (self.first, from) > (self.second, to) { (self.swapped(), true) } else { (self, false) }
    }

    pub(crate) fn addresses(&self) -> [IpAddr; 2] {
        [self.first, self.second].map(|[high, low]| match self.is_v6 {
            true => Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
            false => Ipv4Addr::from(low as u32).into(),
        })
    }
}

/// The values that all packets of a flow share.
#[derive(Clone, Copy, Debug, Eq)]
#[repr(C)]
pub(crate) struct Compact {
    first: [u64; 2],
    second: [u64; 2],
    ports: [u16; 2],
    vlan: u16,
    inner_vlan: u16,
    pub(crate) tunnel: u16,
    pub(crate) interface: u16,
    protocol: u8,
    form: u8,
    /// State of the table that uses the padding. It is not part of the key.
    pub(crate) state: u16,
}

const _: () = assert!(size_of::<Compact>() == 48);

impl PartialEq for Compact {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.second, self.ports) == (other.first, other.second, other.ports)
            && (self.vlan, self.inner_vlan) == (other.vlan, other.inner_vlan)
            && (self.tunnel, self.interface) == (other.tunnel, other.interface)
            && (self.protocol, self.form) == (other.protocol, other.form)
    }
}

/// Bits of `Compact::form`.
const V6: u8 = 1;
const ONE_WAY: u8 = 2;
/// No VLAN tag, or no tunnel.
pub(crate) const NONE: u16 = u16::MAX;

impl Compact {
    pub(crate) const NEW: Self = Self {
        first: [0; 2],
        second: [0; 2],
        ports: [0; 2],
        vlan: NONE,
        inner_vlan: NONE,
        tunnel: NONE,
        interface: 0,
        protocol: 0,
        form: 0,
        state: 0,
    };

    #[inline]
    pub(crate) fn new(ends: Endpoints, protocol: Protocol, is_one_way: bool) -> Self {
        let Endpoints { first, second, ports, is_v6 } = ends;
        let form = if is_v6 { V6 } else { 0 } | if is_one_way { ONE_WAY } else { 0 };
        Self { first, second, ports, protocol: protocol.0, form, ..Self::NEW }
    }

    #[inline]
    pub(crate) fn on(self, interface: u16) -> Self {
        Self { interface, ..self }
    }

    #[inline]
    pub(crate) fn tagged(self, vlan: Option<u16>, inner_vlan: Option<u16>) -> Self {
        let of = |tag: Option<u16>| tag.unwrap_or(NONE);
        Self { vlan: of(vlan), inner_vlan: of(inner_vlan), ..self }
    }

    #[inline]
    pub(crate) fn through(self, tunnel: u16) -> Self {
        Self { tunnel, ..self }
    }

    pub(crate) fn ends(&self) -> Endpoints {
        let Self { first, second, ports, form, .. } = *self;
        Endpoints { first, second, ports, is_v6: form & V6 != 0 }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        Protocol(self.protocol)
    }

    /// Whether all packets of the flow have one direction.
    pub(crate) fn is_one_way(&self) -> bool {
        self.form & ONE_WAY != 0
    }

    pub(crate) fn vlans(&self) -> [Option<u16>; 2] {
        [self.vlan, self.inner_vlan].map(|id| Some(id).filter(|id| *id != NONE))
    }

    /// A hash of the key. Without knowledge of the seed, senders cannot choose keys that collide.
    #[inline]
    pub(crate) fn hash(&self, seed: &[u64; 4]) -> u32 {
        let [a, b, c, d] = *seed;
        let [p, q] = self.ports.map(u64::from);
        let ports = p << 48 | q << 32 | u64::from(self.protocol) << 8 | u64::from(self.form);
        let place = u64::from(self.vlan) << 48
            | u64::from(self.inner_vlan) << 32
            | u64::from(self.tunnel) << 16
            | u64::from(self.interface);
        let high = fold(self.first[0] ^ a, self.second[0] ^ b);
        let low = fold(self.first[1] ^ c, self.second[1] ^ d ^ place);
        let all = fold(high ^ low ^ a, ports ^ b);
        (all ^ all >> 32) as u32
    }

    /// The number of a conversation, equal in all tables with this seed. `place` is a hash of the
    /// interface and the tunnel, because their numbers differ between tables.
    pub(crate) fn conversation(&self, seed: &[u64; 4], place: u64) -> u64 {
        let [a, b, c, d] = *seed;
        let [p, q] = self.ports.map(u64::from);
        let ports = p << 48 | q << 32 | u64::from(self.protocol) << 8 | u64::from(self.form);
        let tags = u64::from(self.vlan) << 16 | u64::from(self.inner_vlan);
        let high = fold(self.first[0] ^ a, self.second[0] ^ b);
        let low = fold(self.first[1] ^ c, self.second[1] ^ d);
        let ends = fold(high ^ low.rotate_left(32) ^ a, ports ^ b);
        fold(ends ^ c, place.rotate_left(32) ^ tags ^ d)
    }
}

/// Combines both halves of a product, so that every bit depends on many bits of both factors.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}
