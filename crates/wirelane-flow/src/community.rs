//! Community ID v1: what names a conversation in the logs of many tools
//! (<https://github.com/corelight/community-id-spec>).

use wirelane_wire::Protocol;

use crate::compact::Compact;

/// The SHA-1 of Community ID v1 with seed 0.
pub(crate) fn id(key: &Compact) -> [u8; 20] {
    let ends = key.ends();
    // 0x80 and the length are the padding of SHA-1: all fits in one block.
    let mut block = Block { bytes: [0; 64], len: 2 };
    for address in ends.addresses() {
        match address {
            std::net::IpAddr::V4(address) => block.push(&address.octets()),
            std::net::IpAddr::V6(address) => block.push(&address.octets()),
        }
    }
    block.push(&[key.protocol().0, 0]);
    let has_ports =
        [Protocol::ICMP, Protocol::TCP, Protocol::UDP, Protocol::ICMPV6, Protocol::SCTP];
    if has_ports.contains(&key.protocol()) {
        ends.ports.iter().for_each(|port| block.push(&port.to_be_bytes()));
    }
    block.digest()
}

/// `1:` and base 64 (RFC 4648), 30 bytes in all.
pub fn write_community_id(digest: &[u8; 20], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |sextet: u32| ALPHABET.get(sextet as usize & 63).copied().unwrap_or(b'=');
    out.extend_from_slice(b"1:");
    for group in digest.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            out.push(if place > group.len() { b'=' } else { letter(bits >> shift) });
        }
    }
}

/// The only block of a message of at most 55 bytes.
struct Block {
    bytes: [u8; 64],
    len: usize,
}

impl Block {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    /// SHA-1 (RFC 3174).
    fn digest(mut self) -> [u8; 20] {
        let bits = (self.len as u64) * 8;
        self.push(&[0x80]);
        self.len = 56;
        self.push(&bits.to_be_bytes());
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(self.bytes.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words[at] = mixed.rotate_left(1);
        }
        let start = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0_u32];
        let [mut a, mut b, mut c, mut d, mut e] = start;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(word)
                .wrapping_add(constant);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        let mut digest = [0; 20];
        for ((place, old), new) in digest.chunks_exact_mut(4).zip(start).zip([a, b, c, d, e]) {
            place.copy_from_slice(&old.wrapping_add(new).to_be_bytes());
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::icmp;
    use crate::packet::{Packet, Seen};

    /// What `baseline/baseline_deflt.json` of the specification has: protocol, both addresses, both ports, the ID.
    const BASELINE: &str = include_str!("community_baseline.txt");

    fn address(text: &str) -> ([u64; 2], bool) {
        match text.parse().unwrap() {
            IpAddr::V4(address) => ([0, u32::from(address).into()], false),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                ([(bits >> 64) as u64, bits as u64], true)
            }
        }
    }

    #[test]
    fn ids_are_those_of_the_specification() {
        let mut count = 0;
        for line in BASELINE.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap();
            let protocol = Protocol(next().parse().unwrap());
            let ((first, is_v6), (second, _)) = (address(next()), address(next()));
            let ports: [u16; 2] = [next(), next()].map(|port| port.parse().unwrap_or(0));
            let mut is_one_way = false;
            if [Protocol::ICMP, Protocol::ICMPV6].contains(&protocol) {
                // Those of an exchange have the type of the answer for a port.
                let (as_ports, one_way) = icmp::ports(protocol, ports[0] as u8, ports[1] as u8);
                assert_eq!(as_ports, ports, "{line}");
                is_one_way = one_way;
            }
            let ends = super::super::compact::Ends { first, second, ports, is_v6 };
            let ends = if is_one_way { ends } else { ends.ordered().0 };
            let mut text = Vec::new();
            write_community_id(&id(&Compact::new(ends, protocol, is_one_way)), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), next(), "{line}");
            count += 1;
        }
        assert_eq!(count, 23);
    }

    #[test]
    fn a_packet_and_its_answer_have_one_id() {
        use wirelane_wire::{MacAddr, Tcp, packet};
        let (here, there) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        let id_of = |from: [u8; 4], to: [u8; 4], ports: (u16, u16)| {
            let packet = packet::ethernet(here, there)
                .ipv4(from.into(), to.into())
                .tcp(Tcp::between(ports.0, ports.1), b"");
            let mut frame = [0; 64];
            let len = packet.emit(&mut frame).unwrap();
            let packet = Packet {
                link_type: 1,
                data: &frame[..len],
                original_len: len as u32,
                time: 0,
                interface: 0,
                queue: 0,
            };
            id(&Seen::of(&packet).unwrap().0.key)
        };
        let there = id_of([128, 232, 110, 120], [66, 35, 250, 204], (34855, 80));
        let back = id_of([66, 35, 250, 204], [128, 232, 110, 120], (80, 34855));
        assert_eq!(there, back);
        let mut text = Vec::new();
        write_community_id(&there, &mut text);
        assert_eq!(text, b"1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
    }
}
