//! Who a packet is from and to: the part of its keys that differs from conversation to
//! conversation.

use super::flow::FlowId;
use super::load::{FRAGMENT, fragment_offset, has_ports, header_len, short, word};

/// Extension headers of IPv6 that are passed.
const MAX_EXTENSIONS: usize = 8;

/// Addresses and ports of a packet, and what is to be known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends<A> {
    addresses: [A; 2],
    ports: [u16; 2],
    protocol: u8,
    form: Form,
}

/// How many of the addresses and ports are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Form {
    /// Addresses that are keys: 0 to 2.
    addresses: u8,
    /// Ports that are keys: 0 to 2.
    ports: u8,
    has_flow: bool,
    /// Whether the ports are part of the flow.
    has_flow_ports: bool,
}

impl<A: Copy + Into<u128>> Ends<A> {
    /// The addresses that are keys.
    #[inline]
    pub(super) fn addresses(&self) -> &[A] {
        &self.addresses[..usize::from(self.form.addresses.min(2))]
    }

    /// The ports that are keys.
    #[inline]
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports[..usize::from(self.form.ports.min(2))]
    }

    /// The flow, if there is one.
    #[inline]
    pub(super) fn flow(&self) -> Option<FlowId> {
        let version = if size_of::<A>() == 4 { 4 } else { 6 };
        let ports = if self.form.has_flow_ports { self.ports } else { [0; 2] };
        let addresses = self.addresses.map(Into::into);
        self.form.has_flow.then(|| FlowId::new(version, self.protocol, addresses, ports))
    }

    /// All but the addresses, in one number.
    #[inline]
    fn rest(&self) -> u64 {
        let form = self.form.addresses
            | self.form.ports << 2
            | u8::from(self.form.has_flow) << 4
            | u8::from(self.form.has_flow_ports) << 5;
        let [source, destination] = self.ports.map(u64::from);
        source << 48 | destination << 32 | u64::from(self.protocol) << 8 | u64::from(form)
    }

    /// What [`rest`](Self::rest) made a number of.
    #[inline]
    fn from_rest(addresses: [A; 2], rest: u64) -> Self {
        let form = Form {
            addresses: rest as u8 & 3,
            ports: rest as u8 >> 2 & 3,
            has_flow: rest >> 4 & 1 == 1,
            has_flow_ports: rest >> 5 & 1 == 1,
        };
        let (ports, protocol) = ([(rest >> 48) as u16, (rest >> 32) as u16], (rest >> 8) as u8);
        Self { addresses, ports, protocol, form }
    }
}

impl Ends<u32> {
    /// As few numbers.
    #[inline]
    pub(super) fn pack(&self) -> [u64; 2] {
        let [source, destination] = self.addresses.map(u64::from);
        [source << 32 | destination, self.rest()]
    }

    /// What [`pack`](Self::pack) made.
    #[inline]
    pub(super) fn unpack([addresses, rest]: [u64; 2]) -> Self {
        Self::from_rest([(addresses >> 32) as u32, addresses as u32], rest)
    }

    /// Of a packet of ARP or RARP.
    #[inline]
    pub(super) fn of_arp(data: &[u8]) -> Self {
        let (source, destination) = (word(data, 14), word(data, 24));
        let count = u8::from(source.is_some()) + u8::from(destination.is_some());
        let addresses = [source.unwrap_or(0), destination.unwrap_or(0)];
        let form = Form { addresses: count, ..Form::default() };
        Self { addresses, ports: [0; 2], protocol: 0, form }
    }

    /// Of a packet of IPv4.
    #[inline]
    pub(super) fn of_ipv4(protocol: u8, data: &[u8]) -> Self {
        let (source, destination) = (word(data, 12), word(data, 16));
        let count = u8::from(source.is_some()) + u8::from(destination.is_some());
        let addresses = [source.unwrap_or(0), destination.unwrap_or(0)];
        let form = Form { addresses: count, has_flow: count == 2, ..Form::default() };
        let ends = Self { addresses, ports: [0; 2], protocol, form };
        if has_ports(protocol) && fragment_offset(data) == 0 {
            ends.with_ports(data, header_len(data))
        } else {
            ends
        }
    }
}

impl Ends<u128> {
    /// As few numbers.
    #[inline]
    pub(super) fn pack(&self) -> [u64; 5] {
        let [[a, b], [c, d]] = self.addresses.map(|it| [(it >> 64) as u64, it as u64]);
        [a, b, c, d, self.rest()]
    }

    /// What [`pack`](Self::pack) made.
    #[inline]
    pub(super) fn unpack([a, b, c, d, rest]: [u64; 5]) -> Self {
        let address = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        Self::from_rest([address(a, b), address(c, d)], rest)
    }

    /// Of a packet of IPv6.
    #[inline]
    pub(super) fn of_ipv6(next: u8, data: &[u8]) -> Self {
        let (source, destination) = (ipv6_address(data, 8), ipv6_address(data, 24));
        let count = u8::from(source.is_some()) + u8::from(destination.is_some());
        let addresses = [source.unwrap_or(0), destination.unwrap_or(0)];
        let form = Form { addresses: count, has_flow: data.len() >= 40, ..Form::default() };
        let ends = Self { addresses, ports: [0; 2], protocol: next, form };
        if has_ports(next) { ends.with_ports(data, 40) } else { ends.behind_extensions(data) }
    }

    /// The same with protocol and ports behind the extension headers: for the flow only, since
    /// programs do not look there.
    fn behind_extensions(mut self, data: &[u8]) -> Self {
        let mut at = 40;
        for _ in 0..MAX_EXTENSIONS {
            let (Some(&next), Some(&len)) = (data.get(at), data.get(at + 1)) else { break };
            let len = match self.protocol {
                0 | 43 | 60 => (usize::from(len) + 1) * 8,
                51 => (usize::from(len) + 2) * 4,
                FRAGMENT => 8,
                _ => break,
            };
            let is_fragment = self.protocol == FRAGMENT;
            self.protocol = next;
            if is_fragment && short(data, at + 2).is_some_and(|word| word & 0xFFF8 != 0) {
                return self;
            }
            at += len;
        }
        if has_ports(self.protocol) {
            self = self.with_ports(data, at);
            self.form.ports = 0;
        }
        self
    }
}

impl<A> Ends<A> {
    #[inline]
    fn with_ports(mut self, data: &[u8], at: usize) -> Self {
        match (short(data, at), short(data, at + 2)) {
            (Some(source), Some(destination)) => {
                self.ports = [source, destination];
                (self.form.ports, self.form.has_flow_ports) = (2, true);
            }
            (Some(source), None) => {
                self.ports = [source, 0];
                self.form.ports = 1;
            }
            (None, _) => {}
        }
        self
    }
}

/// An address, with zeros for the words that were not captured; `None` if none was.
#[inline]
fn ipv6_address(data: &[u8], at: usize) -> Option<u128> {
    if let Some(bytes) = data.get(at..).and_then(|rest| rest.first_chunk()) {
        return Some(u128::from_be_bytes(*bytes));
    }
    let first = word(data, at)?;
    let later = [4, 8, 12].map(|more| word(data, at + more).unwrap_or(0));
    Some(later.iter().fold(first.into(), |address, word| address << 32 | u128::from(*word)))
}
