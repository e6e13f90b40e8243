//! The ends of a packet: the keys that differ from conversation to conversation.

use super::flow::FlowId;
use super::load::{FRAGMENT, fragment_offset, has_ports, header_len, short, word};

/// The most extension headers of IPv6 that are skipped.
const MAX_EXTENSIONS: usize = 8;

/// Addresses and ports of a packet, and which of them are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketEndpoints<A> {
    addresses: [A; 2],
    /// Source port, destination port (16 bits each), 16 bits of 0, protocol (8 bits), and the form:
    /// see below.
    rest: u64,
}

/// Number of addresses that are keys: 0 to 2.
const ADDRESSES: u64 = 3;
/// Number of ports that are keys: 0 to 2, in units of this.
const PORT: u64 = 4;
const PORTS: u64 = 3 * PORT;
/// Whether there is a flow, and whether the ports are part of it.
const FLOW: u64 = 0x10;
const FLOW_PORTS: u64 = 0x20;

impl<A: Copy + Into<u128>> PacketEndpoints<A> {
    /// The addresses that are keys.
    pub(super) fn addresses(&self) -> &[A] {
        &self.addresses[..((self.rest & ADDRESSES) as usize).min(2)]
    }

    /// The ports that are keys.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.all_ports().into_iter().take(((self.rest & PORTS) / PORT) as usize)
    }

    /// The flow, if there is one.
    pub(super) fn flow(&self) -> Option<FlowId> {
        let version = if size_of::<A>() == 4 { 4 } else { 6 };
        let ports = if self.rest & FLOW_PORTS != 0 { self.all_ports() } else { [0; 2] };
        let (protocol, addresses) = ((self.rest >> 8) as u8, self.addresses.map(Into::into));
        (self.rest & FLOW != 0).then(|| FlowId::new(version, protocol, addresses, ports))
    }

    fn all_ports(&self) -> [u16; 2] {
        [(self.rest >> 48) as u16, (self.rest >> 32) as u16]
    }

    /// Without ports.
    #[inline]
    fn new(protocol: u8, addresses: [Option<A>; 2], has_flow: bool) -> Self
    where
        A: Default,
    {
        let count = addresses.iter().flatten().count() as u64;
        let flow = if has_flow { FLOW } else { 0 };
        let addresses = addresses.map(Option::unwrap_or_default);
        Self { addresses, rest: u64::from(protocol) << 8 | flow | count }
    }

    /// Adds the ports at `at`.
    #[inline]
    fn with_ports(mut self, data: &[u8], at: usize) -> Self {
        if let Some(both) = word(data, at) {
            self.rest |= (u64::from(both) << 32) | (2 * PORT) | FLOW_PORTS;
        } else if let Some(source) = short(data, at) {
            self.rest |= u64::from(source) << 48 | PORT;
        }
        self
    }
}

impl PacketEndpoints<u32> {
    /// Packs the ends for the hash table.
    #[inline]
    pub(super) fn pack(&self) -> [u64; 2] {
        let [source, destination] = self.addresses.map(u64::from);
        [source << 32 | destination, self.rest]
    }

    /// The inverse of [`pack`](Self::pack).
    pub(super) fn unpack([addresses, rest]: [u64; 2]) -> Self {
        Self { addresses: [(addresses >> 32) as u32, addresses as u32], rest }
    }

    /// Of a packet of ARP or RARP.
    pub(super) fn of_arp(data: &[u8]) -> Self {
        Self::new(0, [word(data, 14), word(data, 24)], false)
    }

    /// Of a packet of IPv4.
    #[inline]
    pub(super) fn of_ipv4(protocol: u8, data: &[u8]) -> Self {
        let addresses = [word(data, 12), word(data, 16)];
        let ends = Self::new(protocol, addresses, addresses[1].is_some());
        if has_ports(protocol) && fragment_offset(data) == 0 {
            ends.with_ports(data, header_len(data))
        } else {
            ends
        }
    }
}

impl PacketEndpoints<u128> {
    /// Packs the ends for the hash table.
    #[inline]
    pub(super) fn pack(&self) -> [u64; 5] {
        let [[a, b], [c, d]] = self.addresses.map(|it| [(it >> 64) as u64, it as u64]);
        [a, b, c, d, self.rest]
    }

    /// The inverse of [`pack`](Self::pack).
    pub(super) fn unpack([a, b, c, d, rest]: [u64; 5]) -> Self {
        let address = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Self { addresses: [address(a, b), address(c, d)], rest }
    }

    /// Of a packet of IPv6.
    #[inline]
    pub(super) fn of_ipv6(next: u8, data: &[u8]) -> Self {
        let addresses = [ipv6_address(data, 8), ipv6_address(data, 24)];
        if has_ports(next) {
            return Self::new(next, addresses, data.len() >= 40).with_ports(data, 40);
        }
        // For the flow only: filter programs do not look behind extension headers.
        let (protocol, ports_at) = behind_extensions(next, data);
        let ends = Self::new(protocol, addresses, data.len() >= 40);
        match ports_at {
            Some(at) => {
                let with = ends.with_ports(data, at);
                Self { rest: with.rest & !PORTS, ..with }
            }
            None => ends,
        }
    }
}

/// The protocol behind the extension headers, and the offset of its ports, if it has ports.
fn behind_extensions(next: u8, data: &[u8]) -> (u8, Option<usize>) {
    let (mut protocol, mut at) = (next, 40);
    for _ in 0..MAX_EXTENSIONS {
        let (Some(&next), Some(&len)) = (data.get(at), data.get(at + 1)) else { break };
        let len = match protocol {
            0 | 43 | 60 => (usize::from(len) + 1) * 8,
            51 => (usize::from(len) + 2) * 4,
            FRAGMENT => 8,
            _ => break,
        };
        let is_fragment = protocol == FRAGMENT;
        protocol = next;
        if is_fragment && short(data, at + 2).is_some_and(|word| word & 0xFFF8 != 0) {
            return (protocol, None);
        }
        at += len;
    }
    (protocol, has_ports(protocol).then_some(at))
}

/// An address, with zeros for words that were not captured; `None` without a captured word.
#[inline]
fn ipv6_address(data: &[u8], at: usize) -> Option<u128> {
    if let Some(bytes) = data.get(at..).and_then(|rest| rest.first_chunk()) {
        return Some(u128::from_be_bytes(*bytes));
    }
    let first = word(data, at)?;
    let later = [4, 8, 12].map(|more| word(data, at + more).unwrap_or(0));
    Some(later.iter().fold(first.into(), |address, word| address << 32 | u128::from(*word)))
}
