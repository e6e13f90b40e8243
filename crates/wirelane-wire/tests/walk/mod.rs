//! One harness for property tests and fuzzing: takes arbitrary bytes for every header, calls every
//! accessor, and checks what must hold of any bytes. It panics when something does not.

use std::hint::black_box;

use wirelane_wire::{
    Arp, ArpView, Ethernet, EthernetView, FlowKey, Fragment, FragmentView, HashInput, Icmpv4,
    Icmpv4Mut, Icmpv4View, Icmpv6, Icmpv6Mut, Icmpv6View, Ipv4, Ipv4Mut, Ipv4View, Ipv6, Ipv6Mut,
    Ipv6View, Layers, MacAddr, Neighbor, NeighborView, PacketMut, Tcp, TcpMut, TcpView,
    ToeplitzKey, Udp, UdpMut, UdpView, Vlan, VlanView, WireError, arp,
    checksum::{ChecksumState, Sum, pseudo_v4, pseudo_v6},
    ethernet, ipv4, ipv6, tcp, udp,
};

/// Walks `bytes` as a frame and as every single header.
pub(crate) fn walk(bytes: &[u8]) {
    ethernet(bytes);
    vlan(bytes);
    ipv4(bytes);
    ipv6(bytes);
    fragment(bytes);
    udp(bytes, Sum::ZERO);
    tcp(bytes, Sum::ZERO);
    arp(bytes);
    icmp(bytes);
    neighbor(bytes);
    frame(bytes);
    in_place(bytes);
    views_that_change(bytes);
    rewrite(bytes);
}

fn arp(bytes: &[u8]) {
    let Ok(view) = ArpView::new(bytes) else { return };
    let value = Arp::parse(&view);
    let mut out = [0; arp::LEN];
    assert_eq!(value.emit(&mut out), Ok(value.header_len()));
    assert_eq!(out, bytes[..arp::LEN]);
    assert_eq!(value.reply(MacAddr::ZERO).target, value.sender);
}

fn icmp(bytes: &[u8]) {
    let (Ok(v4), Ok(v6)) = (Icmpv4View::new(bytes), Icmpv6View::new(bytes)) else { return };
    black_box((v4.checksum_is_valid(), v6.checksum_is_valid(Sum::ZERO)));
    let (mut out4, mut out6) = (bytes.to_vec(), bytes.to_vec());
    assert_eq!(Icmpv4::parse(&v4).emit(&mut out4), Ok(8));
    assert_eq!(Icmpv6::parse(&v6).emit(&mut out6, Sum::ZERO), Ok(8));
    assert_eq!((&out4[..2], &out4[4..]), (&bytes[..2], &bytes[4..]));
    assert_eq!(out4, out6);
    assert!(Icmpv4View::new(&out4).is_ok_and(|view| view.checksum_is_valid()));
    // Once right, the checksum stays right.
    for message in [Icmpv4::EchoReply(Default::default()), Icmpv4::TimeExceeded { code: 1 }] {
        let changed = Icmpv4Mut::new(&mut out4).map(|mut view| view.set_message(message));
        assert_eq!(changed, Ok(()));
        let view = Icmpv4View::new(&out4);
        assert!(view.is_ok_and(|view| view.checksum_is_valid() && Icmpv4::parse(&view) == message));
    }
    let message = Icmpv6::PacketTooBig { mtu: 1280 };
    let mut view = Icmpv6Mut::new(&mut out6, ChecksumState::Complete).expect("long enough");
    view.set_message(message);
    assert!(view.as_view().checksum_is_valid(Sum::ZERO));
    assert_eq!(Icmpv6::parse(&view.as_view()), message);
}

fn neighbor(bytes: &[u8]) {
    let Ok(view) = NeighborView::new(bytes) else { return };
    assert!(view.options().all(|option| option.is_ok()));
    let value = Neighbor::parse(&view);
    let mut out = [0; 32];
    let len = value.emit(&mut out, Sum::ZERO).expect("parsed values can be emitted");
    assert_eq!(len, value.header_len());
    assert_eq!(NeighborView::new(&out[..len]).map(|view| Neighbor::parse(&view)), Ok(value));
}

/// Every setter of every header, on any bytes: none panics, and valid checksums stay valid.
fn views_that_change(bytes: &[u8]) {
    let mut out = bytes.to_vec();
    if let Ok(mut view) = Ipv4Mut::new(&mut out) {
        let valid = view.as_view().checksum_is_valid();
        view.set_source([1, 2, 3, 4].into());
        view.set_destination([5, 6, 7, 8].into());
        view.set_ttl(9);
        assert_eq!((view.set_dscp(10), view.set_ecn(1)), (Ok(()), Ok(())));
        assert_eq!(view.as_view().checksum_is_valid(), valid);
        assert_eq!((view.as_view().ttl(), view.as_view().dscp()), (9, 10));
        assert_eq!(view.payload_mut().len(), view.as_view().payload().len());
    }
    let mut out = bytes.to_vec();
    if let Ok(mut view) = Ipv6Mut::new(&mut out) {
        view.set_source(1.into());
        view.set_destination(2.into());
        view.set_hop_limit(9);
        assert_eq!((view.set_dscp(10), view.set_ecn(1)), (Ok(()), Ok(())));
        assert_eq!((view.as_view().hop_limit(), view.as_view().dscp()), (9, 10));
        assert_eq!(view.payload_mut().len(), view.as_view().payload().len());
    }
    for state in [ChecksumState::Complete, ChecksumState::Partial] {
        let mut out = bytes.to_vec();
        if let Ok(mut view) = TcpMut::new(&mut out, state) {
            let checksum = view.as_view().checksum();
            view.set_source_port(1);
            view.set_sequence(2);
            view.set_flags(tcp::TcpFlags::SYN);
            assert!(state == ChecksumState::Complete || view.as_view().checksum() == checksum);
        }
        let mut out = bytes.to_vec();
        if let Ok(mut view) = UdpMut::new(&mut out, state) {
            let checksum = view.as_view().checksum();
            view.set_destination_port(1);
            view.pseudo_changed(Sum::of_field(1), Sum::of_field(2));
            assert_eq!(view.as_view().checksum() == 0, checksum == 0);
        }
    }
}

/// Every setter of a frame, on any bytes: what fails changes nothing.
fn rewrite(bytes: &[u8]) {
    type Change = fn(&mut PacketMut<'_>) -> Result<(), WireError>;
    let changes: [Change; 8] = [
        |packet| packet.set_ipv4_source([1, 2, 3, 4].into()),
        |packet| packet.set_ipv4_destination([1, 2, 3, 4].into()),
        |packet| packet.set_ipv6_source(1.into()),
        |packet| packet.set_ipv6_destination(1.into()),
        |packet| packet.set_ttl(1),
        |packet| packet.set_source_port(1),
        |packet| packet.set_destination_port(1),
        |packet| packet.set_echo_identifier(1),
    ];
    for start in [None, Some(34), Some(usize::MAX)] {
        for change in changes {
            let mut out = bytes.to_vec();
            let packet = match start {
                None => PacketMut::new(&mut out),
                Some(start) => PacketMut::new_partial(&mut out, start),
            };
            let Ok(mut packet) = packet else { return };
            black_box(packet.echo_identifier());
            match change(&mut packet) {
                Ok(()) => assert_eq!(Layers::parse(&out).is_ok(), Layers::parse(bytes).is_ok()),
                Err(_) => assert_eq!(out, bytes),
            }
        }
    }
}

fn frame(bytes: &[u8]) {
    let Ok(layers) = Layers::parse(bytes) else { return };
    black_box((layers.outer_vlan, layers.inner_vlan, layers.network));
    assert!(layers.network_offset <= bytes.len());
    if let Some(transport) = layers.transport {
        // The offsets and the slices of a frame name the same bytes.
        let end = transport.offset + transport.bytes.len();
        assert_eq!(&bytes[transport.offset..end], transport.bytes);
    }
    let flow = FlowKey::parse(bytes);
    assert_eq!(flow, layers.flow());
    if let Ok(Some(flow)) = flow {
        black_box(flow.to_string());
        assert_eq!(flow.reversed().reversed(), flow);
        let (there, back) = (HashInput::with_ports(&flow), HashInput::with_ports(&flow.reversed()));
        let key = ToeplitzKey::SYMMETRIC;
        assert_eq!(key.hash(there.bytes()), key.hash(back.bytes()));
    }
}

fn ethernet(bytes: &[u8]) {
    let Ok(view) = EthernetView::new(bytes) else { return };
    let value = Ethernet::parse(&view);
    black_box((value.destination.to_string(), value.ethertype.to_string()));
    let mut out = [0; ethernet::LEN];
    assert_eq!(value.emit(&mut out), Ok(value.header_len()));
    assert_eq!([&out, view.payload()].concat(), bytes);
}

fn vlan(bytes: &[u8]) {
    let Ok(view) = VlanView::new(bytes) else { return };
    let value = Vlan::parse(&view);
    assert_eq!(value.control(), Ok(view.control()));
    let mut out = [0; 4];
    assert_eq!(value.emit(&mut out), Ok(value.header_len()));
    assert_eq!([&out, view.payload()].concat(), bytes);
}

fn ipv4(bytes: &[u8]) {
    let snapped = Ipv4View::new_snapped(bytes);
    if let Ok(view) = snapped {
        black_box(Ipv4::parse(&view));
        assert!(view.header_len() + view.payload().len() <= bytes.len());
    }
    let Ok(view) = Ipv4View::new(bytes) else { return };
    assert!(snapped.is_ok(), "what a whole packet is, a cut one is too");
    assert_eq!(view.header_len() + view.payload().len(), usize::from(view.total_len()));
    let valid = view.checksum_is_valid();
    let value = Ipv4::parse(&view);
    black_box((view.checksum(), view.is_fragment(), value.protocol.to_string()));

    let mut out = [0; ipv4::MAX_LEN];
    let len = value.emit(&mut out).expect("parsed values can be emitted");
    assert_eq!(len, value.header_len());
    // The reserved flag is not kept, and a wrong checksum is not either.
    if valid && bytes[6] & 0x80 == 0 {
        assert_eq!(out[..10], bytes[..10]);
        assert_eq!(out[12..len], bytes[12..len]);
    }
    let pseudo = pseudo_v4(view.source(), view.destination(), view.protocol(), 0);
    udp(view.payload(), pseudo);
    tcp(view.payload(), pseudo);
}

fn ipv6(bytes: &[u8]) {
    // The walk alone, from every kind of header.
    for next in [0, 43, 44, 51, 60, 17] {
        let next = wirelane_wire::Protocol(next);
        let seen: usize =
            ipv6::extensions(next, bytes).flatten().map(|extension| extension.bytes.len()).sum();
        if let Ok(upper) = ipv6::walk(next, bytes) {
            assert_eq!(upper.offset, seen);
            assert_eq!(upper.payload, &bytes[seen..]);
            black_box(upper.is_fragment());
        }
    }
    let snapped = Ipv6View::new_snapped(bytes);
    if let Ok(view) = snapped {
        black_box((view.payload(), view.upper().is_ok()));
    }
    let Ok(view) = Ipv6View::new(bytes) else { return };
    assert!(snapped.is_ok(), "what a whole packet is, a cut one is too");
    let value = Ipv6::parse(&view);
    let mut out = [0; ipv6::LEN];
    assert_eq!(value.emit(&mut out), Ok(value.header_len()));
    assert_eq!(out, bytes[..ipv6::LEN]);
    if let Ok(upper) = view.upper() {
        let pseudo = pseudo_v6(view.source(), view.destination(), upper.protocol, 0);
        udp(upper.payload, pseudo);
        tcp(upper.payload, pseudo);
    }
}

fn fragment(bytes: &[u8]) {
    let Ok(view) = FragmentView::new(bytes) else { return };
    let value = Fragment::parse(&view);
    let mut out = [0; ipv6::FRAGMENT_LEN];
    assert_eq!(value.emit(&mut out), Ok(value.header_len()));
    assert_eq!((out[0], out[2], &out[4..]), (bytes[0], bytes[2], &bytes[4..8]));
    assert_eq!(view.payload(), &bytes[8..]);
}

fn udp(bytes: &[u8], pseudo: Sum) {
    let Ok(view) = UdpView::new(bytes) else { return };
    black_box(view.checksum_is_valid(pseudo));
    let value = Udp::parse(&view);
    assert_eq!(value.header_len() + view.payload().len(), usize::from(view.length()));
    let mut out = bytes[..usize::from(view.length())].to_vec();
    assert_eq!(value.emit(&mut out), Ok(udp::LEN));
    assert_eq!(out, bytes[..out.len()]);
    assert_eq!(udp::fill_checksum(&mut out, pseudo), Ok(()));
    assert!(UdpView::new(&out).is_ok_and(|view| view.checksum_is_valid(pseudo)));
}

fn tcp(bytes: &[u8], pseudo: Sum) {
    let Ok(view) = TcpView::new(bytes) else { return };
    black_box(view.checksum_is_valid(pseudo));
    let value = Tcp::parse(&view);
    black_box(format!("{:?}", value.flags));
    let mut out = bytes.to_vec();
    assert_eq!(value.emit(&mut out), Ok(view.header_len()));
    assert_eq!(out, bytes);
    assert_eq!(tcp::fill_checksum(&mut out, pseudo), Ok(()));
    // The data offset is not zero, so neither is the sum: it can always be made right.
    assert!(TcpView::new(&out).is_ok_and(|view| view.checksum_is_valid(pseudo)));
}

fn in_place(bytes: &[u8]) {
    let mut out = bytes.to_vec();
    if ethernet::swap_addresses(&mut out).is_ok() {
        assert_eq!([&out[6..12], &out[..6], &out[12..]].concat(), bytes);
    }
    let mut out = bytes.to_vec();
    if Ipv4View::new(bytes).is_ok_and(|view| view.checksum_is_valid()) {
        assert!(ipv4::decrement_ttl(&mut out).is_ok_and(|left| left == bytes[8].saturating_sub(1)));
        assert!(Ipv4View::new(&out).is_ok_and(|view| view.checksum_is_valid()));
    }
    black_box((ipv4::decrement_ttl(&mut out), ipv6::decrement_hop_limit(&mut out))).0.ok();
}
