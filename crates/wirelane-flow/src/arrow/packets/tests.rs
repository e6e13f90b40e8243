use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array as _, RecordBatch};
use wirelane_pcap::{Class, Direction, LINK_TYPE_ETHERNET};
use wirelane_wire::{Icmpv4, MacAddr, Protocol, Tcp, TcpFlags, packet};

use super::*;

fn frame(packet: &packet::Packet<'_>) -> Vec<u8> {
    let mut frame = vec![0; packet.len()];
    packet.emit(&mut frame).unwrap();
    frame
}

fn link() -> packet::Link {
    packet::ethernet(MacAddr([2, 0, 0, 0, 0, 0xa1]), MacAddr([2, 0, 0, 0, 0, 0xb2]))
}

fn record(timestamp: u64, data: &[u8]) -> Record<'_> {
    let original_len = data.len() as u32;
    Record { interface: 7, timestamp, original_len, direction: Direction::Unknown, data }
}

fn batch(packets: &mut Packets, frames: &[Vec<u8>]) -> RecordBatch {
    let interface = packets.interface(&Source::new("eth0", Class::Rx, Some(3)));
    for (time, frame) in (1..).zip(frames) {
        packets.push(interface, &record(time, frame));
    }
    packets.finish().unwrap()
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> Vec<Option<&'a str>> {
    batch.column_by_name(name).unwrap().as_string_view().iter().collect()
}

fn number(batch: &RecordBatch, name: &str) -> Vec<Option<u64>> {
    let column = batch.column_by_name(name).unwrap();
    match column.data_type() {
        arrow_schema::DataType::UInt8 => {
            column.as_primitive::<UInt8Type>().iter().map(|it| it.map(u64::from)).collect()
        }
        arrow_schema::DataType::UInt16 => {
            column.as_primitive::<UInt16Type>().iter().map(|it| it.map(u64::from)).collect()
        }
        _ => column.as_primitive::<UInt32Type>().iter().map(|it| it.map(u64::from)).collect(),
    }
}

#[test]
fn every_header_has_its_columns() {
    let segment = Tcp {
        sequence: 1_000_000,
        acknowledgment: 2_000_000,
        window: 512,
        flags: TcpFlags::SYN.with(TcpFlags::ACK),
        ..Tcp::between(4000, 443)
    };
    let v6 = link().vlan(5).vlan(6);
    let v6 = v6.ipv6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let v4 = link().ipv4([192, 0, 2, 1].into(), [198, 51, 100, 200].into());
    let frames = [
        frame(&v6.dscp(46).ecn(2).ttl(9).tcp(segment, b"hello")),
        frame(&v4.icmp(Icmpv4::Other { message_type: 3, code: 1, rest: [0; 4] }, b"")),
        vec![0; 9],
    ];
    let batch = batch(&mut Packets::new(), &frames);
    assert_eq!(batch.num_columns(), field::ALL.len() - 1);
    let time = batch.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
    assert_eq!(time.values()[..], [1, 2, 3]);
    assert_eq!(text(&batch, "interface"), [Some("eth0"); 3]);
    assert_eq!(text(&batch, "class"), [Some("rx"); 3]);
    assert_eq!(text(&batch, "source"), [Some("2001:db8::1"), Some("192.0.2.1"), None]);
    assert_eq!(text(&batch, "destination"), [Some("2001:db8::2"), Some("198.51.100.200"), None]);
    let mac = Some("02:00:00:00:00:a1");
    assert_eq!(text(&batch, "source_mac"), [mac, mac, None]);
    assert_eq!(text(&batch, "destination_mac")[1], Some("02:00:00:00:00:b2"));
    assert_eq!(text(&batch, "tunnel"), [None; 3]);
    let octets = |frame: &[u8], link: usize| Some((frame.len() - link) as u64);
    for (name, values) in [
        ("queue", [Some(3); 3]),
        ("length", [octets(&frames[0], 0), octets(&frames[1], 0), Some(9)]),
        ("captured", [octets(&frames[0], 0), octets(&frames[1], 0), Some(9)]),
        ("ethertype", [Some(0x86dd), Some(0x800), None]),
        ("vlan", [Some(5), None, None]),
        ("inner_vlan", [Some(6), None, None]),
        ("ip_version", [Some(6), Some(4), None]),
        ("protocol", [Some(6), Some(1), None]),
        ("source_port", [Some(4000), None, None]),
        ("destination_port", [Some(443), None, None]),
        ("octets", [octets(&frames[0], 22), octets(&frames[1], 14), None]),
        ("payload", [Some(5), Some(0), None]),
        ("ttl", [Some(9), Some(64), None]),
        ("dscp", [Some(46), Some(0), None]),
        ("ecn", [Some(2), Some(0), None]),
        ("fragment_offset", [None; 3]),
        ("tcp_flags", [Some(0x12), None, None]),
        ("tcp_sequence", [Some(1_000_000), None, None]),
        ("tcp_acknowledgment", [Some(2_000_000), None, None]),
        ("tcp_window", [Some(512), None, None]),
        ("icmp_type", [None, Some(3), None]),
        ("icmp_code", [None, Some(1), None]),
        ("tunnel_id", [None; 3]),
    ] {
        assert_eq!(number(&batch, name), values, "{name}");
    }
}

/// A packet and its flow have the same ID: in both directions, also for fragments and ICMP.
#[test]
fn community_ids_are_those_of_flows() {
    use crate::{Meter, MeterConfig, Packet, Room, write_community_id};
    let ends = [[10, 0, 0, 9], [10, 0, 0, 1]];
    let ip = |[from, to]: [[u8; 4]; 2]| link().ipv4(from.into(), to.into());
    let back = [ends[1], ends[0]];
    let mut fragment = frame(&ip(ends).udp(1000, 53, b"some words"));
    fragment[20] = 0x20;
    let mut later =
        frame(&ip(ends).icmp(Icmpv4::Other { message_type: 8, code: 0, rest: [0; 4] }, b""));
    later[21] = 9;
    let icmp = |ends, message_type, code| {
        frame(&ip(ends).icmp(Icmpv4::Other { message_type, code, rest: [0; 4] }, b""))
    };
    let v6 = link().ipv6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let frames = [
        frame(&ip(ends).udp(1000, 53, b"")),
        frame(&ip(back).udp(53, 1000, b"")),
        frame(&v6.tcp(Tcp::between(4000, 443), b"")),
        frame(&ip(ends).other(Protocol(89), b"hello")),
        icmp(ends, 8, 0),
        icmp(back, 0, 0),
        icmp(ends, 3, 1),
        fragment,
        later,
        vec![0; 9],
    ];
    let batch = batch(&mut Packets::of(&["community_id"]).unwrap(), &frames);
    let found = text(&batch, "community_id");
    for (frame, found) in frames.iter().zip(&found) {
        let config = MeterConfig { idle: Duration::from_secs(1), active: Duration::from_secs(1) };
        let mut meter = Meter::new(config, Arc::new(Room::new(10)), 7);
        let interface = meter.interface("eth0");
        let original_len = frame.len() as u32;
        let (link_type, time, queue) = (1, 1, 0);
        meter.push(&Packet { link_type, data: frame, original_len, time, interface, queue });
        meter.flush();
        while meter.finish(1) {}
        let mut flows = Vec::new();
        meter.take(&mut flows);
        let expected = flows.first().map(|flow| {
            let mut text = Vec::new();
            write_community_id(&flow.community, &mut text);
            String::from_utf8(text).unwrap()
        });
        assert_eq!(*found, expected.as_deref());
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[4], found[5]);
    assert_eq!(found[9], None);
}

#[test]
fn a_tunnel_without_a_number_has_none() {
    let inner = frame(&link().ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).udp(1, 2, b""));
    let outer = || link().ipv4([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let wrapped =
        |protocol, header: &[u8]| frame(&outer().other(protocol, &[header, &inner[14..]].concat()));
    let frames = [
        wrapped(Protocol::GRE, &[0, 0, 8, 0]),
        wrapped(Protocol::GRE, &[0x20, 0, 8, 0, 0, 0, 0, 0]),
        wrapped(Protocol::IPV4, &[]),
        // The innermost one counts.
        wrapped(
            Protocol::GRE,
            &[&[0x20, 0, 8, 0, 0, 0, 0, 5][..], &wrapped(Protocol::GRE, &[0, 0, 8, 0])[14..]]
                .concat(),
        ),
    ];
    let batch = batch(&mut Packets::new(), &frames);
    assert_eq!(text(&batch, "tunnel"), [Some("gre"), Some("gre"), Some("ip"), Some("gre")]);
    assert_eq!(number(&batch, "tunnel_id"), [None, Some(0), None, None]);
}

/// More texts than the table has places, over batches and over rows that become columns at once.
#[test]
fn any_number_of_addresses_comes_out_as_it_went_in() {
    let mut packets = Packets::of(&["source"]).unwrap();
    for round in 0..3_u8 {
        let address = |number: u32| [10, round, (number >> 8) as u8, number as u8];
        let frames: Vec<_> = (0..10_000)
            .map(|number| number * 7919 % 3001)
            .map(|number| {
                frame(&link().ipv4(address(number).into(), [1, 1, 1, 1].into()).udp(1, 2, b""))
            })
            .collect();
        let batch = batch(&mut packets, &frames);
        let found = text(&batch, "source");
        assert_eq!(found.len(), frames.len());
        for (number, found) in (0..10_000).map(|number| number * 7919 % 3001).zip(found) {
            let [a, b, c, d] = address(number);
            assert_eq!(found, Some(format!("{a}.{b}.{c}.{d}").as_str()));
        }
    }
}

#[test]
fn columns_come_in_the_order_of_their_names() {
    let frames =
        [frame(&link().ipv4([1, 2, 3, 4].into(), [5, 6, 7, 8].into()).udp(9, 10, b"data"))];
    let names = ["data", "destination_port", "time"];
    let batch = batch(&mut Packets::of(&names).unwrap(), &frames);
    let found: Vec<_> = batch.schema().fields().iter().map(|it| it.name().clone()).collect();
    assert_eq!(found, names);
    assert_eq!(batch.column(0).as_binary_view().value(0), frames[0]);
    let error = Packets::of(&["port"]).err().unwrap().to_string();
    assert!(error.contains("no column \"port\""), "{error}");
}

#[test]
fn a_batch_without_columns_has_rows() {
    let none: [&str; 0] = [];
    let batch = batch(&mut Packets::of(&none).unwrap(), &vec![vec![0; 60]; 300]);
    assert_eq!((batch.num_rows(), batch.num_columns()), (300, 0));
}

#[test]
fn interfaces_are_told_apart() {
    let mut packets = Packets::of(&["interface", "queue", "class"]).unwrap();
    let unnamed = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
    let sources =
        [Source::new("a", Class::Tx, None), unnamed, Source::new("a", Class::Rx, Some(1))];
    for source in sources.iter().chain(&sources) {
        let number = packets.interface(source);
        packets.push(number, &Record { direction: Direction::Outbound, ..record(0, &[]) });
    }
    packets.push(3, &record(0, &[]));
    let batch = packets.finish().unwrap();
    let twice = |values: [Option<&'static str>; 3]| [values, values].concat();
    assert_eq!(text(&batch, "interface"), twice([Some("a"), None, Some("a")]));
    assert_eq!(text(&batch, "class"), twice([Some("tx"), Some("tx"), Some("rx")]));
    assert_eq!(number(&batch, "queue")[..3], [None, None, Some(1)]);
}
