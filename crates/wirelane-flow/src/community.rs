//! Community ID v1: an identifier of conversations that many tools log
//! (<https://github.com/corelight/community-id-spec>).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use wirelane_wire::Protocol;

use crate::compact::{Compact, Endpoints};
use crate::icmp;

/// The SHA-1 of Community ID v1 with seed 0.
pub(crate) fn id(key: &Compact) -> [u8; 20] {
    const SEED: [u8; 2] = [0; 2];
    const WITH_PORTS: [Protocol; 5] =
        [Protocol::ICMP, Protocol::TCP, Protocol::UDP, Protocol::ICMPV6, Protocol::SCTP];
    let ends = key.ends();
    let mut hash = Sha1::new().chain_update(SEED);
    for address in ends.addresses() {
        match address {
            IpAddr::V4(address) => hash.update(address.octets()),
            IpAddr::V6(address) => hash.update(address.octets()),
        }
    }
    hash.update([key.protocol().0, 0]);
    if WITH_PORTS.contains(&key.protocol()) {
        ends.ports.iter().for_each(|port| hash.update(port.to_be_bytes()));
    }
    hash.finalize().into()
}

/// The SHA-1 of Community ID v1 with seed 0, for the conversation of a packet. For ICMP, the ports
/// are type and code. Pass `None` for a fragment.
#[must_use]
pub fn community_digest(
    protocol: Protocol,
    [source, destination]: [IpAddr; 2],
    ports: Option<[u16; 2]>,
) -> [u8; 20] {
    let halves = |address: IpAddr| match address {
        IpAddr::V4(address) => [0, u32::from(address).into()],
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            [(bits >> 64) as u64, bits as u64]
        }
    };
    let (ports, is_one_way) = match (protocol, ports) {
        // Types and codes are single bytes.
        (Protocol::ICMP | Protocol::ICMPV6, Some([kind, code])) => {
            icmp::ports(protocol, kind as u8, code as u8)
        }
        (_, ports) => (ports.unwrap_or_default(), false),
    };
    let (first, second, is_v6) = (halves(source), halves(destination), source.is_ipv6());
    let ends = Endpoints { first, second, ports, is_v6 };
    let ends = if is_one_way { ends } else { ends.ordered().0 };
    id(&Compact::new(ends, protocol, is_one_way))
}

/// Appends the Community ID as text: `1:` and base 64 (RFC 4648), 30 bytes.
pub fn write_community_id(digest: &[u8; 20], out: &mut Vec<u8>) {
    let mut text = *b"1:............................";
    if let Some(digits) = text.get_mut(2..) {
        // 28 digits encode 20 bytes.
        let _ = STANDARD.encode_slice(digest, digits);
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp;
    use crate::packet::{DecodedPacket, Packet};

    /// From `baseline/baseline_deflt.json` of the specification: protocol, both addresses, both
    /// ports, the ID.
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

    fn ends_of(line: &str) -> [IpAddr; 2] {
        let mut words = line.split(' ').skip(1);
        [(); 2].map(|()| words.next().unwrap().parse().unwrap())
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
                // In an exchange, the second port is the type of the answer.
                let (as_ports, one_way) = icmp::ports(protocol, ports[0] as u8, ports[1] as u8);
                assert_eq!(as_ports, ports, "{line}");
                is_one_way = one_way;
            }
            let ends = super::super::compact::Endpoints { first, second, ports, is_v6 };
            let ends = if is_one_way { ends } else { ends.ordered().0 };
            let mut text = Vec::new();
            let digest = id(&Compact::new(ends, protocol, is_one_way));
            write_community_id(&digest, &mut text);
            let told = match is_one_way || ![Protocol::ICMP, Protocol::ICMPV6].contains(&protocol) {
                true => ports,
                // The code does not count.
                false => [ports[0], 0],
            };
            let [from, to] = ends_of(line);
            assert_eq!(community_digest(protocol, [from, to], Some(told)), digest, "{line}");
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
            id(&DecodedPacket::of(&packet).unwrap().0.key)
        };
        let there = id_of([128, 232, 110, 120], [66, 35, 250, 204], (34855, 80));
        let back = id_of([66, 35, 250, 204], [128, 232, 110, 120], (80, 34855));
        assert_eq!(there, back);
        let mut text = Vec::new();
        write_community_id(&there, &mut text);
        assert_eq!(text, b"1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
    }
}
