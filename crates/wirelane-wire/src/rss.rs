//! Receive-side scaling: the Toeplitz hash and the indirection table, as specified in Microsoft's
//! "RSS Hashing Functions" and implemented by NICs.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::{Addresses, FlowKey};

/// Length of a key in bytes.
pub const KEY_LEN: usize = 40;
/// Length of the longest input in bytes: two IPv6 addresses and two ports.
pub const MAX_INPUT: usize = KEY_LEN - 4;

/// A Toeplitz key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ToeplitzKey([u8; KEY_LEN]);

impl ToeplitzKey {
    /// The key of Microsoft's verification suite, the default of many drivers.
    pub const MICROSOFT: Self = Self([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);

    /// A key of period 16 bits, which gives both directions of a conversation the same hash (Woo
    /// and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling", 2012).
    pub const SYMMETRIC: Self = {
        let mut key = [0x6d; KEY_LEN];
        let mut at = 1;
        while at < KEY_LEN {
            key[at] = 0x5a;
            at += 2;
        }
        Self(key)
    };

    /// Takes the bytes of a key, as `ethtool -x` prints them.
    #[inline]
    pub const fn new(key: [u8; KEY_LEN]) -> Self {
        Self(key)
    }

    /// The bytes of the key.
    #[inline]
    pub const fn bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// Whether both directions of any conversation have the same hash: source and destination
    /// fields are 16, 32 or 128 bits apart, so the key must repeat after 16 bits.
    pub const fn is_symmetric(&self) -> bool {
        let mut at = 2;
        while at < KEY_LEN {
            if self.0[at] != self.0[at - 2] {
                return false;
            }
            at += 1;
        }
        true
    }

    /// Hashes the first [`MAX_INPUT`] bytes of `input`. [`ToeplitzTable`] is faster.
    pub const fn hash(&self, input: &[u8]) -> u32 {
        // The upper half of the window is the part of the key that the current input bit selects.
        let mut window = 0_u64;
        let mut at = 0;
        while at < 8 {
            window = window << 8 | self.0[at] as u64;
            at += 1;
        }
        let mut hash = 0;
        at = 0;
        while at < input.len() && at < MAX_INPUT {
            let mut bit = 0x80_u8;
            while bit != 0 {
                if input[at] & bit != 0 {
                    hash ^= (window >> 32) as u32;
                }
                window <<= 1;
                bit >>= 1;
            }
            at += 1;
            if at + 7 < KEY_LEN {
                window |= self.0[at + 7] as u64;
            }
        }
        hash
    }
}

/// A key prepared for fast hashing: the contribution of every value of every half-byte of the
/// input, 4.5 KiB in total.
#[derive(Clone, Debug)]
pub struct ToeplitzTable {
    bytes: [[[u32; 16]; 2]; MAX_INPUT],
}

impl ToeplitzTable {
    /// Prepares a key.
    pub const fn new(key: &ToeplitzKey) -> Self {
        let mut bytes = [[[0; 16]; 2]; MAX_INPUT];
        let mut input = [0; MAX_INPUT];
        let mut at = 0;
        while at < MAX_INPUT {
            let mut value = 0;
            while value < 16 {
                input[at] = value << 4;
                bytes[at][0][value as usize] = key.hash(&input);
                input[at] = value;
                bytes[at][1][value as usize] = key.hash(&input);
                value += 1;
            }
            input[at] = 0;
            at += 1;
        }
        Self { bytes }
    }

    /// Hashes the first [`MAX_INPUT`] bytes of `input`.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.bytes.iter().zip(input).fold(0, |hash, ([high, low], &byte)| {
            hash ^ high[usize::from(byte >> 4)] ^ low[usize::from(byte & 0x0f)]
        })
    }
}

/// The fields of a packet that a NIC hashes: source address, destination address and, if the
/// protocol has ports, source port and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashInput {
    bytes: [u8; MAX_INPUT],
    len: usize,
}

impl HashInput {
    const EMPTY: Self = Self { bytes: [0; MAX_INPUT], len: 0 };

    /// The two-field input of IPv4.
    #[inline]
    pub fn v4(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        Self::EMPTY.with(source.octets()).with(destination.octets())
    }

    /// The four-field input of TCP or UDP over IPv4.
    #[inline]
    pub fn v4_ports(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        source_port: u16,
        destination_port: u16,
    ) -> Self {
        Self::v4(source, destination)
            .with(source_port.to_be_bytes())
            .with(destination_port.to_be_bytes())
    }

    /// The two-field input of IPv6.
    #[inline]
    pub fn v6(source: Ipv6Addr, destination: Ipv6Addr) -> Self {
        Self::EMPTY.with(source.octets()).with(destination.octets())
    }

    /// The four-field input of TCP or UDP over IPv6.
    #[inline]
    pub fn v6_ports(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        source_port: u16,
        destination_port: u16,
    ) -> Self {
        Self::v6(source, destination)
            .with(source_port.to_be_bytes())
            .with(destination_port.to_be_bytes())
    }

    /// The two-field input of a flow.
    #[inline]
    pub fn without_ports(flow: &FlowKey) -> Self {
        match flow.addresses {
            Addresses::V4 { source, destination } => Self::v4(source, destination),
            Addresses::V6 { source, destination } => Self::v6(source, destination),
        }
    }

    /// The four-field input of a flow; the two-field input if the flow has no ports.
    #[inline]
    pub fn with_ports(flow: &FlowKey) -> Self {
        let input = Self::without_ports(flow);
        match flow.ports {
            Some(ports) => {
                input.with(ports.source.to_be_bytes()).with(ports.destination.to_be_bytes())
            }
            None => input,
        }
    }

    /// The bytes to hash.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Appends a field; the constructors never exceed the longest input.
    #[inline]
    fn with<const N: usize>(mut self, field: [u8; N]) -> Self {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + N) {
            room.copy_from_slice(&field);
            self.len += N;
        }
        self
    }
}

/// An indirection table: the queue of each of `N` classes of hashes. `N` is a power of two; 128 is
/// usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectionTable<const N: usize>([u16; N]);

impl<const N: usize> IndirectionTable<N> {
    /// Takes the queue of each entry.
    #[inline]
    pub const fn new(entries: [u16; N]) -> Self {
        const { assert!(N.is_power_of_two(), "an indirection table has a power of two of entries") };
        Self(entries)
    }

    /// Spreads the entries over `queues` queues in round robin, the default of drivers
    /// (`ethtool_rxfh_indir_default` in the kernel); 0 counts as 1.
    pub const fn spread(queues: u16) -> Self {
        let queues = if queues == 0 { 1 } else { queues as usize };
        let mut entries = [0; N];
        let mut at = 0;
        while at < N {
            // Below `queues`, which has 16 bits.
            entries[at] = (at % queues) as u16;
            at += 1;
        }
        Self::new(entries)
    }

    /// The queue of a hash: the entry that its low bits select.
    #[inline]
    pub const fn queue(&self, hash: u32) -> u16 {
        self.0[hash as usize & (N - 1)]
    }

    /// The queue of each entry.
    #[inline]
    pub const fn entries(&self) -> &[u16; N] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microsoft, "Verifying the RSS Hash Calculation": destination and its port, source and its
    /// port, hash without ports, hash with TCP ports.
    const V4: [(&str, u16, &str, u16, u32, u32); 5] = [
        ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
    ];
    const V6: [(&str, u16, &str, u16, u32, u32); 3] = [
        ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
        ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
        (
            "fe80::200:f8ff:fe21:67cf",
            38024,
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    #[track_caller]
    fn check(input: HashInput, expected: u32) {
        static TABLE: ToeplitzTable = ToeplitzTable::new(&ToeplitzKey::MICROSOFT);
        assert_eq!(ToeplitzKey::MICROSOFT.hash(input.bytes()), expected);
        assert_eq!(TABLE.hash(input.bytes()), expected);
    }

    #[test]
    fn microsoft_v4() {
        for (destination, to, source, from, without, with) in V4 {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            check(HashInput::v4(source, destination), without);
            check(HashInput::v4_ports(source, destination, from, to), with);
        }
    }

    #[test]
    fn microsoft_v6() {
        for (destination, to, source, from, without, with) in V6 {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            check(HashInput::v6(source, destination), without);
            check(HashInput::v6_ports(source, destination, from, to), with);
        }
    }

    #[test]
    fn symmetry() {
        assert!(ToeplitzKey::SYMMETRIC.is_symmetric());
        assert!(!ToeplitzKey::MICROSOFT.is_symmetric());
        for (destination, to, source, from, ..) in V6 {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let there = HashInput::v6_ports(source, destination, from, to);
            let back = HashInput::v6_ports(destination, source, to, from);
            assert_ne!(there, back);
            let key = ToeplitzKey::SYMMETRIC;
            assert_eq!(key.hash(there.bytes()), key.hash(back.bytes()));
        }
    }

    #[test]
    fn input_lengths() {
        let key = ToeplitzKey::MICROSOFT;
        let table = ToeplitzTable::new(&key);
        let input = [0xff; 50];
        for len in 0..=input.len() {
            assert_eq!(key.hash(&input[..len]), table.hash(&input[..len]), "{len}");
        }
        assert_eq!(key.hash(&[]), 0);
        assert_eq!(key.hash(&[0x80]), 0x6d5a_56da);
        assert_eq!(key.hash(&input), key.hash(&input[..MAX_INPUT]));
        // The very last bit of the longest input meets the last 32 bits of the key but one.
        let mut last = [0; MAX_INPUT];
        last[MAX_INPUT - 1] = 1;
        assert_eq!(key.hash(&last), 0xbeac_01fa_u32 >> 1 | (0x3b & 1) << 31);
    }

    #[test]
    fn indirection() {
        let table = IndirectionTable::<128>::spread(3);
        assert_eq!(table.queue(0), 0);
        assert_eq!(table.queue(4), 1);
        assert_eq!(table.queue(0xffff_ff80 | 5), 2);
        assert_eq!(IndirectionTable::<8>::spread(0).entries(), &[0; 8]);
        assert_eq!(IndirectionTable::new([3, 1, 2, 0]).queue(6), 2);
    }
}
