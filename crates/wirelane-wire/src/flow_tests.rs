//! Tests of [`super`]: frames are built from values and read back.

use std::{string::ToString, vec, vec::Vec};

use super::*;
use crate::{Fragment, Ipv4, Ipv6, MacAddr, Udp};

const V4: Ipv4<'static> = Ipv4 {
    source: Ipv4Addr::new(192, 0, 2, 1),
    destination: Ipv4Addr::new(192, 0, 2, 2),
    protocol: Protocol::UDP,
    ttl: 64,
    dscp: 0,
    ecn: 0,
    identification: 7,
    dont_fragment: false,
    more_fragments: false,
    fragment_offset: 0,
    payload_len: 8,
    options: &[],
};
const V6: Ipv6 = Ipv6 {
    source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
    next_header: Protocol::UDP,
    hop_limit: 64,
    dscp: 0,
    ecn: 0,
    flow_label: 0,
    payload_len: 8,
};
const UDP: Udp = Udp { source_port: 4000, destination_port: 53, payload_len: 0, checksum: 0 };

/// An Ethernet header, one tag for each of `tags`, and the type of the payload.
fn start(tags: &[(EtherType, u16)], ethertype: EtherType) -> Vec<u8> {
    let kinds: Vec<_> = tags.iter().map(|tag| tag.0).chain([ethertype]).collect();
    let mut frame = vec![0; ethernet::LEN + vlan::LEN * tags.len()];
    Ethernet { destination: MacAddr::BROADCAST, source: MacAddr::ZERO, ethertype: kinds[0] }
        .emit(&mut frame)
        .unwrap();
    for (index, &(_, id)) in tags.iter().enumerate() {
        Vlan { priority: 0, drop_eligible: false, id, ethertype: kinds[index + 1] }
            .emit(&mut frame[ethernet::LEN + vlan::LEN * index..])
            .unwrap();
    }
    frame
}

fn v4(tags: &[(EtherType, u16)], value: Ipv4<'_>) -> Vec<u8> {
    let mut frame = start(tags, EtherType::IPV4);
    let mut bytes = [0; 28];
    value.emit(&mut bytes).unwrap();
    UDP.emit(&mut bytes[20..]).unwrap();
    frame.extend(bytes);
    frame
}

fn v6(extensions: &[u8], first: Protocol) -> Vec<u8> {
    let mut frame = start(&[], EtherType::IPV6);
    let mut bytes = [0; 40];
    let payload_len = extensions.len() as u16 + 8;
    Ipv6 { next_header: first, payload_len, ..V6 }.emit(&mut bytes).unwrap();
    frame.extend(bytes);
    frame.extend(extensions);
    let mut bytes = [0; 8];
    UDP.emit(&mut bytes).unwrap();
    frame.extend(bytes);
    frame
}

fn text(frame: &[u8]) -> std::string::String {
    FlowKey::parse(frame).unwrap().unwrap().to_string()
}

#[test]
fn plain() {
    assert_eq!(text(&v4(&[], V4)), "192.0.2.1:4000 > 192.0.2.2:53 udp");
    let expected = "[2001:db8::1]:4000 > [2001:db8::2]:53 udp";
    assert_eq!(text(&v6(&[], Protocol::UDP)), expected);
}

#[test]
fn through_tags() {
    for kind in [EtherType::VLAN, EtherType::QINQ, EtherType::QINQ_OLD] {
        assert_eq!(text(&v4(&[(kind, 5)], V4)), "192.0.2.1:4000 > 192.0.2.2:53 udp");
    }
    let tags = [(EtherType::QINQ, 5), (EtherType::VLAN, 6)];
    let frame = v4(&tags, V4);
    let layers = Layers::parse(&frame).unwrap();
    assert_eq!(layers.outer_vlan.map(|tag| tag.id), Some(5));
    assert_eq!(layers.inner_vlan.map(|tag| tag.id), Some(6));
    assert_eq!((layers.ethertype, layers.network_offset), (EtherType::IPV4, 22));
    assert_eq!(layers.transport.map(|it| it.offset), Some(42));
    assert!(layers.flow().unwrap().is_some());

    assert!(FlowKey::parse(&v4(&[(EtherType::VLAN, 1); 8], V4)).is_ok());
    assert!(FlowKey::parse(&v4(&[(EtherType::VLAN, 1); 9], V4)).is_err());
}

#[test]
fn through_extension_headers() {
    let mut headers = vec![Protocol::DESTINATION_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0];
    headers.extend([Protocol::UDP.0, 1]);
    headers.resize(24, 0);
    let frame = v6(&headers, Protocol::HOP_BY_HOP);
    assert_eq!(text(&frame), "[2001:db8::1]:4000 > [2001:db8::2]:53 udp");
    assert_eq!(Layers::parse(&frame).unwrap().transport.map(|it| it.offset), Some(78));
}

#[test]
fn fragments_have_no_ports() {
    let frame = v4(&[], Ipv4 { more_fragments: true, ..V4 });
    assert_eq!(text(&frame), "192.0.2.1 > 192.0.2.2 udp");
    let frame = v4(&[], Ipv4 { fragment_offset: 1480, ..V4 });
    assert_eq!(text(&frame), "192.0.2.1 > 192.0.2.2 udp");

    let fragment =
        Fragment { next_header: Protocol::UDP, offset: 0, more_fragments: true, identification: 1 };
    let mut header = [0; 8];
    fragment.emit(&mut header).unwrap();
    assert_eq!(text(&v6(&header, Protocol::FRAGMENT)), "2001:db8::1 > 2001:db8::2 udp");
    Fragment { more_fragments: false, ..fragment }.emit(&mut header).unwrap();
    let atomic = v6(&header, Protocol::FRAGMENT);
    assert_eq!(text(&atomic), "[2001:db8::1]:4000 > [2001:db8::2]:53 udp");
}

#[test]
fn without_ports() {
    let frame = v4(&[], Ipv4 { protocol: Protocol::ICMP, ..V4 });
    assert_eq!(text(&frame), "192.0.2.1 > 192.0.2.2 icmp");
    let frame = v4(&[], Ipv4 { protocol: Protocol(200), ..V4 });
    assert_eq!(text(&frame), "192.0.2.1 > 192.0.2.2 proto-200");
}

#[test]
fn not_ip() {
    let mut frame = start(&[], EtherType::ARP);
    frame.resize(60, 0);
    assert_eq!(FlowKey::parse(&frame), Ok(None));
}

#[test]
fn snapped() {
    let mut frame = v4(&[], Ipv4 { payload_len: 1400, ..V4 });
    frame.truncate(38);
    assert_eq!(text(&frame), "192.0.2.1:4000 > 192.0.2.2:53 udp");
    for have in 0..38 {
        let error = FlowKey::parse(&frame[..have]).unwrap_err();
        assert!(matches!(error, WireError::Truncated { .. }), "{have}");
    }
}

#[test]
fn reversed() {
    let flow = FlowKey::parse(&v4(&[], V4)).unwrap().unwrap();
    assert_eq!(flow.reversed().to_string(), "192.0.2.2:53 > 192.0.2.1:4000 udp");
    assert_eq!(flow.reversed().reversed(), flow);
}
