use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use super::*;
use crate::{
    ArpView, FlowKey, Icmpv4View, Icmpv6View, Ipv4View, Ipv6View, Layers, NeighborView, TcpFlags,
    TcpView, UdpView, icmpv4::Echo,
};

const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const A4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn emitted(packet: &Packet<'_>) -> Vec<u8> {
    let mut frame = std::vec![0xa5; packet.len()];
    assert_eq!(packet.emit(&mut frame), Ok(packet.len()));
    for have in 0..packet.len() {
        let needed = packet.len();
        assert_eq!(packet.emit(&mut frame[..have]), Err(WireError::Truncated { needed, have }));
    }
    packet.emit(&mut frame).unwrap();
    frame
}

#[test]
fn udp_over_both() {
    let payload = b"what does DNS say?";
    for (frame, pseudo) in [
        (
            emitted(&ethernet(HERE, THERE).ipv4(A4, B4).ttl(3).dscp(46).ecn(1).udp(1, 53, payload)),
            pseudo_v4(A4, B4, Protocol::UDP, 26),
        ),
        (
            emitted(&ethernet(HERE, THERE).ipv6(A6, B6).ttl(3).flow_label(7).udp(1, 53, payload)),
            pseudo_v6(A6, B6, Protocol::UDP, 26),
        ),
    ] {
        let layers = Layers::parse(&frame).unwrap();
        assert_eq!((layers.ethernet.source, layers.ethernet.destination), (HERE, THERE));
        let datagram = layers.transport.unwrap().bytes;
        let view = UdpView::new(datagram).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (1, 53));
        assert_eq!(view.payload(), payload);
        assert!(view.checksum_is_valid(pseudo) && view.checksum() != 0);
    }
    let frame = emitted(&ethernet(HERE, THERE).ipv4(A4, B4).ttl(3).dscp(46).ecn(1).udp(1, 2, b""));
    let view = Ipv4View::new(&frame[14..]).unwrap();
    assert_eq!((view.ttl(), view.dscp(), view.ecn(), view.dont_fragment()), (3, 46, 1, true));
    assert!(view.checksum_is_valid());
    let packet = ethernet(HERE, THERE).ipv4(A4, B4).identification(9).udp(1, 2, b"");
    let frame = emitted(&packet);
    let view = Ipv4View::new(&frame[14..]).unwrap();
    assert_eq!((view.identification(), view.dont_fragment()), (9, false));
    let frame = emitted(&ethernet(HERE, THERE).ipv6(A6, B6).ttl(3).flow_label(7).udp(1, 2, b""));
    let view = Ipv6View::new(&frame[14..]).unwrap();
    assert_eq!((view.hop_limit(), view.flow_label()), (3, 7));
}

#[test]
fn tcp_with_options() {
    let header = Tcp {
        flags: TcpFlags::SYN,
        options: &[2, 4, 5, 0xb4],
        checksum: 0xdead,
        ..Tcp::between(40_000, 443)
    };
    let frame = emitted(&ethernet(HERE, THERE).ipv6(A6, B6).tcp(header, b"early data"));
    let segment = &frame[54..];
    let view = TcpView::new(segment).unwrap();
    assert!(view.checksum_is_valid(pseudo_v6(A6, B6, Protocol::TCP, segment.len() as u32)));
    assert_eq!((view.options(), view.payload()), (&[2, 4, 5, 0xb4][..], &b"early data"[..]));
    let wrong = Tcp { options: &[1], ..header };
    let packet = ethernet(HERE, THERE).ipv4(A4, B4).tcp(wrong, b"");
    assert!(matches!(packet.emit(&mut [0; 100]), Err(WireError::Malformed(_))));
}

#[test]
fn icmp_of_both() {
    let echo = Echo { identifier: 7, sequence: 1 };
    let frame =
        emitted(&ethernet(HERE, THERE).ipv4(A4, B4).icmp(Icmpv4::EchoRequest(echo), b"ping"));
    let view = Icmpv4View::new(&frame[34..]).unwrap();
    assert!(view.checksum_is_valid() && Icmpv4::parse(&view) == Icmpv4::EchoRequest(echo));
    assert_eq!(Ipv4View::new(&frame[14..]).unwrap().protocol(), Protocol::ICMP);

    let frame = emitted(&ethernet(HERE, THERE).ipv6(A6, B6).icmp(Icmpv6::EchoReply(echo), b"pong"));
    let view = Icmpv6View::new(&frame[54..]).unwrap();
    assert!(view.checksum_is_valid(pseudo_v6(A6, B6, Protocol::ICMPV6, 12)));
    assert_eq!((Icmpv6::parse(&view), view.payload()), (Icmpv6::EchoReply(echo), &b"pong"[..]));
}

#[test]
fn who_has_an_address() {
    let request = Arp::request(HERE, A4, B4);
    let frame = emitted(&ethernet(HERE, MacAddr::BROADCAST).arp(request));
    let layers = Layers::parse(&frame).unwrap();
    assert_eq!(layers.ethertype, EtherType::ARP);
    assert_eq!(Arp::parse(&ArpView::new(&frame[14..]).unwrap()), request);

    let (group, request) = (ndp::solicited_node(B6), Neighbor::solicitation(HERE, B6));
    let frame =
        emitted(&ethernet(HERE, MacAddr::of_group(group)).ipv6(A6, group).neighbor(request));
    assert_eq!(Ipv6View::new(&frame[14..]).unwrap().hop_limit(), 255);
    assert_eq!(Neighbor::parse(&NeighborView::new(&frame[54..]).unwrap()), request);
    let view = Icmpv6View::new(&frame[54..]).unwrap();
    assert!(view.checksum_is_valid(pseudo_v6(A6, group, Protocol::ICMPV6, 32)));
}

#[test]
fn tags() {
    let one = emitted(&ethernet(HERE, THERE).vlan(5).ipv4(A4, B4).udp(1, 2, b""));
    let layers = Layers::parse(&one).unwrap();
    assert_eq!(layers.ethernet.ethertype, EtherType::VLAN);
    assert_eq!((layers.outer_vlan.unwrap().id, layers.inner_vlan), (5, None));
    let two = emitted(&ethernet(HERE, THERE).vlan(5).vlan(6).vlan(7).ipv4(A4, B4).udp(1, 2, b""));
    let layers = Layers::parse(&two).unwrap();
    assert_eq!(layers.ethernet.ethertype, EtherType::QINQ);
    assert_eq!((layers.outer_vlan.unwrap().id, layers.inner_vlan.unwrap().id), (5, 7));
    assert!(FlowKey::parse(&two).unwrap().is_some());
    let wrong = ethernet(HERE, THERE).vlan(4096).ipv4(A4, B4).udp(1, 2, b"");
    assert!(matches!(wrong.emit(&mut [0; 100]), Err(WireError::Malformed(_))));
}

#[test]
fn anything_else() {
    let frame = emitted(&ethernet(HERE, THERE).other(EtherType(0x88b5), b"experiment"));
    assert_eq!(frame[12..], *b"\x88\xb5experiment");
    let frame = emitted(&ethernet(HERE, THERE).ipv6(A6, B6).other(Protocol::ESP, b"secret"));
    let view = Ipv6View::new(&frame[14..]).unwrap();
    assert_eq!((view.next_header(), view.payload()), (Protocol::ESP, &b"secret"[..]));
}

#[test]
fn too_long() {
    let (payload, mut frame) = (std::vec![0; 65_536], std::vec![0; 66_000]);
    let base = ethernet(HERE, THERE);
    let (v4, v6) = (base.ipv4(A4, B4), base.ipv6(A6, B6));
    for (longest, packet) in [
        (65_507, v4.udp(1, 2, &payload[..65_507])),
        (65_495, v4.tcp(Tcp::between(1, 2), &payload[..65_495])),
        (65_527, v6.udp(1, 2, &payload[..65_527])),
    ] {
        assert!(packet.emit(&mut frame).is_ok(), "{longest}");
    }
    for packet in [
        v4.udp(1, 2, &payload[..65_508]),
        v4.tcp(Tcp::between(1, 2), &payload[..65_496]),
        v6.udp(1, 2, &payload[..65_528]),
        v6.other(Protocol::ESP, &payload),
    ] {
        assert!(matches!(packet.emit(&mut frame), Err(WireError::Malformed(_))));
    }
    assert!(v4.dscp(64).udp(1, 2, b"").emit(&mut frame).is_err());
    assert!(v6.flow_label(1 << 20).udp(1, 2, b"").emit(&mut frame).is_err());
}
