use wirelane_wire::{Icmpv4, Icmpv4View, MacAddr, Tcp, TunnelKind, packet};

use super::*;

const SECOND: u64 = 1_000_000_000;
const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const THERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);

/// A table and its exported flows.
struct Bench {
    meter: Meter,
    flows: Vec<Flow>,
}

impl Bench {
    fn new(flows: usize) -> Self {
        let config = MeterConfig { idle: Duration::from_secs(10), active: Duration::from_secs(60) };
        let meter = Meter::new(config, Arc::new(Room::new(flows)), 7);
        Self { meter, flows: Vec::new() }
    }

    fn push(&mut self, data: &[u8], time: u64) {
        self.push_of(1, data, time);
    }

    fn push_of(&mut self, link_type: u16, data: &[u8], time: u64) {
        let interface = self.meter.interface("eth0");
        self.meter.push(&Packet {
            link_type,
            data,
            original_len: data.len() as u32,
            time,
            interface,
            queue: 3,
        });
        self.meter.flush();
        self.meter.take(&mut self.flows);
    }

    /// A segment from the client (10.0.0.1:4000) or from the server (10.0.0.2:80).
    fn tcp(&mut self, from_client: bool, flags: TcpFlags, sequence: u32, len: usize, time: u64) {
        self.push(&segment(from_client, flags, sequence, len, 1000), time);
    }

    fn end(mut self) -> Vec<Flow> {
        // In several steps, like the session.
        while self.meter.finish(3) {}
        self.meter.take(&mut self.flows);
        let counts = self.meter.counts();
        let in_flows: u64 = self.flows.iter().map(Flow::packets).sum();
        assert_eq!((counts.flows, counts.exported), (0, self.flows.len() as u64));
        assert_eq!(counts.exported_packets, in_flows);
        let refused = counts.not_ip + counts.encrypted + counts.truncated + counts.malformed;
        assert_eq!(counts.packets, in_flows + refused, "every packet is somewhere: {counts:?}");
        self.flows.iter_mut().for_each(Flow::settle);
        self.flows
    }
}

fn segment(from_client: bool, flags: TcpFlags, sequence: u32, len: usize, window: u16) -> Vec<u8> {
    let ends = [([10, 0, 0, 1], 4000), ([10, 0, 0, 2], 80)];
    let [from, to] = if from_client { ends } else { [ends[1], ends[0]] };
    let tcp = Tcp { flags, sequence, window, ..Tcp::between(from.1, to.1) };
    let payload = vec![7; len];
    let packet = packet::ethernet(HERE, THERE)
        .ipv4(from.0.into(), to.0.into())
        .ttl(if from_client { 64 } else { 60 })
        .tcp(tcp, &payload);
    bytes(&packet)
}

fn bytes(packet: &packet::Packet<'_>) -> Vec<u8> {
    let mut frame = vec![0; 2000];
    let len = packet.emit(&mut frame).unwrap();
    frame.truncate(len);
    frame
}

fn datagram(from: u8, to: u8, port: u16, vlans: &[u16]) -> Vec<u8> {
    let mut link = packet::ethernet(HERE, THERE);
    for id in vlans {
        link = link.vlan(*id);
    }
    let udp = link.ipv4([10, 0, 0, from].into(), [10, 0, 0, to].into());
    bytes(&udp.udp(port, 53, b"question"))
}

#[test]
fn a_connection_is_one_flow_of_both_directions() {
    let mut bench = Bench::new(100);
    bench.tcp(true, SYN, 100, 0, SECOND);
    bench.tcp(false, SYN_ACK, 500, 0, SECOND + 4_000);
    bench.tcp(true, ACK, 101, 0, SECOND + 10_000);
    bench.tcp(true, ACK, 101, 200, SECOND + 20_000);
    bench.tcp(false, ACK, 501, 1000, SECOND + 30_000);
    bench.tcp(false, FIN_ACK, 1501, 0, SECOND + 40_000);
    bench.tcp(true, FIN_ACK, 301, 0, SECOND + 50_000);
    bench.tcp(false, ACK, 1502, 0, SECOND + 60_000);
    bench.meter.advance(5 * SECOND);
    bench.meter.take(&mut bench.flows);
    assert_eq!(bench.flows.len(), 1, "it has ended without a word from anybody");
    let flows = bench.end();
    let [flow] = flows.as_slice() else { panic!("{flows:?}") };
    assert_eq!((flow.key.source, flow.key.source_port), ("10.0.0.1".parse().unwrap(), 4000));
    assert_eq!((flow.forward.packets, flow.reverse.packets), (4, 4));
    assert_eq!((flow.forward.octets, flow.forward.payload), (4 * 40 + 200, 200));
    assert_eq!((flow.reverse.octets, flow.reverse.payload), (4 * 40 + 1000, 1000));
    assert_eq!((flow.start(), flow.last()), (SECOND, SECOND + 60_000));
    assert_eq!(flow.handshake_rtt, Some(10_000));
    assert_eq!(flow.end, EndReason::Ended);
    assert_eq!((flow.forward.min_ttl, flow.reverse.max_ttl), (64, 60));
    assert_eq!((flow.forward.queue, &*flow.interface), (3, "eth0"));
    let all = flow.forward.tcp_flags.with(flow.reverse.tcp_flags);
    assert_eq!(all, SYN.with(FIN_ACK));
    assert_eq!((flow.forward.retransmissions, flow.reverse.out_of_order), (0, 0));
}

#[test]
fn who_answers_did_not_begin() {
    let mut bench = Bench::new(100);
    bench.tcp(false, SYN_ACK, 500, 0, SECOND);
    bench.tcp(true, ACK, 101, 0, SECOND + 10_000);
    let flows = bench.end();
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0].key.source_port, 4000);
    // Its SYN was not received.
    assert_eq!(flows[0].handshake_rtt, None);
    assert_eq!(flows[0].end, EndReason::Forced);
}

#[test]
fn sent_again_is_not_late() {
    let mut bench = Bench::new(100);
    bench.tcp(true, ACK, 1000, 100, SECOND);
    bench.tcp(true, ACK, 1200, 100, SECOND + 1);
    // Fills the hole, then a retransmission.
    bench.tcp(true, ACK, 1100, 100, SECOND + 2);
    bench.tcp(true, ACK, 1100, 100, SECOND + 3);
    // A keep-alive and an acknowledgment.
    bench.tcp(true, ACK, 1299, 1, SECOND + 4);
    bench.tcp(true, ACK, 1300, 0, SECOND + 5);
    // A segment with old and new bytes.
    bench.tcp(true, ACK, 1250, 100, SECOND + 6);
    bench.tcp(true, ACK, 1350, 100, SECOND + 7);
    bench.push(&segment(true, ACK, 1450, 0, 0), SECOND + 8);
    let flows = bench.end();
    let half = &flows[0].forward;
    assert_eq!((half.out_of_order, half.retransmissions, half.zero_windows), (1, 2, 1));
}

#[test]
fn flows_end_when_silent_and_go_on_when_active() {
    let mut bench = Bench::new(100);
    let question = datagram(1, 2, 4000, &[]);
    bench.push(&question, SECOND);
    bench.push(&question, 11 * SECOND);
    // After the idle timeout of 10 s.
    bench.push(&question, 21 * SECOND + 1);
    for second in 22..90 {
        bench.push(&question, second * SECOND);
    }
    bench.meter.advance(200 * SECOND);
    let flows = bench.end();
    let told: Vec<_> = flows.iter().map(|flow| (flow.packets(), flow.end)).collect();
    // From 21 s and 1 ns to 81 s, then the rest.
    assert_eq!(told, [(2, EndReason::Idle), (61, EndReason::Active), (8, EndReason::Idle)]);
}

#[test]
fn a_flow_that_ended_makes_way_for_the_next() {
    let mut bench = Bench::new(100);
    for begin in [1, 2] {
        let time = begin * SECOND;
        bench.tcp(true, SYN, 100, 0, time);
        bench.tcp(false, TcpFlags::RST.with(ACK), 0, 0, time + 1);
        bench.tcp(false, TcpFlags::RST.with(ACK), 0, 0, time + 2);
    }
    let flows = bench.end();
    let told: Vec<_> = flows.iter().map(|flow| (flow.packets(), flow.end)).collect();
    assert_eq!(told, [(3, EndReason::Ended); 2]);
}

#[test]
fn addresses_ports_tags_and_interfaces_tell_flows_apart() {
    let mut bench = Bench::new(100);
    bench.push(&datagram(1, 2, 4000, &[]), 1);
    bench.push(&datagram(1, 2, 4000, &[]), 1);
    bench.push(&datagram(1, 3, 4000, &[]), 2);
    bench.push(&datagram(1, 2, 4001, &[]), 3);
    bench.push(&datagram(1, 2, 4000, &[7]), 4);
    bench.push(&datagram(1, 2, 4000, &[7, 8]), 5);
    let other = bench.meter.interface("eth1");
    let data = datagram(1, 2, 4000, &[]);
    let original_len = data.len() as u32;
    let packet =
        Packet { link_type: 1, data: &data, original_len, time: 6, interface: other, queue: 0 };
    bench.meter.push(&packet);
    let flows = bench.end();
    assert_eq!(flows.len(), 6);
    let mut tags: Vec<_> = flows.iter().map(|flow| (flow.key.vlan, flow.key.inner_vlan)).collect();
    tags.sort();
    assert_eq!(tags[4..], [(Some(7), None), (Some(7), Some(8))]);
    assert_eq!(flows.iter().filter(|flow| &*flow.interface == "eth1").count(), 1);
}

#[test]
fn pings_and_their_answers_are_one_flow() {
    let mut bench = Bench::new(100);
    for (from, to, kind) in [(1, 2, 8), (2, 1, 0), (1, 2, 3), (2, 1, 3)] {
        let message = [kind, u8::from(kind == 3), 0, 0, 0, 1, 0, 1];
        let header = Icmpv4::parse(&Icmpv4View::new(&message).unwrap());
        let packet = packet::ethernet(HERE, THERE)
            .ipv4([10, 0, 0, from].into(), [10, 0, 0, to].into())
            .icmp(header, b"");
        bench.push(&bytes(&packet), 1);
    }
    let flows = bench.end();
    let mut told: Vec<_> = flows
        .iter()
        .map(|flow| (flow.key.source_port, flow.key.destination_port, flow.packets()))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(3, 1, 1), (3, 1, 1), (8, 0, 2)]);
}

#[test]
fn what_travels_in_a_tunnel_is_metered() {
    let inner = datagram(1, 2, 4000, &[]);
    let wrap = |id: u8, from: u8, to: u8, inner: &[u8]| {
        let header = [8, 0, 0, 0, 0, 0, id, 0];
        let payload = [&header[..], inner].concat();
        let packet = packet::ethernet(HERE, THERE)
            .ipv4([192, 0, 2, from].into(), [192, 0, 2, to].into())
            .udp(5555, 4789, &payload);
        bytes(&packet)
    };
    let mut bench = Bench::new(100);
    bench.push(&wrap(9, 1, 2, &inner), 1);
    // The same flow in another network.
    bench.push(&wrap(10, 1, 2, &inner), 2);
    bench.push(&wrap(9, 1, 2, &inner), 3);
    // Without a complete inner IP packet, the outer packet is metered.
    bench.push(&wrap(9, 1, 2, &inner[..20]), 4);
    let flows = bench.end();
    let mut told: Vec<_> = flows
        .iter()
        .map(|flow| (flow.key.tunnel.and_then(|it| it.id), flow.packets(), flow.forward.octets))
        .collect();
    told.sort_unstable();
    let whole = inner.len() as u64 - 14;
    assert_eq!(told[1..], [(Some(9), 2, 2 * whole), (Some(10), 1, whole)]);
    assert_eq!((told[0].0, told[0].1), (None, 1));
    let tunnel = flows.iter().find_map(|flow| flow.key.tunnel).unwrap();
    assert_eq!(tunnel.source, "192.0.2.1".parse::<std::net::IpAddr>().unwrap());
}

#[test]
fn a_tunnel_without_a_number_has_none() {
    let inner = datagram(1, 2, 4000, &[]);
    let outer = || packet::ethernet(HERE, THERE).ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let mut bench = Bench::new(100);
    for (protocol, header) in [
        (Protocol::GRE, &[0, 0, 8, 0][..]),
        (Protocol::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 0]),
        (Protocol::IPV4, &[]),
    ] {
        let payload = [header, &inner[14..]].concat();
        bench.push(&bytes(&outer().other(protocol, &payload)), 1);
    }
    let flows = bench.end();
    let mut told: Vec<_> = flows.iter().filter_map(|flow| flow.key.tunnel).collect();
    told.sort_by_key(|tunnel| (tunnel.kind as u8, tunnel.id));
    let told: Vec<_> = told.iter().map(|tunnel| (tunnel.kind, tunnel.id)).collect();
    let gre = TunnelKind::Gre;
    assert_eq!(told, [(gre, None), (gre, Some(0)), (TunnelKind::Ip, None)]);
}

/// Ethernet, PPP and 802.11 carry packets of one flow; other frames of 802.11 and PPP are counted.
#[test]
fn flows_of_ppp_and_wlan_are_metered() {
    let frame = datagram(1, 2, 4000, &[]);
    let ip = &frame[14..];
    let wlan = |control: [u8; 2], rest: &[u8]| {
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        [&control[..], &[0; 22], &snap, rest].concat()
    };
    let radiotap = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wlan([8, 1], ip)].concat();
    let mut bench = Bench::new(100);
    bench.push(&frame, 1);
    for (link_type, header) in [(9, &[0xff, 3, 0, 0x21][..]), (50, &[0xff, 3, 0, 0x21])] {
        bench.push_of(link_type, &[header, ip].concat(), 1);
    }
    bench.push_of(51, &[&[0x11, 0, 0, 1, 0, 99, 0, 0x21][..], ip].concat(), 1);
    bench.push_of(105, &wlan([8, 1], ip), 1);
    bench.push_of(127, &radiotap, 1);
    let ppi = [0, 0, 8, 0, 105, 0, 0, 0];
    bench.push_of(192, &[&ppi[..], &wlan([8, 1], ip)].concat(), 1);
    // An encrypted frame, a beacon, a PPP negotiation.
    bench.push_of(105, &wlan([8, 0x41], ip), 1);
    bench.push_of(105, &wlan([0x80, 0], &[]), 1);
    bench.push_of(9, &[0xff, 3, 0xc0, 0x21, 1, 1, 0, 4], 1);
    let counts = bench.meter.counts();
    assert_eq!((counts.packets, counts.encrypted, counts.not_ip), (10, 1, 2));
    let flows = bench.end();
    assert_eq!((flows.len(), flows[0].packets()), (1, 7));
}

#[test]
fn both_ways_through_a_tunnel_are_one_flow() {
    let wrap = |from: u8, to: u8, inner: &[u8]| {
        let payload = [&[8, 0, 0, 0, 0, 0, 9, 0][..], inner].concat();
        let link = packet::ethernet(HERE, THERE);
        let ip = link.ipv4([192, 0, 2, from].into(), [192, 0, 2, to].into());
        bytes(&ip.udp(5555, 4789, &payload))
    };
    let mut bench = Bench::new(100);
    bench.push(&wrap(2, 1, &segment(false, ACK, 1, 0, 1)), 1);
    bench.push(&wrap(1, 2, &segment(true, ACK, 1, 0, 1)), 2);
    let flows = bench.end();
    assert_eq!((flows.len(), flows[0].forward.packets, flows[0].reverse.packets), (1, 1, 1));
    assert_eq!(flows[0].key.tunnel.unwrap().source.to_string(), "192.0.2.2");
}

#[test]
fn memory_is_bounded_and_what_makes_way_is_counted() {
    let mut bench = Bench::new(300);
    for number in 0..5_000_u16 {
        bench.push(&datagram(1, 2, number, &[]), SECOND + u64::from(number));
    }
    let counts = bench.meter.counts();
    assert_eq!((counts.flows, counts.evicted), (300, 4_700));
    // The export has all flows, including the evicted ones.
    let flows = bench.end();
    assert_eq!(flows.len(), 5_000);
    let evicted = flows.iter().filter(|flow| flow.end == EndReason::Evicted);
    assert_eq!(evicted.count(), 4_700);
}

#[test]
fn a_table_without_memory_still_loses_nothing() {
    let mut bench = Bench::new(0);
    bench.push(&datagram(1, 2, 1, &[]), 1);
    bench.push(&datagram(1, 2, 1, &[]), 2);
    assert_eq!(bench.end().len(), 2);
}

#[test]
fn what_is_no_flow_is_counted() {
    let mut bench = Bench::new(10);
    let whole = datagram(1, 2, 1, &[]);
    bench.push(&whole[..10], 1);
    bench.push(&whole[..30], 1);
    bench.push(&whole[..36], 1);
    let mut wrong = whole.clone();
    wrong[14] = 0x41;
    bench.push(&wrong, 1);
    let counts = bench.meter.counts();
    assert_eq!((counts.not_ip, counts.truncated, counts.malformed), (1, 2, 1));
    assert!(bench.end().is_empty());
}

#[test]
fn a_flow_costs_at_most_256_bytes() {
    let mut bench = Bench::new(usize::MAX);
    let mut data = datagram(1, 2, 1, &[]);
    for number in 0..200_000_u32 {
        data[26..30].copy_from_slice(&number.to_be_bytes());
        let original_len = data.len() as u32;
        let packet =
            Packet { link_type: 1, data: &data, original_len, time: 1, interface: 0, queue: 0 };
        bench.meter.push(&packet);
    }
    bench.meter.flush();
    assert_eq!(bench.meter.counts().flows, 200_000);
    let each = bench.meter.bytes() / 200_000;
    assert!(each <= 256, "{each} bytes");
}

mod property {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With arbitrary packets in any order of time, no panic occurs, and every packet is
        /// counted.
        #[test]
        fn every_packet_is_somewhere(
            packets in prop::collection::vec(
                (0_u8..4, 0_u8..4, 0_u16..3, any::<bool>(), 0_u64..100, 14_usize..62, any::<u8>()),
                1..300,
            ),
            flows in 0_usize..20,
        ) {
            let mut bench = Bench::new(flows);
            for (from, to, port, is_tcp, time, len, noise) in packets {
                let mut data = if is_tcp {
                    segment(from < to, TcpFlags::from_bits(noise.into()), port.into(), 3, 1)
                } else {
                    datagram(from, to, port, &[])
                };
                if noise % 7 == 0 {
                    let at = usize::from(noise) % data.len();
                    data[at] ^= noise;
                }
                data.truncate(if noise % 5 == 0 { len } else { data.len() });
                bench.push(&data, time * SECOND);
            }
            bench.end();
        }
    }
}
