//! Tests of [`super`]: packets are built from values and read back.

use std::vec::Vec;

use super::*;
use crate::{Geneve, Gre, Link, MacAddr, Tcp, TunnelKind, Vxlan, packet};

fn frame(packet: &packet::Packet<'_>) -> Vec<u8> {
    let mut frame = std::vec![0; packet.len()];
    packet.emit(&mut frame).unwrap();
    frame
}

fn link() -> packet::Link {
    packet::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
}

fn inner() -> Vec<u8> {
    let [source, destination] = [[10, 1, 1, 1].into(), [10, 1, 1, 2].into()];
    frame(&link().vlan(7).ipv4(source, destination).udp(5000, 53, b"question"))
}

fn read(frame: &[u8]) -> Internet<'_> {
    let Link::Network { ethertype, at, .. } = Link::ethernet(frame) else { panic!("no link") };
    Internet::parse(ethertype, &frame[at..], (frame.len() - at) as u32).unwrap().unwrap()
}

fn emitted<const N: usize>(emit: impl Fn(&mut [u8]) -> Result<usize, WireError>) -> Vec<u8> {
    let mut bytes = [0; N];
    let len = emit(&mut bytes).unwrap();
    bytes[..len].to_vec()
}

#[test]
fn both_versions_say_the_same() {
    let tcp = Tcp::between(4000, 443);
    let v4 = link().ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let v4 = frame(&v4.ttl(9).dscp(46).ecn(1).tcp(tcp, b"hello"));
    let v6 = link().ipv6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let v6 = frame(&v6.ttl(9).dscp(46).ecn(1).tcp(tcp, b"hello"));
    for (frame, header) in [(v4, 20), (v6, 40)] {
        let packet = read(&frame);
        assert_eq!((packet.ttl, packet.dscp, packet.ecn), (9, 46, 1));
        assert_eq!(packet.octets, header + 20 + 5);
        assert_eq!(packet.payload_len(), 5);
        assert!(packet.has_transport_header() && packet.inside().is_none());
        let ports = packet.transport.ports().unwrap().unwrap();
        assert_eq!((ports.source, ports.destination), (4000, 443));
    }
}

#[test]
fn the_first_fragment_has_a_transport_header() {
    let packet = link().ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let mut frame = frame(&packet.identification(7).udp(1, 2, &[0; 64]));
    for (field, is_fragment, offset) in [(0x4000, false, 0), (0x2000, true, 0), (0x0003, true, 24)]
    {
        frame[20..22].copy_from_slice(&u16::to_be_bytes(field));
        let packet = read(&frame);
        assert_eq!(packet.transport.is_fragment, is_fragment);
        assert_eq!((packet.fragment_offset, packet.has_transport_header()), (offset, offset == 0));
        assert_eq!(packet.payload_len(), if is_fragment { 72 } else { 64 });
    }
}

#[test]
fn what_is_in_tunnels_is_found() {
    let outer = || link().ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let bridged = inner();
    let routed = &bridged[18..];
    let vxlan = [emitted::<8>(|to| Vxlan { id: 9 }.emit(to)), bridged.clone()].concat();
    let geneve = Geneve {
        protocol: EtherType::BRIDGED,
        id: 9,
        control: false,
        critical_options: false,
        options: &[1; 8],
    };
    let geneve = [emitted::<64>(|to| geneve.emit(to)), bridged.clone()].concat();
    let gre = Gre { protocol: EtherType::IPV4, checksum: None, key: Some(9), sequence: None };
    let gre = [emitted::<16>(|to| gre.emit(to)), routed.to_vec()].concat();
    let v6 = link().ipv6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    for (frame, kind, id) in [
        (frame(&outer().udp(50_000, 4789, &vxlan)), TunnelKind::Vxlan, Some(9)),
        (frame(&outer().udp(50_000, 8472, &vxlan)), TunnelKind::Vxlan, Some(9)),
        (frame(&outer().udp(50_000, 6081, &geneve)), TunnelKind::Geneve, Some(9)),
        (frame(&outer().other(Protocol::GRE, &gre)), TunnelKind::Gre, Some(9)),
        (frame(&outer().other(Protocol::IPV4, routed)), TunnelKind::Ip, None),
        (frame(&v6.other(Protocol::IPV4, routed)), TunnelKind::Ip, None),
    ] {
        let packet = read(&frame);
        let (inside, tunnel) = packet.inside().unwrap();
        assert_eq!((tunnel.kind, tunnel.id), (kind, id));
        assert_eq!(inside.addresses.source(), std::net::IpAddr::from([10, 1, 1, 1]));
        assert_eq!(inside.transport.ports().unwrap().unwrap().destination, 53);
        assert_eq!((inside.octets, inside.payload_len()), (36, 8));
        // Cut anywhere in the inner headers, it is an ordinary packet.
        let start = frame.len() - routed.len();
        for len in start..start + 20 {
            assert!(read(&frame[..len]).inside().is_none(), "{kind:?} {len}");
        }
    }
    // The same bytes at another port are no tunnel.
    assert!(read(&frame(&outer().udp(50_000, 4790, &vxlan))).inside().is_none());
}
