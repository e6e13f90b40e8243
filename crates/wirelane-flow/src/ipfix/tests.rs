//! Encoded flows decode to equal flows.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;

use proptest::prelude::*;
use wirelane_wire::{Protocol, TcpFlags};

use super::element::EXAMPLE;
use super::{Collector, Decoder, Exporter, Limits, Pipe, Sent, read_message};
use crate::{EndReason, Flow, Half, Key, Sink, Tunnel, TunnelKind};

prop_compose! {
    fn half()(
        counts in any::<[u64; 3]>(),
        // Before and after 2036.
        times in prop::array::uniform2(0..4_000_000_000_000_000_000_u64),
        flags in 0_u16..0x1ff,
        events in any::<[u32; 4]>(),
        bytes in any::<[u8; 3]>(),
        queue in any::<u16>(),
    ) -> Half {
        Half {
            packets: counts[0] >> 8,
            octets: counts[1] >> 8,
            payload: counts[2],
            start: times[0],
            end: times[1],
            tcp_flags: TcpFlags::from_bits(flags),
            retransmissions: events[0],
            out_of_order: events[1],
            zero_windows: events[2],
            congestion_experienced: events[3],
            dscp: bytes[0],
            min_ttl: bytes[1],
            max_ttl: bytes[2],
            queue,
        }
    }
}

fn pair() -> impl Strategy<Value = [IpAddr; 2]> {
    let v4 = any::<[[u8; 4]; 2]>().prop_map(|it| it.map(IpAddr::from));
    let v6 = any::<[[u8; 16]; 2]>().prop_map(|it| it.map(IpAddr::from));
    prop_oneof![v4, v6]
}

fn tunnel() -> impl Strategy<Value = Tunnel> {
    let kind = prop::sample::select(vec![
        TunnelKind::Vxlan,
        TunnelKind::Geneve,
        TunnelKind::Gre,
        TunnelKind::Ip,
    ]);
    (kind, pair(), any::<Option<u32>>()).prop_map(|(kind, [source, destination], id)| Tunnel {
        kind,
        source,
        destination,
        id,
    })
}

prop_compose! {
    fn key()(
        [source, destination] in pair(),
        ports in any::<[u16; 2]>(),
        protocol in prop::sample::select(vec![1_u8, 6, 17, 47, 58, 132]),
        vlan in any::<Option<u16>>(),
        inner_vlan in any::<Option<u16>>(),
        tunnel in prop::option::of(tunnel()),
    ) -> Key {
        let protocol = Protocol(protocol);
        let is_icmp = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
        let [source_port, destination_port] = ports.map(|it| if is_icmp { it & 255 } else { it });
        Key { source, destination, source_port, destination_port, protocol, vlan, inner_vlan, tunnel }
    }
}

prop_compose! {
    fn flow()(
        key in key(),
        forward in half(),
        reverse in prop::option::of(half()),
        handshake_rtt in prop::option::of(0..u64::MAX),
        end in prop::sample::select(vec![
            EndReason::Idle, EndReason::Active, EndReason::Ended, EndReason::Forced, EndReason::Evicted,
        ]),
        interface in "[a-z0-9.]{0,15}",
        community in any::<[u8; 20]>(),
    ) -> Flow {
        let reverse = reverse.filter(|it| it.packets > 0).unwrap_or_default();
        Flow { key, forward, reverse, handshake_rtt, end, interface: interface.into(), community }
    }
}

proptest! {
    #[test]
    fn a_pipe_gives_back_every_flow(flows in prop::collection::vec(flow(), 1..40)) {
        let mut bytes = Vec::new();
        let mut pipe = Pipe::new(&mut bytes);
        flows.iter().for_each(|it| pipe.add(it).unwrap());
        pipe.flush().unwrap();
        prop_assert_eq!(decode(&bytes), flows);
    }

    #[test]
    fn foreign_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), value in any::<u8>(), flow in flow()) {
        let mut flows = Vec::new();
        let _ = Decoder::new(None).decode(&bytes, &mut flows);
        let mut good = Vec::new();
        let mut pipe = Pipe::new(&mut good);
        pipe.add(&flow).unwrap();
        pipe.flush().unwrap();
        let at = at.index(good.len());
        good[at] = value;
        let (mut stream, mut message) = (&good[..], Vec::new());
        let mut decoder = Decoder::new(Some(EXAMPLE));
        while read_message(&mut stream, &mut message).unwrap_or(false) {
            let _ = decoder.decode(&message, &mut flows);
        }
    }
}

fn decode(bytes: &[u8]) -> Vec<Flow> {
    let (mut stream, mut message, mut flows) = (bytes, Vec::new(), Vec::new());
    let mut decoder = Decoder::new(Some(EXAMPLE));
    while read_message(&mut stream, &mut message).unwrap() {
        decoder.decode(&message, &mut flows).unwrap();
    }
    flows
}

#[test]
fn impossible_len() {
    let mut bytes = Vec::new();
    let mut pipe = Pipe::new(&mut bytes);
    pipe.add(&sample(1)).unwrap();
    pipe.flush().unwrap();
    let mut message = Vec::new();
    for end in 1..bytes.len() {
        let mut stream = &bytes[..end];
        let mut read = || read_message(&mut stream, &mut message);
        // The stream has templates, then data. It ends within one of them or between them.
        let outcome = read().and_then(|_| read());
        assert!(matches!(outcome, Ok(false) | Err(_)), "{end}");
    }
    let mut flows = Vec::new();
    let mut decoder = Decoder::new(None);
    let mut refused = |message: &[u8]| {
        let error = decoder.decode(message, &mut flows).unwrap_err();
        assert_eq!(error.kind(), wirelane::ErrorKind::Failed);
        error.to_string()
    };
    assert_eq!(refused(&[0, 9, 0, 20]), "IPFIX message: version 9 is not IPFIX, which is 10");
    let short = "IPFIX message: a message is shorter than the lengths in it";
    assert_eq!(refused(&[0, 10, 0, 20]), short);
    read_message(&mut &bytes[..], &mut message).unwrap();
    let data = &bytes[message.len()..];
    let missing = "IPFIX message: template 258 was not sent before its data";
    assert_eq!(refused(data), missing);
}

#[test]
fn a_two_way_flow_is_two_records_for_collectors_that_know_one_way() {
    let mut encoder = super::Encoder::new(1232, None, true);
    let flow = sample(7);
    assert_eq!(encoder.add(&flow), [None, None]);
    let message = encoder.flush().unwrap();
    assert_eq!(
        (message.records, message.packets),
        (2, flow.forward.packets + flow.reverse.packets)
    );
}

#[test]
fn a_collector_that_comes_late_gets_every_flow_over_udp() {
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut exporter = start(&format!("udp://{free}?domain=9&enterprise={EXAMPLE}&refresh=1"));
    add(&mut exporter, &samples(0..50));
    while exporter.watch().sent().failures == 0 {
        std::thread::yield_now();
    }
    let collector = UdpSocket::bind(free).unwrap();
    add(&mut exporter, &samples(50..100));
    let sent = finish(exporter);
    assert_eq!((sent.flows, sent.lost), (100, 0), "{sent:?}");
    assert!(sent.last_failure.is_some_and(|it| it.contains("refused")));

    let mut decoder = Decoder::new(Some(EXAMPLE));
    let (mut flows, mut datagram, mut octets) = (Vec::new(), [0; 65_536], 0);
    collector.set_nonblocking(true).unwrap();
    let mut sequences = Vec::new();
    while let Ok(length) = collector.recv(&mut datagram) {
        assert_eq!(datagram[12..16], [0, 0, 0, 9]);
        assert!(length <= 1232);
        octets += length as u64;
        let before = flows.len();
        decoder.decode(&datagram[..length], &mut flows).unwrap();
        if flows.len() > before {
            let sequence = u32::from_be_bytes(datagram[8..12].try_into().unwrap());
            sequences.push((sequence as usize, before));
        }
    }
    assert_eq!(flows, samples(0..100));
    // Refused messages also had sequence numbers.
    let skipped = sequences[0].0;
    assert!(
        sequences.iter().all(|(sequence, before)| sequence - before == skipped),
        "{sequences:?}"
    );
    assert!(octets >= sent.octets, "{octets} of {}", sent.octets);
}

#[test]
fn templates_go_first_on_each_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut exporter = start(&format!("tcp://{}", listener.local_addr().unwrap()));
    for round in 0..2 {
        add(&mut exporter, &samples(round..round + 1));
        let (mut stream, _) = listener.accept().unwrap();
        let (mut decoder, mut flows, mut message) = (Decoder::new(None), Vec::new(), Vec::new());
        while flows.is_empty() {
            assert!(read_message(&mut stream, &mut message).unwrap());
            decoder.decode(&message, &mut flows).unwrap();
        }
        assert_eq!(flows[0].key, sample(round).key);
        // Without an enterprise number there is no element for it.
        assert_eq!(flows[0].handshake_rtt, None);
        if round == 1 {
            let sent = finish(exporter);
            assert_eq!((sent.flows, sent.lost), (2, 0), "{sent:?}");
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            assert!(!rest.is_empty(), "statistics");
            return;
        }
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    // Port 1 of the loopback address refuses connections.
    let collector: Collector = "tcp://127.0.0.1:1".parse().unwrap();
    let limits = Limits {
        spool: 40_000,
        linger: Duration::ZERO,
        patience: Duration::ZERO,
        ..Limits::default()
    };
    let mut exporter = Exporter::start(&collector, limits).unwrap();
    let flows = samples(0..1000);
    add(&mut exporter, &flows);
    assert!(exporter.watch().sent().lost > 0);
    while exporter.watch().sent().failures == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = finish(exporter);
    assert_eq!((sent.flows, sent.lost), (0, 1000), "{sent:?}");
    assert!(sent.failures > 0 && sent.last_failure.is_some());
}

fn start(collector: &str) -> Exporter {
    let limits = Limits {
        linger: Duration::from_millis(1),
        patience: Duration::from_secs(60),
        ..Limits::default()
    };
    Exporter::start(&collector.parse().unwrap(), limits).unwrap()
}

fn samples(numbers: std::ops::Range<u32>) -> Vec<Flow> {
    numbers.map(sample).collect()
}

fn sample(number: u32) -> Flow {
    let start = 1_795_440_000_000_000_000 + u64::from(number) * 1_000_003;
    let half = |packets: u64| Half {
        packets,
        octets: packets * 100,
        payload: packets * 60,
        start,
        end: start + 5_000_000,
        tcp_flags: TcpFlags::SYN.with(TcpFlags::ACK),
        min_ttl: 64,
        max_ttl: 64,
        ..Half::default()
    };
    Flow {
        key: Key {
            source: Ipv4Addr::from(0x0a00_0000 + number).into(),
            destination: Ipv4Addr::new(192, 0, 2, 1).into(),
            source_port: 40_000,
            destination_port: 443,
            protocol: Protocol::TCP,
            vlan: None,
            inner_vlan: None,
            tunnel: None,
        },
        forward: half(u64::from(number) + 1),
        reverse: half(2),
        handshake_rtt: None,
        end: EndReason::Ended,
        interface: "eth0".into(),
        community: [0; 20],
    }
}

fn add(exporter: &mut Exporter, flows: &[Flow]) {
    flows.iter().for_each(|flow| exporter.add(flow).unwrap());
}

/// Finishes the exporter and returns its counts. [`Sink::finish`] fails if flows were lost.
fn finish(mut exporter: Exporter) -> Sent {
    let outcome = exporter.finish();
    let sent = exporter.watch().sent();
    assert_eq!(outcome.is_err(), sent.lost > 0);
    sent
}
