//! Properties of every header, of the checksum and of the hash.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::{collection::vec, prelude::*};
use wirelane_wire::{
    Arp, ArpOperation, ArpView, Echo, EtherType, Ethernet, EthernetView, Fragment, FragmentView,
    Icmpv4, Icmpv4View, Icmpv6, Icmpv6View, Ipv4, Ipv4View, Ipv6, Ipv6View, MacAddr, Packet,
    PacketMut, Protocol, Tcp, TcpFlags, TcpView, ToeplitzKey, ToeplitzTable, Udp, UdpView, Vlan,
    VlanView,
    checksum::{self, Sum},
    packet,
};

#[path = "walk/mod.rs"]
mod walk;

/// RFC 1071 word for word: big-endian 16-bit words, a carry folded in after each.
fn oracle(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn options() -> impl Strategy<Value = Vec<u8>> {
    (0_usize..=10).prop_flat_map(|words| vec(any::<u8>(), words * 4))
}

/// A frame whose headers are right often enough for the walk to get deep.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let ethertype = prop_oneof![
        Just([0x08, 0x00].to_vec()),
        Just([0x86, 0xdd].to_vec()),
        Just([0x81, 0x00, 0x00, 0x05, 0x08, 0x00].to_vec()),
        Just([0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x06, 0x86, 0xdd].to_vec()),
    ];
    let version = prop_oneof![Just(0x45_u8), Just(0x46), Just(0x4f), Just(0x60)];
    let next = prop_oneof![Just(0_u8), Just(6), Just(17), Just(43), Just(44), Just(51), Just(60)];
    (vec(any::<u8>(), 12), ethertype, version, next, vec(any::<u8>(), 0..120)).prop_map(
        |(mut frame, ethertype, version, next, mut rest)| {
            let stated = rest.len() as u16;
            if let Some(first) = rest.first_mut() {
                *first = version;
            }
            let (length, at) =
                if version == 0x60 { (stated.saturating_sub(40), 4..6) } else { (stated, 2..4) };
            if let Some(field) = rest.get_mut(at) {
                field.copy_from_slice(&length.to_be_bytes());
            }
            if let Some(field) = rest.get_mut(if version == 0x60 { 6 } else { 9 }) {
                *field = next;
            }
            frame.extend(ethertype);
            frame.extend(rest);
            frame
        },
    )
}

/// Parameters of the headers of a packet between two endpoints.
#[derive(Clone, Debug)]
struct Headers {
    tags: Vec<u16>,
    v6: bool,
    tcp: bool,
    addresses: (u128, u128),
    ports: (u16, u16),
    ttl: u8,
}

impl Headers {
    /// A UDP or TCP packet; an echo request if it has no ports.
    fn packet<'a>(&self, payload: &'a [u8], echo: bool) -> Packet<'a> {
        let link = packet::ethernet(MacAddr::ZERO, MacAddr::BROADCAST);
        let link = self.tags.iter().fold(link, |link, id| link.vlan(*id));
        let (a, b) = self.addresses;
        let tcp =
            Tcp { sequence: 7, flags: TcpFlags::ACK, ..Tcp::between(self.ports.0, self.ports.1) };
        let request = Echo { identifier: self.ports.0, sequence: 3 };
        if self.v6 {
            let ip = link.ipv6(a.into(), b.into()).ttl(self.ttl);
            match (echo, self.tcp) {
                (true, _) => ip.icmp(Icmpv6::EchoRequest(request), payload),
                (_, true) => ip.tcp(tcp, payload),
                _ => ip.udp(self.ports.0, self.ports.1, payload),
            }
        } else {
            let ip = link.ipv4((a as u32).into(), (b as u32).into()).ttl(self.ttl);
            match (echo, self.tcp) {
                (true, _) => ip.icmp(Icmpv4::EchoRequest(request), payload),
                (_, true) => ip.tcp(tcp, payload),
                _ => ip.udp(self.ports.0, self.ports.1, payload),
            }
        }
    }

    fn emitted(&self, payload: &[u8], echo: bool) -> Vec<u8> {
        let packet = self.packet(payload, echo);
        let mut frame = vec![0xa5; packet.len()];
        packet.emit(&mut frame).expect("there is one");
        frame
    }

    /// Where the transport header begins.
    fn transport(&self) -> usize {
        14 + 4 * self.tags.len() + if self.v6 { 40 } else { 20 }
    }

    /// The frame with the sum of the pseudo-header alone.
    fn partial(&self, payload: &[u8]) -> Vec<u8> {
        let (mut frame, at) = (self.emitted(payload, false), self.transport());
        let (a, b, len) = (self.addresses.0, self.addresses.1, (frame.len() - at) as u32);
        let protocol = if self.tcp { Protocol::TCP } else { Protocol::UDP };
        let sum = match self.v6 {
            true => checksum::pseudo_v6(a.into(), b.into(), protocol, len),
            false => checksum::pseudo_v4((a as u32).into(), (b as u32).into(), protocol, len),
        };
        let field = at + if self.tcp { 16 } else { 6 };
        frame[field..field + 2].copy_from_slice(&sum.partial().to_be_bytes());
        frame
    }

    /// Gives a frame the addresses, TTL and ports of `self`, one after the other.
    fn write(&self, packet: &mut PacketMut<'_>, echo: bool) {
        let (a, b) = self.addresses;
        if self.v6 {
            packet.set_ipv6_source(a.into()).expect("there is one");
            packet.set_ipv6_destination(b.into()).expect("there is one");
        } else {
            packet.set_ipv4_source((a as u32).into()).expect("there is one");
            packet.set_ipv4_destination((b as u32).into()).expect("there is one");
        }
        packet.set_ttl(self.ttl).expect("there is one");
        if echo {
            packet.set_echo_identifier(self.ports.0).expect("there is one");
        } else {
            packet.set_source_port(self.ports.0).expect("there is one");
            packet.set_destination_port(self.ports.1).expect("there is one");
        }
    }
}

/// The headers of a packet before and after everything in it changed.
fn rewrites() -> impl Strategy<Value = [Headers; 2]> {
    let endpoints = || (any::<(u128, u128)>(), any::<(u16, u16)>(), any::<u8>());
    (vec(0_u16..4096, 0..3), any::<bool>(), any::<bool>(), endpoints(), endpoints()).prop_map(
        |(tags, v6, tcp, before, after)| {
            [before, after].map(|(addresses, ports, ttl)| Headers {
                tags: tags.clone(),
                v6,
                tcp,
                addresses,
                ports,
                ttl,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_take_arbitrary_bytes(bytes in vec(any::<u8>(), 0..200)) {
        walk::walk(&bytes);
    }

    #[test]
    fn views_take_plausible_frames(frame in plausible()) {
        for start in 0..frame.len() {
            walk::walk(&frame[start..]);
        }
        for end in 0..frame.len() {
            walk::walk(&frame[..end]);
        }
    }

    #[test]
    fn ethernet(destination: [u8; 6], source: [u8; 6], ethertype: u16) {
        let (destination, source) = (MacAddr(destination), MacAddr(source));
        let value = Ethernet { destination, source, ethertype: EtherType(ethertype) };
        let mut bytes = [0; 14];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Ethernet::parse(&EthernetView::new(&bytes).unwrap()), value);
        prop_assert_eq!(source.to_string().parse(), Ok(source));
    }

    #[test]
    fn vlan(priority in 0_u8..8, drop_eligible: bool, id in 0_u16..4096, ethertype: u16) {
        let value = Vlan { priority, drop_eligible, id, ethertype: EtherType(ethertype) };
        let mut bytes = [0; 4];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Vlan::parse(&VlanView::new(&bytes).unwrap()), value);
    }

    #[test]
    fn ipv4(
        addresses: (u32, u32), protocol: u8, ttl: u8, dscp in 0_u8..64, ecn in 0_u8..4,
        identification: u16, flags: (bool, bool), offset in 0_u16..8192, payload in 0_u16..1500,
        options in options(),
    ) {
        let value = Ipv4 {
            source: addresses.0.into(), destination: addresses.1.into(),
            protocol: Protocol(protocol), ttl, dscp, ecn, identification,
            dont_fragment: flags.0, more_fragments: flags.1, fragment_offset: offset * 8,
            payload_len: payload, options: &options,
        };
        let mut bytes = vec![0; value.header_len() + usize::from(payload)];
        value.emit(&mut bytes).unwrap();
        let view = Ipv4View::new(&bytes).unwrap();
        prop_assert_eq!(Ipv4::parse(&view), value);
        prop_assert!(view.checksum_is_valid());
        prop_assert_eq!(view.payload().len(), usize::from(payload));
    }

    #[test]
    fn ipv6(
        addresses: (u128, u128), next: u8, hop_limit: u8, dscp in 0_u8..64, ecn in 0_u8..4,
        flow_label in 0_u32..1 << 20, payload_len in 1_u16..1500,
    ) {
        let value = Ipv6 {
            source: addresses.0.into(), destination: addresses.1.into(),
            next_header: Protocol(next), hop_limit, dscp, ecn, flow_label, payload_len,
        };
        let mut bytes = vec![0; 40 + usize::from(payload_len)];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Ipv6::parse(&Ipv6View::new(&bytes).unwrap()), value);
    }

    #[test]
    fn fragment(next: u8, offset in 0_u16..8192, more_fragments: bool, identification: u32) {
        let next_header = Protocol(next);
        let value = Fragment { next_header, offset: offset * 8, more_fragments, identification };
        let mut bytes = [0; 8];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Fragment::parse(&FragmentView::new(&bytes).unwrap()), value);
    }

    #[test]
    fn arp(operation: u16, macs: ([u8; 6], [u8; 6]), addresses: (u32, u32)) {
        let value = Arp {
            operation: ArpOperation(operation),
            sender_mac: MacAddr(macs.0), sender: addresses.0.into(),
            target_mac: MacAddr(macs.1), target: addresses.1.into(),
        };
        let mut bytes = [0; 28];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Arp::parse(&ArpView::new(&bytes).unwrap()), value);
    }

    #[test]
    fn icmp(message_type: u8, code: u8, rest: [u8; 4], mut bytes in vec(any::<u8>(), 8..100)) {
        let value = Icmpv4::Other { message_type, code, rest };
        value.emit(&mut bytes).unwrap();
        let view = Icmpv4View::new(&bytes).unwrap();
        prop_assert!(view.checksum_is_valid());
        prop_assert_eq!((view.message_type(), view.code(), view.rest()), (message_type, code, rest));
        let pseudo = Sum::of(&rest);
        Icmpv6::Other { message_type, code, rest }.emit(&mut bytes, pseudo).unwrap();
        prop_assert!(Icmpv6View::new(&bytes).unwrap().checksum_is_valid(pseudo));
    }

    #[test]
    fn rewriting_is_building_anew(
        headers in rewrites(), payload in vec(any::<u8>(), 0..200), echo: bool,
    ) {
        let [before, after] = headers;
        let mut frame = before.emitted(&payload, echo);
        after.write(&mut PacketMut::new(&mut frame).unwrap(), echo);
        // Of one's complement's two zeros ICMP may have either.
        let field = after.transport() + 2;
        if echo && !after.v6 && frame[field..field + 2] == [0xff; 2] {
            prop_assert!(Icmpv4View::new(&frame[after.transport()..]).unwrap().checksum_is_valid());
        } else {
            prop_assert_eq!(frame, after.emitted(&payload, echo));
        }
    }

    #[test]
    fn rewriting_partial_checksums_is_building_anew(
        headers in rewrites(), payload in vec(any::<u8>(), 0..200),
    ) {
        let [before, after] = headers;
        let mut frame = before.partial(&payload);
        let mut packet = PacketMut::new_partial(&mut frame, before.transport()).unwrap();
        after.write(&mut packet, false);
        prop_assert_eq!(frame, after.partial(&payload));
    }

    #[test]
    fn udp(source_port: u16, destination_port: u16, payload_len in 0_u16..1500, checksum: u16) {
        let value = Udp { source_port, destination_port, payload_len, checksum };
        let mut bytes = vec![0; 8 + usize::from(payload_len)];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Udp::parse(&UdpView::new(&bytes).unwrap()), value);
    }

    #[test]
    fn tcp(
        ports: (u16, u16), sequence: u32, acknowledgment: u32, flags: u16, window: u16,
        checksum: u16, urgent_pointer: u16, options in options(),
    ) {
        let value = Tcp {
            source_port: ports.0, destination_port: ports.1, sequence, acknowledgment,
            flags: TcpFlags::from_bits(flags), window, checksum, urgent_pointer, options: &options,
        };
        let mut bytes = vec![0; value.header_len()];
        value.emit(&mut bytes).unwrap();
        prop_assert_eq!(Tcp::parse(&TcpView::new(&bytes).unwrap()), value);
    }

    #[test]
    fn checksum_is_the_oracle(bytes in vec(any::<u8>(), 0..2000), start in 0_usize..40) {
        let bytes = bytes.get(start..).unwrap_or_default();
        prop_assert_eq!(Sum::of(bytes).partial(), oracle(bytes));
        prop_assert_eq!(checksum::checksum(bytes), !oracle(bytes));
    }

    #[test]
    fn checksum_of_carries(byte in prop_oneof![Just(0_u8), Just(0xff)], len in 0_usize..9000) {
        let bytes = vec![byte; len];
        prop_assert_eq!(Sum::of(&bytes).partial(), oracle(&bytes));
    }

    #[test]
    fn checksum_of_parts(bytes in vec(any::<u8>(), 0..500), cuts in vec(0_usize..500, 0..5)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let whole = cuts.windows(2).fold(Sum::ZERO, |sum, cut| {
            sum.followed_by(cut[0], Sum::of(&bytes[cut[0]..cut[1]]))
        });
        prop_assert_eq!(whole, Sum::of(&bytes));
    }

    #[test]
    fn checksum_update_is_recomputing(
        mut words in vec(any::<u16>(), 1..40), at: prop::sample::Index, new: u16,
    ) {
        // No real header is all zero, the one case where RFC 1624 gives the other of the two zeros.
        words.push(0x4500);
        let bytes = |words: &[u16]| words.iter().flat_map(|it| it.to_be_bytes()).collect::<Vec<_>>();
        let before = checksum::checksum(&bytes(&words));
        let at = at.index(words.len() - 1);
        let old = std::mem::replace(&mut words[at], new);
        let after = checksum::checksum(&bytes(&words));
        prop_assert_eq!(checksum::update(before, old, new), after);
        let (old, new) = (Sum::of_field(old), Sum::of_field(new));
        prop_assert_eq!(checksum::update_sum(before, old, new), after);
        prop_assert_eq!(checksum::update_sum(after, new, old), before);
    }

    #[test]
    fn pseudo_headers(a: [u8; 4], b: [u8; 4], c: [u8; 16], d: [u8; 16], next: u8, length: u32) {
        let tail = [&length.to_be_bytes()[..], &[0, 0, 0, next]].concat();
        let v4 = checksum::pseudo_v4(Ipv4Addr::from(a), Ipv4Addr::from(b), Protocol(next), length);
        prop_assert_eq!(v4.partial(), oracle(&[&a[..], &b, &tail].concat()));
        let v6 = checksum::pseudo_v6(Ipv6Addr::from(c), Ipv6Addr::from(d), Protocol(next), length);
        prop_assert_eq!(v6.partial(), oracle(&[&c[..], &d, &tail].concat()));
    }

    #[test]
    fn toeplitz_table_is_the_definition(
        key in vec(any::<u8>(), 40), input in vec(any::<u8>(), 0..=36),
    ) {
        // The definition: for every input bit that is set, the 32 key bits from its place on.
        let key_bit = |at: usize| u32::from(key[at / 8] >> (7 - at % 8) & 1);
        let expected = (0..input.len() * 8)
            .filter(|at| input[at / 8] >> (7 - at % 8) & 1 == 1)
            .fold(0, |hash, at| hash ^ (at..at + 32).fold(0, |word, at| word << 1 | key_bit(at)));
        let key = ToeplitzKey::new(key.clone().try_into().unwrap());
        prop_assert_eq!(key.hash(&input), expected);
        prop_assert_eq!(ToeplitzTable::new(&key).hash(&input), expected);
    }
}
