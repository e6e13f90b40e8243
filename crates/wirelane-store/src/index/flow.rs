//! Identifies the conversation of a packet.

use crate::key::{Field, Term};

/// A conversation: two endpoints and a protocol, the same for both directions.
///
/// VLAN tags and link types do not matter. A packet has a flow if it is IPv4 or IPv6 (see
/// [`Layout`](super::Layout)) and its addresses are captured. The protocol is the one behind the
/// extension headers of IPv6. Ports are of TCP, UDP or SCTP; they are 0 if the packet has none:
/// another protocol, a fragment other than the first, or a packet cut off before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// Address and port, the lesser endpoint first. An IPv4 address is in the last 32 bits.
    endpoints: [(u128, u16); 2],
    protocol: u8,
    version: u8,
}

impl FlowId {
    /// The flow between these addresses and ports, in any order; `version` is 4 or 6.
    #[inline]
    pub(crate) fn new(version: u8, protocol: u8, addresses: [u128; 2], ports: [u16; 2]) -> Self {
        let mut endpoints = [(addresses[0], ports[0]), (addresses[1], ports[1])];
        if endpoints[1] < endpoints[0] {
            endpoints.swap(0, 1);
        }
        Self { endpoints, protocol, version }
    }

    /// Its key in an index.
    ///
    /// `h` = 0; then for each word `w` of 64 bits: `h` = the upper half of (`h` ^ `w`) ×
    /// 0x9E3779B97F4A7C15 ^ the lower half of that product of 128 bits. The key is the upper half
    /// of the last `h`. The words are, for IPv4: the lesser endpoint's address, shifted left by 32,
    /// plus the other's; for IPv6: both halves of the lesser endpoint's address, then both of the
    /// other's; then for both: the lesser endpoint's port shifted left by 48, plus the other's
    /// shifted by 32, plus the protocol shifted by 8, plus 4 or 6. Endpoints compare by address,
    /// then by port.
    #[must_use]
    pub fn key(&self) -> u32 {
        let [(first, first_port), (second, second_port)] = self.endpoints;
        let ports = u64::from(first_port) << 48 | u64::from(second_port) << 32;
        let last = ports | u64::from(self.protocol) << 8 | u64::from(self.version);
        let addresses = if self.version == 4 {
            fold(0, (first as u64) << 32 | second as u64)
        } else {
            [first, second]
                .into_iter()
                .fold(0, |hash, address| fold(fold(hash, (address >> 64) as u64), address as u64))
        };
        (fold(addresses, last) >> 32) as u32
    }

    /// The condition that matches this flow in an index.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::equal(Field::Flow, self.key())
    }
}

#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}
