//! A fast decoder for most packets: Ethernet, at most one VLAN tag, IP without options or extension
//! headers, and the start of a TCP or UDP header. [`DecodedPacket::of`] decodes all packets, with
//! the same result for these.

use wirelane_wire::{EtherType, Protocol, TcpFlags, Tunnel};

use crate::compact::{Compact, Endpoints};
use crate::packet::{DecodedPacket, Packet, TcpValues};

const ETHERNET: u16 = 1;
const TCP_LEN: u32 = 20;
const UDP_LEN: u32 = 8;

impl DecodedPacket {
    /// Decodes a usual packet; `None` for any other.
    #[inline(always)]
    pub(crate) fn plain(packet: &Packet<'_>) -> Option<Self> {
        if packet.link_type != ETHERNET {
            return None;
        }
        let (&[.., high, low], rest) = packet.data.split_first_chunk::<14>()?;
        let ethertype = EtherType(u16::from_be_bytes([high, low]));
        if !ethertype.is_vlan() {
            return Self::network(packet, ethertype, rest, None);
        }
        let (&[a, b, high, low], rest) = rest.split_first_chunk::<4>()?;
        let id = u16::from_be_bytes([a, b]) & 0x0fff;
        Self::network(packet, EtherType(u16::from_be_bytes([high, low])), rest, Some(id))
    }

    #[inline(always)]
    fn network(
        packet: &Packet<'_>,
        ethertype: EtherType,
        bytes: &[u8],
        vlan: Option<u16>,
    ) -> Option<Self> {
        match ethertype {
            EtherType::IPV4 => {
                let (header, rest) = bytes.split_first_chunk::<20>()?;
                #[rustfmt::skip]
                let &[
                    0x45, service, a, b, _, _, c, d, ttl, protocol, _, _,
                    s0, s1, s2, s3, d0, d1, d2, d3,
                ] = header else { return None };
                // More Fragments or an offset: a fragment. The mask excludes Don't Fragment.
                if u16::from_be_bytes([c, d]) & 0x3fff != 0 {
                    return None;
                }
                let ends = [[s0, s1, s2, s3], [d0, d1, d2, d3]];
                let [first, second] = ends.map(|end| [0, u32::from_be_bytes(end).into()]);
                let ends = Endpoints { first, second, ports: [0; 2], is_v6: false };
                let octets = u16::from_be_bytes([a, b]).into();
                let upper = IpHeaderValues { ends, octets, header_len: 20, protocol, service, ttl };
                upper.seen(packet, rest, vlan)
            }
            EtherType::IPV6 => {
                let (&[a, b, _, _, c, d, protocol, ttl, ..], rest) =
                    bytes.split_first_chunk::<40>()?;
                let (first, second) = (halves(bytes.get(8..24)?)?, halves(bytes.get(24..40)?)?);
                if a >> 4 != 6 {
                    return None;
                }
                let ends = Endpoints { first, second, ports: [0; 2], is_v6: true };
                let octets = u32::from(u16::from_be_bytes([c, d])) + 40;
                let service = a << 4 | b >> 4;
                let upper = IpHeaderValues { ends, octets, header_len: 40, protocol, service, ttl };
                upper.seen(packet, rest, vlan)
            }
            _ => None,
        }
    }
}

/// Values of an IP header.
struct IpHeaderValues {
    /// The addresses, without ports.
    ends: Endpoints,
    /// The total length from the header, and the length of the IP header.
    octets: u32,
    header_len: u32,
    protocol: u8,
    /// Type of service or traffic class.
    service: u8,
    ttl: u8,
}

impl IpHeaderValues {
    #[inline(always)]
    fn seen(self, packet: &Packet<'_>, bytes: &[u8], vlan: Option<u16>) -> Option<DecodedPacket> {
        let Self { ends, octets, header_len, protocol, service, ttl } = self;
        let protocol = Protocol(protocol);
        // The lengths in the headers must cover the bytes that are read.
        let carried = octets.checked_sub(header_len)?;
        let (ports, tcp, len) = match protocol {
            Protocol::TCP if carried >= TCP_LEN => {
                let &[s, t, u, v, a, b, c, d, _, _, _, _, e, f, g, h] =
                    bytes.first_chunk::<16>()?;
                let segment = TcpValues {
                    sequence: u32::from_be_bytes([a, b, c, d]),
                    flags: TcpFlags::from_bits(u16::from_be_bytes([e, f])),
                    window: u16::from_be_bytes([g, h]),
                };
                ([[s, t], [u, v]], Some(segment), u32::from(e >> 4) * 4)
            }
            Protocol::UDP if carried >= UDP_LEN => {
                let &[s, t, u, v] = bytes.first_chunk::<4>()?;
                if Tunnel::is_port(u16::from_be_bytes([u, v])) {
                    return None;
                }
                ([[s, t], [u, v]], None, UDP_LEN)
            }
            _ => return None,
        };
        let (ends, is_reversed) =
            Endpoints { ports: ports.map(u16::from_be_bytes), ..ends }.ordered();
        Some(DecodedPacket {
            key: Compact::new(ends, protocol, false).on(packet.interface).tagged(vlan, None),
            is_reversed,
            tcp,
            time: packet.time,
            octets,
            payload: carried.saturating_sub(len),
            queue: packet.queue,
            dscp: service >> 2,
            ecn: service & 3,
            ttl,
        })
    }
}

/// The halves of an IPv6 address.
#[inline(always)]
fn halves(address: &[u8]) -> Option<[u64; 2]> {
    let (high, low) = address.split_first_chunk::<8>()?;
    Some([u64::from_be_bytes(*high), u64::from_be_bytes(*low.first_chunk()?)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirelane_wire::{MacAddr, Tcp, packet};

    use super::*;

    /// A packet of each kind that this decoder supports: IPv4 and IPv6, TCP and UDP, with and
    /// without a tag.
    fn frame(is_v6: bool, is_tcp: bool, is_tagged: bool, payload: &[u8]) -> Vec<u8> {
        let mut link = packet::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        if is_tagged {
            link = link.vlan(77);
        }
        let tcp = Tcp { sequence: 0x1234_5678, ..Tcp::between(4000, 80) };
        let packet = if is_v6 {
            let ends = ["2001:db8::1:2:3:4", "2001:db8:9:8:7:6:5:4"];
            let [from, to] = ends.map(|address| address.parse().unwrap());
            let ip = link.ipv6(from, to);
            if is_tcp { ip.tcp(tcp, payload) } else { ip.udp(4000, 53, payload) }
        } else {
            let ip = link.ipv4([10, 1, 2, 3].into(), [10, 4, 5, 6].into());
            if is_tcp { ip.tcp(tcp, payload) } else { ip.udp(4000, 53, payload) }
        };
        let mut frame = vec![0; 400];
        let len = packet.emit(&mut frame).unwrap();
        frame.truncate(len);
        frame
    }

    fn decoded(link_type: u16, data: &[u8]) -> (Option<DecodedPacket>, Option<DecodedPacket>) {
        let original_len = data.len() as u32;
        let packet = Packet { link_type, data, original_len, time: 5, interface: 3, queue: 2 };
        let whole = DecodedPacket::of(&packet).ok().filter(|(_, outer)| outer.is_none());
        (DecodedPacket::plain(&packet), whole.map(|(seen, _)| seen))
    }

    #[test]
    fn usual_packets_are_decoded_here_and_others_are_not() {
        for kind in 0..8 {
            let frame = frame(kind & 1 != 0, kind & 2 != 0, kind & 4 != 0, b"payload");
            let (plain, whole) = decoded(1, &frame);
            assert!(plain.is_some() && plain == whole, "{kind}: {plain:?} {whole:?}");
            assert_eq!(plain.unwrap().payload, 7);
            assert_eq!(decoded(101, &frame).0, None);
        }
    }

    proptest! {
        /// Random bytes, mostly of headers, are changed, and the end is cut.
        #[test]
        fn both_decoders_agree(
            kind in 0..8,
            payload in 0..40_usize,
            changes in prop::collection::vec((0_usize..90, any::<u8>()), 0..4),
            cut in 0_usize..140,
        ) {
            let payload = vec![1; payload];
            let mut frame = frame(kind & 1 != 0, kind & 2 != 0, kind & 4 != 0, &payload);
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            frame.truncate(cut);
            let (plain, whole) = decoded(1, &frame);
            if plain.is_some() {
                prop_assert_eq!(plain, whole);
            }
        }
    }
}
