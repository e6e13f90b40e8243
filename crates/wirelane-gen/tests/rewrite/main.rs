//! Rewrites whole packets: checksums stay valid, addresses can be restored, flows do not repeat.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use wirelane_gen::rewrite::{Rewrite, Rule, VlanRule};
use wirelane_verify::{Auditor, Options, Packet};
use wirelane_wire::checksum;
use wirelane_wire::{
    Arp, ArpView, FlowKey, Icmpv4, Icmpv6, MacAddr, Protocol, Tcp, TcpFlags, packet,
};

mod any_bytes;

/// Packets of one conversation, one of each kind with checksums.
fn conversation(a: u32, b: u32, ports: (u16, u16), payload: &[u8]) -> Vec<Vec<u8>> {
    let (a4, b4) = (Ipv4Addr::from_bits(a), Ipv4Addr::from_bits(b));
    let six =
        |it: u32| Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(it) << 64 | u128::from(it));
    let (a6, b6) = (six(a), six(b));
    let link = packet::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let (v4, v6) = (link.ipv4(a4, b4), link.ipv6(a6, b6));
    let tcp = || Tcp { flags: TcpFlags::ACK, ..Tcp::between(ports.0, ports.1) };
    let emit = |packet: packet::Packet<'_>| {
        let mut frame = vec![0; 4096];
        let len = packet.emit(&mut frame).unwrap();
        frame.truncate(len);
        frame
    };
    let udp4 = emit(v4.udp(ports.0, ports.1, payload));
    let udp6 = emit(v6.udp(ports.0, ports.1, payload));
    let quoted4 = &udp4[14..(14 + 28 + payload.len()).min(14 + 60)];
    let quoted6 = &udp6[14..];
    let back4 = link.ipv4(b4, a4);
    let back6 = link.ipv6(b6, a6);
    let mut without = udp4.clone();
    without[40..42].fill(0);
    // A GRE tunnel with a checksum, and VXLAN with an outer UDP checksum.
    let mut gre = vec![0x80, 0, 8, 0, 0, 0, 0, 0];
    gre.extend(&udp4[14..]);
    let sum = checksum::checksum(&gre);
    gre[4..6].copy_from_slice(&sum.to_be_bytes());
    let mut vxlan = vec![8, 0, 0, 0, 0, 0, 7, 0];
    vxlan.extend(&udp6);
    let mut frames = vec![
        udp4.clone(),
        udp6.clone(),
        without,
        emit(v4.tcp(tcp(), payload)),
        emit(v6.tcp(tcp(), payload)),
        emit(link.vlan(5).vlan(6).ipv4(a4, b4).tcp(tcp(), payload)),
        emit(v4.icmp(Icmpv4::EchoRequest(Default::default()), payload)),
        emit(v6.icmp(Icmpv6::EchoRequest(Default::default()), payload)),
        emit(back4.icmp(Icmpv4::TimeExceeded { code: 0 }, quoted4)),
        emit(back6.icmp(Icmpv6::PacketTooBig { mtu: 1280 }, quoted6)),
        emit(v4.other(Protocol::GRE, &gre)),
        emit(v4.other(Protocol::IPV6, &udp6[14..])),
        emit(v6.udp(4789, 4789, &vxlan)),
        routed(&link, [a6, b6], ports, payload),
    ];
    frames.extend(fragments(&udp4));
    frames
}

/// A packet with a routing header of type 4 (RFC 8754) via another router: the checksum includes
/// the last address.
fn routed(
    link: &packet::Link,
    [a, b]: [Ipv6Addr; 2],
    ports: (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let router = Ipv6Addr::from_bits(b.to_bits() ^ 0xff);
    let mut frame = vec![0; 4096];
    let udp = link.ipv6(a, b).udp(ports.0, ports.1, payload);
    let len = udp.emit(&mut frame).unwrap();
    let mut content = vec![17, 4, 4, 1, 1, 0, 0, 0];
    content.extend(b.octets());
    content.extend(router.octets());
    content.extend(&frame[54..len]);
    let outer = link.ipv6(a, router).other(Protocol::ROUTING, &content);
    let len = outer.emit(&mut frame).unwrap();
    frame.truncate(len);
    frame
}

/// Two fragments of an IPv4 packet without options.
fn fragments(frame: &[u8]) -> Vec<Vec<u8>> {
    let cut = 34 + (frame.len() - 34) / 16 * 8;
    let part = |range: std::ops::Range<usize>, more: u16| {
        let mut part = frame[..34].to_vec();
        part.extend(&frame[range.clone()]);
        let offset = ((range.start - 34) / 8) as u16 | more << 13;
        let total = (part.len() - 14) as u16;
        part[16..18].copy_from_slice(&total.to_be_bytes());
        part[20..22].copy_from_slice(&offset.to_be_bytes());
        part[24..26].fill(0);
        let sum = checksum::checksum(&part[14..34]);
        part[24..26].copy_from_slice(&sum.to_be_bytes());
        part
    };
    if cut == 34 { Vec::new() } else { vec![part(34..cut, 1), part(cut..frame.len(), 0)] }
}

/// The findings of the auditor for frames as captured from the wire.
fn findings(frames: &[Vec<u8>]) -> Vec<String> {
    let mut auditor = Auditor::new(Options { strict: true, ..Options::default() });
    let mut findings = Vec::new();
    let mut found = |finding: &_| findings.push(format!("{finding:?}"));
    for (index, frame) in frames.iter().enumerate() {
        let packet = Packet {
            interface: 0,
            link_type: 1,
            timestamp: 1 + index as u64,
            original_len: frame.len() as u32,
            data: frame,
        };
        auditor.packet(&packet, &mut found);
    }
    auditor.finish(&mut found);
    findings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn checksums_stay_valid_and_everything_leads_back(
        a in 0x0a00_0000_u32..0x0b00_0000, b in any::<u32>(), ports: (u16, u16),
        payload in vec(any::<u8>(), 8..100), choice: u8, more: u8, number: u64,
    ) {
        prop_assume!(a != b);
        let originals = conversation(a, b, ports, &payload);
        prop_assert_eq!(findings(&originals), Vec::<String>::new());
        let rewrite = Rewrite::new(&any_bytes::reversible(choice, more)).unwrap().with_tunnels(true);
        let mut frames = originals.clone();
        for frame in &mut frames {
            rewrite.apply(frame, number);
        }
        // The auditor recognizes tunnels by their port.
        prop_assert_eq!(findings(&frames), Vec::<String>::new());
        for (original, frame) in originals.iter().zip(&mut frames) {
            rewrite.undo(frame, number);
            any_bytes::assert_same(original, frame);
        }
    }

    #[test]
    fn any_bytes_lead_back(bytes in vec(any::<u8>(), 0..200)) {
        any_bytes::run(&bytes);
    }

    /// The same with damage deep in the headers.
    #[test]
    fn damaged_packets_lead_back(
        choice: [u8; 4], which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        value: u8, end in any::<prop::sample::Index>(),
    ) {
        let mut frames = conversation(0x0a00_0001, 0xc000_0201, (80, 4000), &[7; 30]);
        let frame = which.get(&frames).clone();
        frames.clear();
        let mut bytes = choice.to_vec();
        bytes.extend(&frame);
        let at = 4 + at.index(frame.len());
        bytes[at] = value;
        bytes.truncate(at.max(4 + end.index(frame.len())) + 1);
        any_bytes::run(&bytes);
    }

    /// No two loops, also above 2^32, give a flow the same addresses.
    #[test]
    fn flows_never_come_again(
        a in 0x0100_0000_u32..0x7f00_0000, b in 0x8000_0000_u32..0xdfff_0000,
        loops in (0_u64..1 << 33, 0_u64..1 << 33),
    ) {
        prop_assume!(loops.0 != loops.1);
        let rewrite = Rewrite::new(&[Rule::Unique { seed: 1, within: Vec::new() }]).unwrap();
        prop_assert!(rewrite.period().unwrap() > 1 << 32);
        let flow = |number| {
            let mut frame = conversation(a, b, (1, 2), &[0; 8]).swap_remove(0);
            rewrite.apply(&mut frame, number);
            FlowKey::parse(&frame).unwrap().unwrap()
        };
        prop_assert_ne!(flow(loops.0), flow(loops.1));
        prop_assert_ne!(flow(loops.0), flow(loops.1).reversed());
    }
}

fn flow(frame: &[u8]) -> String {
    FlowKey::parse(frame).unwrap().unwrap().to_string()
}

#[test]
fn each_rule_does_what_it_says() {
    let frames = conversation(0x0a01_0203, 0xc000_0201, (4000, 80), b"12345678");
    let with = |rules: &[Rule], index: usize| {
        let mut frame = frames[index].clone();
        Rewrite::new(rules).unwrap().apply(&mut frame, 0);
        frame
    };
    let map =
        [Rule::map_ip("src:10.1.0.0/16=172.16.0.0/16").unwrap(), Rule::port("80=8080").unwrap()];
    assert_eq!(flow(&with(&map, 0)), "172.16.2.3:4000 > 192.0.2.1:8080 udp");
    let map = [Rule::map_ip("2001:db8::/32=fd00::/32").unwrap()];
    assert!(
        flow(&with(&map, 1)).starts_with("[fd00:0:a01:203::a01:203]:4000 > [fd00:0:c000:201::")
    );
    let ttl = with(&[Rule::Ttl("-1".parse().unwrap())], 0);
    assert_eq!((frames[0][22], ttl[22]), (64, 63));
    let mac = with(&[Rule::map_mac("src:02:00:00:00:00:01=02:00:00:00:00:09").unwrap()], 0);
    assert_eq!((mac[5], mac[11]), (2, 9));
    // 0 means no checksum, and stays 0.
    assert_eq!(with(&[Rule::port("src:+1").unwrap()], 2)[40..42], [0, 0]);
    let tagged = with(&[Rule::Vlan(VlanRule::Push { id: 7, priority: 5 })], 5);
    assert_eq!(tagged[12..18], [0x81, 0, 0xa0, 7, 0x88, 0xa8]);
    assert_eq!(with(&[Rule::Vlan(VlanRule::Pop)], 5)[14..16], [0, 6]);
    assert_eq!(with(&[Rule::Vlan(VlanRule::Set(9))], 5)[14..16], [0, 9]);
    assert_eq!(with(&[Rule::Vlan(VlanRule::Pop)], 0), frames[0]);
}

#[test]
fn errors_quote_the_rewritten_addresses() {
    let mut frames = conversation(0x0a01_0203, 0xc000_0201, (4000, 80), b"12345678");
    let rules = [Rule::Pseudonyms { seed: 3 }, Rule::port("dst:80=8080").unwrap()];
    let rewrite = Rewrite::new(&rules).unwrap();
    frames.iter_mut().for_each(|frame| rewrite.prepare(frame));
    // Compares the quoted packet from its addresses, as its TTL and header checksum differ: a
    // router decreased the TTL before the quotation.
    assert_eq!(frames[8][14 + 28 + 12..][..12], frames[0][14 + 12..][..12]);
    assert_eq!(frames[9][14 + 48 + 8..][..36], frames[1][14 + 8..][..36]);
}

#[test]
fn arp_names_the_same_hosts() {
    let (mac, router) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let request = Arp::request(mac, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let mut frame = vec![0; 60];
    let len = packet::ethernet(mac, MacAddr::BROADCAST).arp(request).emit(&mut frame).unwrap();
    frame.truncate(len);
    let rules = [
        Rule::map_ip("10.0.0.0/8=11.0.0.0/8").unwrap(),
        Rule::map_mac("02:00:00:00:00:01=02:00:00:00:00:02").unwrap(),
    ];
    Rewrite::new(&rules).unwrap().prepare(&mut frame);
    let arp = ArpView::new(&frame[14..]).unwrap();
    assert_eq!((arp.sender_mac(), &frame[6..12]), (router, &router.0[..]));
    assert_eq!((arp.sender(), arp.target()), ([11, 0, 0, 1].into(), [11, 0, 0, 2].into()));
}

#[test]
fn rules_that_contradict_are_refused() {
    let refused = |rules: &[Rule]| Rewrite::new(rules).unwrap_err().to_string();
    assert!(refused(&[Rule::Vlan(VlanRule::Pop), Rule::Vlan(VlanRule::Set(1))]).contains("twice"));
    let unique = Rule::Unique { seed: 0, within: vec!["10.0.0.1".parse().unwrap()] };
    assert!(refused(&[unique]).contains("10.0.0.1/32"));
    assert!(Rewrite::default().is_empty() && Rewrite::new(&[]).unwrap().in_loop(1).is_none());
}
