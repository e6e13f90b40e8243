//! One test per rule of segmentation: the rows of the comparison of implementations, and rules that
//! none of them follows.

use wirelane::frame::{Gso, Offload};
use wirelane::internal::frame::{Sink, SinkGso};
use wirelane::internal::segment::{Bypass, Refusal, SegmentClass, Segmenter, Stop, Verdict};
use wirelane_wire::checksum::{pseudo_v4, pseudo_v6};
use wirelane_wire::flow::Layers;
use wirelane_wire::{
    EtherType, FragmentView, Ipv4View, Ipv6View, Protocol, TcpFlags, TcpView, UdpView,
};

use super::frames::{Around, Checksum, Frame, cut, cut_for};

/// The IPv4 header and its payload, with a valid length and checksum.
fn ipv4(packet: &[u8]) -> Ipv4View<'_> {
    let at = Layers::parse(packet).unwrap().network_offset;
    let view = Ipv4View::new(&packet[at..]).unwrap();
    assert_eq!(usize::from(view.total_len()), packet.len() - at);
    assert!(view.checksum_is_valid());
    view
}

fn ipv6(packet: &[u8]) -> Ipv6View<'_> {
    let at = Layers::parse(packet).unwrap().network_offset;
    let view = Ipv6View::new(&packet[at..]).unwrap();
    assert_eq!(usize::from(view.payload_len()) + 40, packet.len() - at);
    view
}

/// The TCP header of a packet, with a valid checksum.
fn tcp(packet: &[u8]) -> TcpView<'_> {
    let (bytes, pseudo) = if Layers::parse(packet).unwrap().ethertype == EtherType::IPV4 {
        let ip = ipv4(packet);
        let length = ip.payload().len() as u32;
        (ip.payload(), pseudo_v4(ip.source(), ip.destination(), Protocol::TCP, length))
    } else {
        let ip = ipv6(packet);
        let upper = ip.upper().unwrap().payload;
        (upper, pseudo_v6(ip.source(), ip.destination(), Protocol::TCP, upper.len() as u32))
    };
    let view = TcpView::new(bytes).unwrap();
    assert!(view.checksum_is_valid(pseudo));
    view
}

fn flags(packets: &[Vec<u8>], flag: TcpFlags) -> Vec<bool> {
    packets.iter().map(|packet| tcp(packet).flags().contains(flag)).collect()
}

/// The concatenated payloads.
fn payload(packets: &[Vec<u8>]) -> Vec<u8> {
    packets.iter().flat_map(|packet| tcp(packet).payload().to_vec()).collect()
}

#[test]
fn tcp_over_both_versions() {
    for frame in [Frame::tcp4(4000, 1460), Frame::tcp6(4000, 1440)] {
        let (bytes, offload) = frame.build();
        let packets = cut(&bytes, &offload);
        assert_eq!(packets.len(), 3);
        assert_eq!(payload(&packets), frame.payload);
        let mut expected = frame.sequence;
        for packet in &packets {
            assert_eq!(tcp(packet).sequence(), expected);
            expected = expected.wrapping_add(tcp(packet).payload().len() as u32);
        }
    }
}

#[test]
fn push_and_finish_are_on_the_last_segment() {
    let mut frame = Frame::tcp4(4000, 1460);
    frame.flags = TcpFlags::ACK.with(TcpFlags::PSH).with(TcpFlags::FIN);
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    assert_eq!(flags(&packets, TcpFlags::PSH), [false, false, true]);
    assert_eq!(flags(&packets, TcpFlags::FIN), [false, false, true]);
    assert_eq!(flags(&packets, TcpFlags::ACK), [true; 3]);
}

#[test]
fn window_reduced_is_on_the_first_segment() {
    let mut frame = Frame::tcp6(4000, 1440);
    frame.flags = TcpFlags::ACK.with(TcpFlags::CWR).with(TcpFlags::ECE);
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    assert_eq!(flags(&packets, TcpFlags::CWR), [true, false, false]);
    assert_eq!(flags(&packets, TcpFlags::ECE), [true; 3]);
}

/// RFC 9768 section 3.2.2: AE, CWR and ECE are one counter, the same in all segments.
#[test]
fn accurate_ecn_counter_is_on_every_segment() {
    let mut frame = Frame::tcp4(4000, 1460);
    frame.flags = TcpFlags::ACK.with(TcpFlags::CWR);
    frame.accurate_ecn = true;
    let (bytes, offload) = frame.build();
    assert_eq!(flags(&cut(&bytes, &offload), TcpFlags::CWR), [true; 3]);

    frame.accurate_ecn = false;
    frame.flags = frame.flags.with(TcpFlags::AE);
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    assert_eq!(flags(&packets, TcpFlags::CWR), [true; 3]);
    assert_eq!(flags(&packets, TcpFlags::AE), [true; 3]);
}

/// RFC 9293 section 3.1: the pointer is an offset from the sequence number of its segment. An
/// unchanged copy would move the end of urgent data in every segment but the first.
#[test]
fn urgent_pointer_counts_from_the_segment() {
    let mut frame = Frame::tcp4(4000, 1000);
    frame.flags = TcpFlags::ACK.with(TcpFlags::URG);
    for (urgent, expected) in [
        (2500, [2500, 1500, 500, 0]),
        (2000, [2000, 1000, 0, 0]),
        (1, [1, 0, 0, 0]),
        (60_000, [60_000, 59_000, 58_000, 57_000]),
    ] {
        frame.urgent = urgent;
        let (bytes, offload) = frame.build();
        let packets = cut(&bytes, &offload);
        let pointers: Vec<_> = packets.iter().map(|packet| tcp(packet).urgent_pointer()).collect();
        assert_eq!(pointers, expected);
        assert_eq!(flags(&packets, TcpFlags::URG), expected.map(|pointer| pointer != 0));
    }
}

#[test]
fn ipv4_identification_increments_and_wraps() {
    let (bytes, offload) = Frame::tcp4(6000, 1460).build();
    let ids: Vec<_> = cut(&bytes, &offload).iter().map(|it| ipv4(it).identification()).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0, 1, 2]);
}

/// RFC 6864 section 4.1: the identification of an atomic datagram has no meaning.
#[test]
fn ipv4_identification_is_fixed_only_where_it_may_be() {
    let mut frame = Frame::tcp4(4000, 1460);
    frame.fixed_id = true;
    for (dont_fragment, expected) in [(true, [0xfffe; 3]), (false, [0xfffe, 0xffff, 0])] {
        frame.dont_fragment = dont_fragment;
        let (bytes, offload) = frame.build();
        let packets = cut(&bytes, &offload);
        let ids: Vec<_> = packets.iter().map(|it| ipv4(it).identification()).collect();
        assert_eq!(ids, expected);
    }
}

#[test]
fn options_and_extension_headers_are_in_every_segment() {
    let mut frame = Frame::tcp4(4000, 1400);
    frame.ip_options = vec![0x94, 4, 0, 0];
    frame.tcp_options = vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let (bytes, offload) = frame.build();
    for packet in cut(&bytes, &offload) {
        assert_eq!(ipv4(&packet).options(), frame.ip_options);
        assert_eq!(tcp(&packet).options(), frame.tcp_options);
    }
    let mut frame = Frame::tcp6(4000, 1400);
    frame.extensions = vec![
        (Protocol::HOP_BY_HOP, vec![0, 0, 1, 4, 0, 0, 0, 0]),
        (Protocol::DESTINATION_OPTIONS, vec![0, 0, 1, 4, 0, 0, 0, 0]),
    ];
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    assert_eq!(payload(&packets), frame.payload);
    for packet in packets {
        assert_eq!(packet[54..70], bytes[54..70]);
    }
}

/// RFC 8200 section 8.1: with a routing header, the pseudo-header contains the final destination.
#[test]
fn routing_header_hides_the_final_destination() {
    let mut frame = Frame::tcp6(4000, 1400);
    let last = super::frames::DESTINATION_V6.octets();
    let mut routing = vec![0, 0, 4, 1, 1, 0, 0, 0];
    routing.extend(last);
    routing.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99]);
    frame.extensions = vec![(Protocol::ROUTING, routing)];
    let (mut bytes, offload) = frame.build();
    bytes.copy_within(14 + 40 + 24..14 + 40 + 40, 14 + 24);
    for mut packet in cut(&bytes, &offload) {
        packet[14 + 24..14 + 40].copy_from_slice(&last);
        tcp(&packet);
    }
    bytes[14 + 40 + 2] = 99;
    assert_eq!(refusal(&bytes, &offload), Refusal::RoutingHeader);
}

#[test]
fn tags_are_in_every_segment() {
    for tags in [vec![EtherType::VLAN], vec![EtherType::QINQ, EtherType::VLAN]] {
        let mut frame = Frame::tcp4(4000, 1460);
        frame.tags = tags;
        let (bytes, offload) = frame.build();
        let packets = cut(&bytes, &offload);
        assert_eq!(packets.len(), 3);
        // Tags do not count against the MTU.
        assert_eq!(packets[0].len(), 14 + 4 * frame.tags.len() + 1500);
        assert_eq!(payload(&packets), frame.payload);
        let link = 14 + 4 * frame.tags.len();
        assert!(packets.iter().all(|packet| packet[..link] == bytes[..link]));
    }
}

/// The datagrams of a frame, with valid lengths and checksums.
fn datagrams(packets: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
    let datagram = |packet: &Vec<u8>| {
        let v4 = Layers::parse(packet).unwrap().ethertype == EtherType::IPV4;
        let (bytes, pseudo) = if v4 {
            let ip = ipv4(packet);
            let length = ip.payload().len() as u32;
            (ip.payload(), pseudo_v4(ip.source(), ip.destination(), Protocol::UDP, length))
        } else {
            let ip = ipv6(packet);
            let upper = ip.upper().unwrap().payload;
            (upper, pseudo_v6(ip.source(), ip.destination(), Protocol::UDP, upper.len() as u32))
        };
        let view = UdpView::new(bytes).unwrap();
        assert_eq!(usize::from(view.length()), bytes.len());
        assert!(view.checksum_is_valid(pseudo) && (v4 || view.checksum() != 0));
        (view.checksum(), view.payload().to_vec())
    };
    packets.iter().map(datagram).collect()
}

#[test]
fn udp_is_cut_into_datagrams() {
    for v6 in [false, true] {
        let frame = Frame::new(Gso::Udp, v6, 3001, 1200);
        let (bytes, offload) = frame.build();
        let datagrams = datagrams(&cut(&bytes, &offload));
        let lengths: Vec<_> = datagrams.iter().map(|(_, payload)| payload.len()).collect();
        assert_eq!(lengths, [1200, 1200, 601]);
        assert_eq!(datagrams.concat_payloads(), frame.payload);
    }
}

trait Concat {
    fn concat_payloads(self) -> Vec<u8>;
}

impl Concat for Vec<(u16, Vec<u8>)> {
    fn concat_payloads(self) -> Vec<u8> {
        self.into_iter().flat_map(|(_, payload)| payload).collect()
    }
}

/// RFC 768: 0 means no checksum, so a sum of 0 is sent as 0xffff.
#[test]
fn udp_checksum_of_zero_becomes_all_ones() {
    for (v6, gso) in
        [(false, Gso::Udp), (true, Gso::Udp), (false, Gso::UdpFragment), (true, Gso::UdpFragment)]
    {
        let mut frame = Frame::new(gso, v6, 2000, 1000);
        frame.payload.fill(0);
        // Two bytes that make the sum of the first datagram 0xffff.
        let (bytes, offload) = frame.build();
        let first = &cut(&bytes, &offload)[0];
        let at = if v6 { 60 } else { 40 } + if gso == Gso::UdpFragment && v6 { 8 } else { 0 };
        frame.payload[..2].copy_from_slice(&first[at..at + 2]);
        let (bytes, offload) = frame.build();
        assert_eq!(cut(&bytes, &offload)[0][at..at + 2], [0xff, 0xff], "{gso:?} {v6}");
    }
}

/// RFC 768 and RFC 8200 section 8.1: the checksum is optional over IPv4 and mandatory over IPv6.
#[test]
fn udp_without_checksum_stays_without_over_ipv4_only() {
    let mut frame = Frame::new(Gso::Udp, false, 3000, 1000);
    frame.checksum = Checksum::None;
    let (bytes, offload) = frame.build();
    assert!(datagrams(&cut(&bytes, &offload)).iter().all(|(checksum, _)| *checksum == 0));
    frame.v6 = true;
    let (bytes, offload) = frame.build();
    assert!(datagrams(&cut(&bytes, &offload)).iter().all(|(checksum, _)| *checksum != 0));
}

#[test]
fn complete_checksums_give_the_same_as_partial_ones() {
    for gso in [Gso::Tcp4, Gso::Udp, Gso::UdpFragment] {
        let mut frame = Frame::new(gso, false, 4000, 1000);
        let (bytes, offload) = frame.build();
        let from_partial = cut(&bytes, &offload);
        frame.checksum = Checksum::Complete;
        let (bytes, offload) = frame.build();
        assert_eq!(cut(&bytes, &offload), from_partial);
    }
}

#[test]
fn udp_is_cut_into_fragments_of_ipv4() {
    let mut frame = Frame::new(Gso::UdpFragment, false, 4000, 1480);
    // A timestamp, only in the first fragment, and router alert, in all fragments (RFC 791 section
    // 3.1).
    frame.ip_options = vec![68, 4, 5, 0, 0x94, 4, 0, 0];
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    let mut whole = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let ip = ipv4(packet);
        assert_eq!(usize::from(ip.fragment_offset()), whole.len());
        assert_eq!(ip.more_fragments(), index + 1 < packets.len());
        assert_eq!(ip.identification(), frame.id);
        let kept = if index == 0 { [68, 4, 5, 0] } else { [1; 4] };
        assert_eq!(ip.options(), [kept, [0x94, 4, 0, 0]].concat());
        whole.extend(ip.payload());
    }
    let view = UdpView::new(&whole).unwrap();
    let ip = ipv4(&packets[0]);
    let pseudo = pseudo_v4(ip.source(), ip.destination(), Protocol::UDP, whole.len() as u32);
    assert!(view.checksum_is_valid(pseudo) && view.payload() == frame.payload);
}

#[test]
fn udp_is_cut_into_fragments_of_ipv6() {
    let mut frame = Frame::new(Gso::UdpFragment, true, 4000, 1400);
    frame.extensions = vec![
        (Protocol::HOP_BY_HOP, vec![0, 0, 1, 4, 0, 0, 0, 0]),
        (Protocol::DESTINATION_OPTIONS, vec![0, 0, 1, 4, 0, 0, 0, 0]),
    ];
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    let mut whole = Vec::new();
    let mut ids = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let ip = ipv6(packet);
        // Only the hop-by-hop options are repeated (RFC 8200 section 4.5).
        assert_eq!(ip.next_header(), Protocol::HOP_BY_HOP);
        assert_eq!(ip.payload()[0], Protocol::FRAGMENT.0);
        let fragment = FragmentView::new(&ip.payload()[8..]).unwrap();
        assert_eq!(fragment.next_header(), Protocol::DESTINATION_OPTIONS);
        assert_eq!(usize::from(fragment.offset()), whole.len());
        assert_eq!(fragment.more_fragments(), index + 1 < packets.len());
        ids.push(fragment.identification());
        whole.extend(fragment.payload());
    }
    assert!(ids.iter().all(|id| *id == ids[0]));
    let view = UdpView::new(&whole[8..]).unwrap();
    let ip = ipv6(&packets[0]);
    let pseudo = pseudo_v6(ip.source(), ip.destination(), Protocol::UDP, view.length().into());
    assert!(view.checksum_is_valid(pseudo) && view.payload() == frame.payload);
}

#[test]
fn fragments_are_multiples_of_eight_bytes() {
    let (bytes, offload) = Frame::new(Gso::UdpFragment, false, 4000, 1479).build();
    let lengths: Vec<_> = cut(&bytes, &offload).iter().map(|it| ipv4(it).payload().len()).collect();
    assert_eq!(lengths, [1472, 1472, 1064]);
}

#[test]
fn identifications_of_fragments_differ() {
    let (bytes, offload) = Frame::new(Gso::UdpFragment, true, 4000, 1400).build();
    let mut segmenter = Segmenter::new(Sink::ethernet()).with_fragment_secret(7);
    let mut id = || {
        let Verdict::Segment(mut cursor) = segmenter.plan(&bytes, &offload) else { panic!() };
        let mut packet = [0; 2000];
        cursor.copy(&bytes, &mut packet).unwrap();
        FragmentView::new(&packet[54..]).unwrap().identification()
    };
    assert_ne!(id(), id());
}

#[test]
fn tunnels_are_right_on_every_level() {
    for around in [Around::Vxlan, Around::Geneve, Around::Gre, Around::GreEthernet] {
        for (gso, v6) in
            [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false), (Gso::Udp, true)]
        {
            for outer_v6 in [false, true] {
                for (outer_checksum, checksum) in [
                    (false, Checksum::Partial),
                    (true, Checksum::Partial),
                    (true, Checksum::Complete),
                    (true, Checksum::None),
                ] {
                    if checksum == Checksum::None && (gso != Gso::Udp || v6) {
                        continue;
                    }
                    let mut frame = Frame::new(gso, v6, 4001, 1300);
                    (frame.around, frame.outer_v6) = (around, outer_v6);
                    (frame.outer_checksum, frame.checksum) = (outer_checksum, checksum);
                    check_tunnel(&frame);
                }
            }
        }
    }
}

fn check_tunnel(frame: &Frame) {
    let (bytes, offload) = frame.build();
    let packets = cut(&bytes, &offload);
    assert_eq!(packets.len(), 4);
    let header = frame.header_len();
    let mut whole: Vec<u8> = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let mut plain = frame.clone();
        let chunk = frame.payload[index * 1300..].len().min(1300);
        plain.payload = frame.payload[index * 1300..][..chunk].to_vec();
        plain.around = Around::Nothing;
        plain.id = frame.id.wrapping_add(index as u16);
        plain.sequence = frame.sequence.wrapping_add(index as u32 * 1300);
        if plain.checksum == Checksum::Partial {
            plain.checksum = Checksum::Complete;
        }
        let expected = &plain.build().0[14..];
        assert!(packet.ends_with(expected), "{frame:?} {index}");
        // The outer headers.
        let outer = if frame.outer_v6 { ipv6(packet).payload() } else { ipv4(packet).payload() };
        if !frame.outer_v6 {
            assert_eq!(ipv4(packet).identification(), 0x7fff + index as u16);
        }
        match frame.around {
            Around::Vxlan | Around::Geneve => {
                let udp = UdpView::new(outer).unwrap();
                assert_eq!(usize::from(udp.length()), outer.len());
                assert_eq!(udp.checksum() != 0, frame.outer_checksum);
                let pseudo = if frame.outer_v6 {
                    let ip = ipv6(packet);
                    pseudo_v6(ip.source(), ip.destination(), Protocol::UDP, outer.len() as u32)
                } else {
                    let ip = ipv4(packet);
                    pseudo_v4(ip.source(), ip.destination(), Protocol::UDP, outer.len() as u32)
                };
                assert!(udp.checksum_is_valid(pseudo), "{frame:?} {index}");
            }
            _ => {
                let sum = wirelane_wire::checksum::Sum::of(outer);
                assert!(!frame.outer_checksum || sum.is_valid(), "{frame:?} {index}");
            }
        }
        whole.extend(&packet[header..]);
    }
    assert_eq!(whole, frame.payload);
}

#[test]
fn tunnels_around_tcp_are_found_without_being_told() {
    for around in [Around::Vxlan, Around::Geneve, Around::Gre] {
        let mut frame = Frame::tcp4(4000, 1300);
        frame.around = around;
        let (bytes, offload) = frame.build();
        let untold = Offload { tunnel: None, ..offload };
        assert_eq!(cut(&bytes, &untold), cut(&bytes, &offload));
    }
}

#[test]
fn full_output_loses_nothing_and_sends_nothing_twice() {
    let (bytes, offload) = Frame::tcp4(6000, 1460).build();
    let expected = cut(&bytes, &offload);
    let mut segmenter = Segmenter::new(Sink::ethernet());
    let Verdict::Segment(mut cursor) = segmenter.plan(&bytes, &offload) else { panic!() };
    let mut packets = Vec::new();
    while !cursor.is_done() {
        let needed = cursor.next_len();
        for room in [0, 10, 53, 54, needed - 1] {
            assert!(
                matches!(cursor.copy(&bytes, &mut vec![0; room]), Err(Stop::NoRoom(n)) if n == needed)
            );
        }
        assert!(matches!(cursor.slice(&bytes, &mut [0; 53]), Err(Stop::NoRoom(54))));
        let mut packet = vec![0; needed];
        // A clone of the cursor can continue later.
        cursor = cursor.clone();
        cursor.copy(&bytes, &mut packet).unwrap();
        packets.push(packet);
    }
    assert_eq!(cursor.copy(&bytes, &mut [0; 2000]), Err(Stop::Done));
    assert_eq!(cursor.slice(&bytes, &mut [0; 2000]), Err(Stop::Done));
    assert_eq!(packets, expected);
}

#[test]
fn frames_within_the_mtu_pass_untouched() {
    let mut frame = Frame::tcp4(1460, 0);
    frame.checksum = Checksum::Complete;
    let (bytes, offload) = frame.build();
    for offload in [Offload::default(), offload] {
        let mut segmenter = Segmenter::new(Sink::ethernet());
        assert!(matches!(segmenter.plan(&bytes, &offload), Verdict::Pass(left) if left.is_none()));
    }
    // A frame that is not IP passes, too.
    let mut segmenter = Segmenter::new(Sink::ethernet());
    assert!(matches!(segmenter.plan(&[0xff; 60], &Offload::default()), Verdict::Pass(_)));
    assert_eq!(segmenter.counters().bypassed(Bypass::NotAsked).value(), 1);
}

#[test]
fn segments_shrink_to_the_mtu_and_datagrams_do_not() {
    let (bytes, offload) = Frame::tcp4(8000, 4000).build();
    let packets = cut(&bytes, &offload);
    assert!(packets.iter().all(|packet| packet.len() <= 1514));
    assert_eq!(payload(&packets), Frame::tcp4(8000, 4000).payload);
    let (bytes, offload) = Frame::new(Gso::Udp, false, 8000, 4000).build();
    assert_eq!(refusal(&bytes, &offload), Refusal::AboveMtu);
}

const HARDWARE: Sink = Sink {
    mtu: 1500,
    checksum: true,
    gso_max: Some(16_000),
    gso: SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false },
};

#[test]
fn checksums_are_left_to_a_sink_that_completes_them() {
    let sink = Sink { gso_max: None, ..HARDWARE };
    for (gso, v6) in [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false)] {
        let (bytes, offload) = Frame::new(gso, v6, 4000, 1000).build();
        let left = cut_for(sink, &bytes, &offload);
        assert!(
            left.iter().all(|(_, left)| left.gso == Gso::None && left.checksum == offload.checksum)
        );
        // After completion, the packets equal the packets for a sink without checksum offload.
        let complete: Vec<_> = left.iter().flat_map(|(packet, left)| cut(packet, left)).collect();
        assert_eq!(complete, cut(&bytes, &offload));
    }
}

#[test]
fn a_sink_that_segments_gets_as_much_as_it_takes() {
    for (gso, v6) in [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false)] {
        let mut frame = Frame::new(gso, v6, 50_001, 1400);
        frame.flags = TcpFlags::ACK.with(TcpFlags::PSH).with(TcpFlags::CWR);
        let (bytes, offload) = frame.build();
        let larger = cut_for(HARDWARE, &bytes, &offload);
        assert_eq!(larger.len(), 4);
        assert!(larger.iter().all(|(packet, _)| packet.len() <= 16_014));
        let again: Vec<_> = larger.iter().flat_map(|(packet, left)| cut(packet, left)).collect();
        assert_eq!(again, cut(&bytes, &offload));

        let whole = cut_for(Sink { gso_max: Some(65_535), ..HARDWARE }, &bytes, &offload);
        assert_eq!(whole, [(bytes, offload)]);
    }
}

#[track_caller]
fn refusal(frame: &[u8], offload: &Offload) -> Refusal {
    let mut segmenter = Segmenter::new(Sink::ethernet());
    let Verdict::Refuse(reason) = segmenter.plan(frame, offload) else { panic!("not refused") };
    assert_eq!(segmenter.counters().refused(reason).value(), 1);
    reason
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let (good, offload) = Frame::tcp4(4000, 1460).build();
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    assert_eq!(refusal(&good, &Offload::default()), Refusal::AboveMtu);
    assert_eq!(refusal(&with(12, 0x09), &offload), Refusal::NotIp);
    assert_eq!(refusal(&with(14, 0x44), &offload), Refusal::Malformed);
    assert_eq!(refusal(&with(46, 0x40), &offload), Refusal::Malformed);
    assert_eq!(refusal(&good[..3000], &offload), Refusal::LengthMismatch);
    assert_eq!(refusal(&with(20, 0x20), &offload), Refusal::Fragment);
    assert_eq!(refusal(&with(23, 1), &offload), Refusal::OtherProtocol);
    assert_eq!(refusal(&with(47, 0x12), &offload), Refusal::SynOrRst);
    assert_eq!(refusal(&good, &Offload { gso: Gso::Tcp6, ..offload }), Refusal::NotIp);
    let elsewhere = Offload {
        checksum: offload.checksum.map(|it| wirelane::frame::PartialChecksum { start: 36, ..it }),
        ..offload
    };
    assert_eq!(refusal(&good, &elsewhere), Refusal::ChecksumPlace);

    let mut fragments = Frame::new(Gso::UdpFragment, false, 4000, 1480);
    fragments.dont_fragment = true;
    let (frame, offload) = fragments.build();
    assert_eq!(refusal(&frame, &offload), Refusal::DontFragment);

    let mut tunnel = Frame::tcp4(4000, 1300);
    tunnel.around = Around::Gre;
    let (mut frame, offload) = tunnel.build();
    frame[34] = 0x10;
    assert_eq!(refusal(&frame, &offload), Refusal::GreSequence);

    let mut authenticated = Frame::tcp6(4000, 1300);
    authenticated.extensions = vec![(Protocol::AH, vec![0; 16])];
    let (frame, offload) = authenticated.build();
    assert_eq!(refusal(&frame, &offload), Refusal::Authenticated);

    let mut segmenter = Segmenter::new(Sink { mtu: 40, ..Sink::ethernet() });
    let (frame, offload) = Frame::tcp4(4000, 1460).build();
    assert!(matches!(segmenter.plan(&frame, &offload), Verdict::Refuse(Refusal::MtuTooSmall)));
}

#[test]
fn counters_say_what_happened() {
    let (bytes, offload) = Frame::tcp4(4000, 1460).build();
    let mut segmenter = Segmenter::new(Sink::ethernet());
    let Verdict::Segment(mut cursor) = segmenter.plan(&bytes, &offload) else { panic!() };
    let mut packet = [0; 1514];
    while let Ok(segment) = cursor.copy(&bytes, &mut packet) {
        segmenter.sent(&cursor, &segment);
    }
    let counters = segmenter.counters().class(SegmentClass::Tcp4);
    assert_eq!((counters.super_frames.value(), counters.segments.value()), (1, 3));
    assert_eq!(counters.bytes.value(), 4000 + 3 * 54);
    assert_eq!(
        (counters.smallest_frame.value(), counters.largest_frame.value()),
        (1080 + 54, 1514)
    );
    assert_eq!((counters.smallest_mss.value(), counters.largest_mss.value()), (1460, 1460));
}
