use std::vec::Vec;

use super::*;
use crate::{
    EtherType, FlowKey, FragmentView, Ipv4, Ipv4View, Ipv6, Ipv6View, Tcp, UdpView,
    checksum::{pseudo_v4, pseudo_v6},
    flow::Addresses,
    icmpv4::Echo,
    ipv4, packet,
};

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const NEW4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const NEW6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);
const LINK: packet::Link = packet::ethernet(MacAddr::ZERO, MacAddr::BROADCAST);

fn emitted(packet: &packet::Packet<'_>) -> Vec<u8> {
    let mut frame = std::vec![0; packet.len()];
    packet.emit(&mut frame).unwrap();
    frame
}

#[test]
fn every_field_and_its_checksums() {
    let echo = Echo { identifier: 7, sequence: 8 };
    let new = Echo { identifier: 9, sequence: 8 };
    let link = LINK.vlan(3);
    let v4 = |a, b, ttl| link.ipv4(a, b).ttl(ttl);
    let v6 = |a, b, ttl| link.ipv6(a, b).ttl(ttl);
    let cases = [
        (v4(A4, B4, 64).udp(1, 2, b"odd"), v4(NEW4, A4, 63).udp(3, 4, b"odd")),
        (
            v4(A4, B4, 64).tcp(Tcp::between(1, 2), b"odd"),
            v4(NEW4, A4, 63).tcp(Tcp::between(3, 4), b"odd"),
        ),
        (
            v4(A4, B4, 64).icmp(Icmpv4::EchoRequest(echo), b"ping"),
            v4(NEW4, A4, 63).icmp(Icmpv4::EchoRequest(new), b"ping"),
        ),
        (v6(A6, B6, 64).udp(1, 2, b"odd"), v6(NEW6, A6, 63).udp(3, 4, b"odd")),
        (
            v6(A6, B6, 64).tcp(Tcp::between(1, 2), b"odd"),
            v6(NEW6, A6, 63).tcp(Tcp::between(3, 4), b"odd"),
        ),
        (
            v6(A6, B6, 64).icmp(Icmpv6::EchoReply(echo), b"ping"),
            v6(NEW6, A6, 63).icmp(Icmpv6::EchoReply(new), b"ping"),
        ),
        (v4(A4, B4, 64).other(Protocol::ESP, b"x"), v4(NEW4, A4, 63).other(Protocol::ESP, b"x")),
    ];
    for (before, after) in cases {
        let (mut frame, expected) = (emitted(&before), emitted(&after));
        let has_ports = FlowKey::parse(&frame).unwrap().unwrap().ports.is_some();
        let is_v4 = EtherType(u16::from_be_bytes([frame[16], frame[17]])) == EtherType::IPV4;
        let mut packet = PacketMut::new(&mut frame).unwrap();
        if is_v4 {
            assert_eq!(packet.set_ipv6_source(A6), Err(WireError::Absent("IPv6 header")));
            packet.set_ipv4_source(NEW4).unwrap();
            packet.set_ipv4_destination(A4).unwrap();
        } else {
            assert_eq!(packet.set_ipv4_destination(A4), Err(WireError::Absent("IPv4 header")));
            packet.set_ipv6_source(NEW6).unwrap();
            packet.set_ipv6_destination(A6).unwrap();
        }
        packet.set_ttl(63).unwrap();
        match packet.echo_identifier() {
            Some(identifier) => {
                assert_eq!(identifier, 7);
                packet.set_echo_identifier(9).unwrap();
            }
            None => assert!(packet.set_echo_identifier(9).is_err()),
        }
        assert_eq!(packet.set_source_port(3).is_ok(), has_ports);
        assert_eq!(packet.set_destination_port(4).is_ok(), has_ports);
        assert_eq!(frame, expected, "{after:?}");
    }
}

#[test]
fn mac_addresses() {
    let mut frame = emitted(&LINK.other(EtherType::ARP, b""));
    let mut packet = PacketMut::new(&mut frame).unwrap();
    assert_eq!(packet.source_mac(), MacAddr::ZERO);
    packet.set_source_mac(MacAddr([1; 6]));
    packet.set_destination_mac(MacAddr([2; 6]));
    assert_eq!(packet.set_ttl(1), Err(WireError::Absent("IP header")));
    assert_eq!(frame[..12], [[2; 6], [1; 6]].concat());
}

#[test]
fn a_partial_checksum_stays_one() {
    let mut frame = emitted(&LINK.ipv4(A4, B4).tcp(Tcp::between(1, 2), b"payload"));
    let partial = |source, destination| {
        pseudo_v4(source, destination, Protocol::TCP, 27).partial().to_be_bytes()
    };
    frame[50..52].copy_from_slice(&partial(A4, B4));
    let mut packet = PacketMut::new_partial(&mut frame, 34).unwrap();
    packet.set_ipv4_source(NEW4).unwrap();
    packet.set_source_port(7).unwrap();
    assert_eq!(frame[50..52], partial(NEW4, B4));
    assert_eq!(frame[34..36], [0, 7]);

    // The partial checksum of an inner packet leaves the outer checksum complete; with an unknown
    // offset, the state is unknown.
    let mut inner = emitted(&LINK.ipv4(A4, B4).udp(1, 4789, &[0; 50]));
    let mut whole = inner.clone();
    PacketMut::new_partial(&mut inner, 80).unwrap().set_ipv4_source(NEW4).unwrap();
    PacketMut::new(&mut whole).unwrap().set_ipv4_source(NEW4).unwrap();
    assert_eq!(inner, whole);
    let before = whole.clone();
    let mut packet = PacketMut::new_partial(&mut whole, usize::from(u16::MAX)).unwrap();
    assert!(matches!(packet.set_ipv4_source(A4), Err(WireError::Malformed(_))));
    assert!(matches!(packet.set_source_port(9), Err(WireError::Malformed(_))));
    packet.set_ttl(64).unwrap();
    assert_eq!(whole, before);
}

#[test]
fn no_udp_checksum_stays_none() {
    for packet in [LINK.ipv4(A4, B4).udp(1, 2, b"x"), LINK.ipv6(A6, B6).udp(1, 2, b"x")] {
        let mut frame = emitted(&packet);
        let at = frame.len() - 9 + 6;
        frame[at..at + 2].fill(0);
        let mut packet = PacketMut::new(&mut frame).unwrap();
        packet.set_source_port(9).unwrap();
        let _ = (packet.set_ipv4_source(NEW4), packet.set_ipv6_source(NEW6));
        assert_eq!(frame[at..at + 2], [0, 0]);
    }
}

#[test]
fn a_udp_checksum_never_becomes_none() {
    let mut frame = emitted(&LINK.ipv4(A4, B4).udp(1, 2, b"x"));
    // The port that makes the sum 0xffff, and so the checksum 0: 1 plus the complement of the
    // current sum.
    let (port, carry) = u16::from_be_bytes([frame[40], frame[41]]).overflowing_add(1);
    let port = port + u16::from(carry);
    let mut seen = false;
    for port in (0..=20).map(|near| port.wrapping_add(near).wrapping_sub(10)) {
        PacketMut::new(&mut frame).unwrap().set_source_port(port).unwrap();
        assert_ne!(frame[40..42], [0, 0]);
        seen |= frame[40..42] == [0xff, 0xff];
    }
    assert!(seen);
}

/// The frame of a UDP packet, cut into two fragments.
fn fragments() -> [Vec<u8>; 2] {
    let whole = emitted(&LINK.ipv4(A4, B4).identification(5).udp(1, 2, &[7; 24]));
    let header = Ipv4::parse(&Ipv4View::new(&whole[14..]).unwrap());
    [(0, 16, true), (16, 16, false)].map(|(offset, len, more)| {
        let mut frame = whole[..34].to_vec();
        let (fragment_offset, payload_len) = (offset as u16, len as u16);
        let header = Ipv4 { fragment_offset, payload_len, more_fragments: more, ..header };
        header.emit(&mut frame[14..]).unwrap();
        frame.extend(&whole[34 + offset..34 + offset + len]);
        frame
    })
}

#[test]
fn fragments_give_the_packet_of_new_addresses() {
    let [mut first, mut last] = fragments();
    for frame in [&mut first, &mut last] {
        let mut packet = PacketMut::new(frame).unwrap();
        packet.set_ipv4_source(NEW4).unwrap();
        assert!(Ipv4View::new(&frame[14..]).unwrap().checksum_is_valid());
    }
    PacketMut::new(&mut first).unwrap().set_destination_port(9).unwrap();
    let absent = WireError::Absent("ports of TCP, UDP, UDP-Lite or DCCP");
    assert_eq!(PacketMut::new(&mut last).unwrap().set_destination_port(9), Err(absent));
    let datagram = [&first[34..], &last[34..]].concat();
    let view = UdpView::new(&datagram).unwrap();
    assert_eq!(view.destination_port(), 9);
    assert!(view.checksum_is_valid(pseudo_v4(NEW4, B4, Protocol::UDP, 32)));
}

#[test]
fn a_fragment_without_its_checksum_is_left_alone() {
    // A first fragment of 8 bytes contains the TCP ports without the checksum (RFC 1858).
    let [mut first, _] = fragments();
    let whole = first.clone();
    let header = Ipv4::parse(&Ipv4View::new(&whole[14..]).unwrap());
    first.truncate(42);
    Ipv4 { protocol: Protocol::TCP, payload_len: 8, ..header }.emit(&mut first[14..]).unwrap();
    let before = first.clone();
    let mut packet = PacketMut::new(&mut first).unwrap();
    assert!(matches!(packet.set_ipv4_source(NEW4), Err(WireError::Truncated { .. })));
    assert!(matches!(packet.set_source_port(9), Err(WireError::Truncated { .. })));
    packet.set_ttl(header.ttl).unwrap();
    assert_eq!(first, before);
}

/// UDP behind a routing header of type `kind` with `segments_left`, and a fragment header of
/// `offset`.
fn with_extensions(kind: u8, segments_left: u8, offset: u16) -> Vec<u8> {
    let mut frame = emitted(&LINK.ipv6(A6, B6).udp(1, 2, b"data"));
    let header = Ipv6::parse(&Ipv6View::new(&frame[14..]).unwrap());
    let mut extensions = std::vec![Protocol::FRAGMENT.0, 2, kind, segments_left, 0, 0, 0, 0];
    extensions.extend(NEW6.octets());
    extensions.extend([Protocol::UDP.0, 0, (offset >> 8) as u8, offset as u8, 0, 0, 0, 1]);
    let payload_len = header.payload_len + extensions.len() as u16;
    let header = Ipv6 { next_header: Protocol::ROUTING, payload_len, ..header };
    header.emit(&mut frame[14..]).unwrap();
    frame.splice(54..54, extensions);
    assert!(FragmentView::new(&frame[78..]).is_ok());
    frame
}

#[test]
fn extension_headers() {
    let mut frame = with_extensions(0, 0, 0);
    let mut packet = PacketMut::new(&mut frame).unwrap();
    packet.set_ipv6_source(NEW6).unwrap();
    packet.set_ipv6_destination(A6).unwrap();
    packet.set_source_port(9).unwrap();
    let view = UdpView::new(&frame[86..]).unwrap();
    assert!(view.checksum_is_valid(pseudo_v6(NEW6, A6, Protocol::UDP, 12)));
    assert_eq!(view.source_port(), 9);
    let addresses = Addresses::V6 { source: NEW6, destination: A6 };
    assert_eq!(FlowKey::parse(&frame).unwrap().unwrap().addresses, addresses);

    // While routers are left to visit, the checksum is for the final destination.
    let mut frame = with_extensions(0, 1, 0);
    let checksum = [frame[92], frame[93]];
    PacketMut::new(&mut frame).unwrap().set_ipv6_destination(A6).unwrap();
    assert_eq!([frame[92], frame[93]], checksum);
    let mut packet = PacketMut::new(&mut frame).unwrap();
    packet.set_ipv6_source(NEW6).unwrap();
    assert_ne!([frame[92], frame[93]], checksum);

    // A routing header of unknown type.
    let mut frame = with_extensions(99, 1, 0);
    let mut packet = PacketMut::new(&mut frame).unwrap();
    assert!(matches!(packet.set_ipv6_destination(A6), Err(WireError::Malformed(_))));
    packet.set_ipv6_source(NEW6).unwrap();

    let mut frame = with_extensions(0, 0, 8);
    let mut packet = PacketMut::new(&mut frame).unwrap();
    assert!(matches!(packet.set_source_port(9), Err(WireError::Absent(_))));
    packet.set_ipv6_source(NEW6).unwrap();
    assert_eq!(frame[86..], with_extensions(0, 0, 8)[86..]);
}

#[test]
fn options_are_stepped_over() {
    let whole = emitted(&LINK.ipv4(A4, B4).udp(1, 2, b"data"));
    let header = Ipv4::parse(&Ipv4View::new(&whole[14..]).unwrap());
    let mut frame = [&whole[..34], &[0; 4], &whole[34..]].concat();
    Ipv4 { options: &[1, 1, 1, 0], ..header }.emit(&mut frame[14..]).unwrap();
    let mut packet = PacketMut::new(&mut frame).unwrap();
    packet.set_ipv4_destination(NEW4).unwrap();
    packet.set_destination_port(9).unwrap();
    assert!(Ipv4View::new(&frame[14..]).unwrap().checksum_is_valid());
    let datagram = &frame[14 + ipv4::MIN_LEN + 4..];
    let view = UdpView::new(datagram).unwrap();
    assert!(view.checksum_is_valid(pseudo_v4(A4, NEW4, Protocol::UDP, 12)));
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut frame = emitted(&LINK.ipv4(A4, B4).udp(1, 2, b"data"));
    frame[42] ^= 1;
    PacketMut::new(&mut frame).unwrap().set_ipv4_source(NEW4).unwrap();
    let view = UdpView::new(&frame[34..]).unwrap();
    assert!(!view.checksum_is_valid(pseudo_v4(NEW4, B4, Protocol::UDP, 12)));
}

#[test]
fn a_reversed_packet_equals_one_sent_back() {
    let (a, b) = (MacAddr([2; 6]), MacAddr([4; 6]));
    let (here, there) = (packet::ethernet(a, b).vlan(3), packet::ethernet(b, a).vlan(3));
    let echo = Echo { identifier: 7, sequence: 8 };
    let cases = [
        (here.ipv4(A4, B4).udp(1, 2, b"odd"), there.ipv4(B4, A4).udp(2, 1, b"odd")),
        (here.ipv6(A6, B6).udp(1, 2, b"odd"), there.ipv6(B6, A6).udp(2, 1, b"odd")),
        (
            here.ipv4(A4, B4).tcp(Tcp::between(1, 2), b"odd"),
            there.ipv4(B4, A4).tcp(Tcp::between(2, 1), b"odd"),
        ),
        (
            here.ipv4(A4, B4).icmp(Icmpv4::EchoRequest(echo), b"ping"),
            there.ipv4(B4, A4).icmp(Icmpv4::EchoReply(echo), b"ping"),
        ),
        (
            here.ipv6(A6, B6).icmp(Icmpv6::EchoRequest(echo), b"ping"),
            there.ipv6(B6, A6).icmp(Icmpv6::EchoReply(echo), b"ping"),
        ),
    ];
    for (before, after) in cases {
        let (mut frame, expected) = (emitted(&before), emitted(&after));
        let mut packet = PacketMut::new(&mut frame).unwrap();
        let is_echo = packet.echo_identifier().is_some();
        assert_eq!(packet.set_echo_reply().is_ok(), is_echo);
        assert!(packet.set_echo_reply().is_err());
        packet.reverse().unwrap();
        assert_eq!(frame, expected);
    }
    // A packet to a group, or one without an IP header, cannot be reversed.
    let arp = here.other(EtherType::ARP, b"who has");
    for packet in [LINK.ipv4(A4, B4).udp(1, 2, b"all"), arp] {
        let mut frame = emitted(&packet);
        let before = frame.clone();
        assert!(PacketMut::new(&mut frame).unwrap().reverse().is_err());
        assert_eq!(frame, before);
    }
}
