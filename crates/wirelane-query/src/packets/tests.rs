use std::collections::BTreeSet;
use std::net::IpAddr;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{UInt8Type, UInt16Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, in_list, lit};
use datafusion::prelude::ident;
use wirelane_flow::arrow::Packets;
use wirelane_pcap::{Class, Direction, Record, Source};
use wirelane_store::{Field, Keys, keys};
use wirelane_wire::{MacAddr, Tcp, packet};

use super::ask::{AddressSide, Ask};
use super::asked::PacketSelection;
use super::bpf as function;
use super::sieve::{LinkFilters, check};

fn time(nanoseconds: i64) -> Expr {
    lit(ScalarValue::TimestampNanosecond(Some(nanoseconds), Some("UTC".into())))
}

fn bpf(text: &str) -> Expr {
    function().call(vec![lit(text)])
}

fn address(side: AddressSide, text: &str) -> Ask {
    Ask::Address(side, text.parse().unwrap())
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let between = |conditions: &[Expr]| {
        let asked = PacketSelection::of(conditions);
        assert!(conditions.iter().all(PacketSelection::keeps));
        (asked.from, asked.to)
    };
    assert_eq!(between(&[ident("time").gt(time(5))]), (Some(6), None));
    assert_eq!(between(&[time(5).lt_eq(ident("time"))]), (Some(5), None));
    assert_eq!(between(&[ident("time").lt(time(5)), ident("time").lt(time(4))]), (None, Some(4)));
    assert_eq!(between(&[ident("time").lt_eq(time(5))]), (None, Some(6)));
    assert_eq!(between(&[ident("time").eq(time(5))]), (Some(5), Some(6)));
    assert_eq!(between(&[ident("time").gt_eq(time(-5))]), (Some(0), None));
    assert_eq!(between(&[ident("time").lt(time(-5))]), (None, Some(0)));
    assert_eq!(between(&[ident("time").lt_eq(time(i64::MAX))]), (None, None));
    assert!(!PacketSelection::keeps(&ident("time").not_eq(time(5))));
    assert!(!PacketSelection::keeps(&ident("time").lt(time(5)).or(ident("time").gt(time(7)))));
}

#[test]
fn expressions_are_kept_beside_each_other() {
    let asked = PacketSelection::of(&[bpf("udp"), Expr::Not(Box::new(bpf("port 53")))]);
    assert_eq!(asked.filters, ["udp", "not (port 53)"]);
    assert!(!PacketSelection::keeps(&bpf("udp").or(bpf("tcp"))));
}

#[test]
fn conditions_become_what_an_index_knows() {
    let ask = |condition: Expr| PacketSelection::of(&[condition]).ask;
    let here = address(AddressSide::Source, "10.0.0.1");
    let there = address(AddressSide::Destination, "2001:db8::1");
    let source = ident("source").eq(lit("10.0.0.1"));
    let destination = ident("destination").eq(lit("2001:db8::1"));
    let either = Ask::Any(vec![here.clone(), there.clone()]);
    assert_eq!(ask(source.clone().or(destination.clone())), Some(either));
    let both = Ask::All(vec![here.clone(), there]);
    assert_eq!(PacketSelection::of(&[source.clone(), destination]).ask, Some(both));
    let ports = in_list(ident("source_port"), vec![lit(53_u16), lit(80_u16)], false);
    let port = |port| Ask::Port(AddressSide::Source, port);
    assert_eq!(ask(ports), Some(Ask::Any(vec![port(53), port(80)])));
    // With AND, the engine checks unknown conditions. With OR, an unknown condition makes the whole
    // condition unknown.
    let unknown = ident("length").gt(lit(100_u32));
    assert_eq!(ask(source.clone().and(unknown.clone())), Some(here));
    assert_eq!(ask(source.clone().or(unknown)), None);
    assert_eq!(ask(ident("source").not_eq(lit("10.0.0.1"))), None);
    assert_eq!(ask(ident("source").eq(lit("example"))), None);
    assert_eq!(ask(Expr::Not(Box::new(source))), None);
}

#[test]
fn wrong_expressions_are_named() {
    let error = check("udp and").unwrap_err().to_string();
    assert!(error.starts_with("bpf('udp and'): ") && error.contains("wirelane filter"), "{error}");
    check("udp and port 53").unwrap();
}

/// Packets of all kinds, some with headers that the index does not parse.
fn frames() -> Vec<Vec<u8>> {
    let link = packet::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let build = |packet: &packet::Packet<'_>| {
        let mut frame = vec![0; packet.len()];
        packet.emit(&mut frame).unwrap();
        frame
    };
    let v4 = link.ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let (one, two) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let v6 = link.ipv6(one, two);
    let deep = link.ipv4([172, 16, 0, 1].into(), [172, 16, 0, 2].into());
    let deep = build(&deep.tcp(Tcp::between(1111, 2222), b"inside"));
    let tag = |id: u8| [0x81, 0x00, 0x00, id];
    let tagged =
        |tags: &[[u8; 4]], frame: &[u8]| [&frame[..12], &tags.concat(), &frame[12..]].concat();
    let plain = build(&v4.udp(1000, 53, b"data"));
    let mut frames = vec![
        plain.clone(),
        build(&v4.tcp(Tcp::between(40_000, 443), b"data")),
        build(&v6.tcp(Tcp::between(40_000, 443), b"data")),
        build(&v6.udp(1000, 53, b"data")),
        tagged(&[tag(5)], &plain),
        tagged(&[tag(5), tag(6)], &plain),
        tagged(&[tag(5), tag(6), tag(7)], &plain),
        plain[..40].to_vec(),
        plain[..20].to_vec(),
    ];
    // VXLAN (RFC 7348), on both ports.
    for port in [4789, 8472] {
        let bytes = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &deep].concat();
        frames.push(build(&v4.udp(5000, port, &bytes)));
        frames.push(build(&v6.udp(5000, port, &bytes)));
    }
    // Geneve (RFC 8926), with a frame of Ethernet.
    frames.push(build(&v4.udp(5000, 6081, &[&[0, 0, 0x65, 0x58, 0, 0, 7, 0][..], &deep].concat())));
    // IP in IP, GRE, and headers in front of UDP. IPv4 checksums are not updated.
    let carried = |frame: &[u8], protocol: u8, bytes: &[u8]| {
        let mut frame = frame[..14 + if frame[12] == 8 { 20 } else { 40 }].to_vec();
        let length = bytes.len() as u16;
        if frame[12] == 8 {
            frame[23] = protocol;
            frame[16..18].copy_from_slice(&(length + 20).to_be_bytes());
        } else {
            frame[20] = protocol;
            frame[18..20].copy_from_slice(&length.to_be_bytes());
        }
        [&frame[..], bytes].concat()
    };
    let six = build(&v6.udp(1, 2, b""));
    let udp = &plain[34..];
    let gre = [&[0, 0, 8, 0][..], &deep[14..]].concat();
    for frame in [&plain, &six] {
        frames.push(carried(frame, 4, &deep[14..]));
        frames.push(carried(frame, 47, &gre));
        for protocol in [33, 132, 136] {
            frames.push(carried(frame, protocol, udp));
        }
    }
    for extension in [0, 43, 60] {
        frames.push(carried(&six, extension, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], udp].concat()));
        let tunnel = [&[4, 0, 1, 4, 0, 0, 0, 0][..], &deep[14..]].concat();
        frames.push(carried(&six, extension, &tunnel));
    }
    frames.push(carried(&six, 44, &[&[17, 0, 0, 0, 0, 0, 0, 1][..], udp].concat()));
    frames.push(carried(&six, 51, &[&[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], udp].concat()));
    frames
        .iter()
        .skip(4)
        .take(2)
        .map(|frame| tagged(&[tag(9)], frame))
        .collect::<Vec<_>>()
        .into_iter()
        .chain(frames)
        .collect()
}

/// The column values of a packet, as conditions that it fulfils.
fn asks(batch: &RecordBatch) -> Vec<Ask> {
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let mut asks = Vec::new();
    for (name, side) in [("source", AddressSide::Source), ("destination", AddressSide::Destination)]
    {
        let texts = column(name).as_string_view();
        let found = texts.iter().flatten().map(|text| text.parse::<IpAddr>().unwrap());
        asks.extend(found.map(|it| Ask::Address(side, it)));
        let ports = column(&format!("{name}_port")).as_primitive::<UInt16Type>();
        asks.extend(ports.iter().flatten().map(|it| Ask::Port(side, it)));
    }
    asks.extend(column("protocol").as_primitive::<UInt8Type>().iter().flatten().map(Ask::Protocol));
    asks.extend(column("vlan").as_primitive::<UInt16Type>().iter().flatten().map(Ask::Vlan));
    asks.push(Ask::All(asks.clone()));
    asks.push(Ask::Any(asks.clone()));
    asks
}

fn holds(keys: &Keys, there: &BTreeSet<(Field, u128)>) -> bool {
    match keys {
        Keys::Term(term) => {
            there.range((term.field, term.first)..=(term.field, term.last)).next().is_some()
        }
        Keys::All(all) => all.iter().all(|keys| holds(keys, there)),
        Keys::Any(any) => any.iter().any(|keys| holds(keys, there)),
    }
}

/// Neither the index nor the filter leaves out a packet whose columns fulfil a condition; both
/// leave out others.
#[test]
fn what_is_asked_lets_every_row_through() {
    let other =
        Ask::All(vec![address(AddressSide::Source, "10.9.9.9"), Ask::Port(AddressSide::Source, 9)]);
    let (mut conditions, mut left_out) = (0, 0);
    for link_type in [1, 113] {
        let source = Source { link_type, ..Source::new("eth0", Class::Rx, Some(1)) };
        for frame in frames() {
            // The header of a cooked capture ends with the type, too.
            let frame = if link_type == 1 { frame } else { [&[0; 2][..], &frame].concat() };
            let original_len = frame.len() as u32;
            let direction = Direction::Unknown;
            let record =
                Record { interface: 0, timestamp: 1, original_len, direction, data: &frame };
            let mut packets = Packets::new();
            let interface = packets.interface(&source);
            packets.push(interface, &record);
            let batch = packets.finish().unwrap();
            let mut there = BTreeSet::new();
            keys(link_type, &frame, |field, value| {
                there.insert((field, value));
            });
            for ask in asks(&batch) {
                conditions += 1;
                assert!(holds(&ask.keys(), &there), "{link_type} {ask:?} {frame:x?}");
                let expression = ask.expression();
                let mut sieve = LinkFilters::new(&[], expression.as_deref()).unwrap();
                assert!(sieve.accepts(&record, &source), "{link_type} {ask:?} {frame:x?}");
            }
            let mut sieve = LinkFilters::new(&[], other.expression().as_deref()).unwrap();
            let is_sieved = !sieve.accepts(&record, &source);
            left_out += usize::from(is_sieved && !holds(&other.keys(), &there));
            assert_eq!(batch.num_rows(), 1);
        }
    }
    assert!(conditions > 300 && left_out > 5, "{conditions} {left_out}");
}
