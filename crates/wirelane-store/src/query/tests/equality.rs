//! Answers equal tcpdump's for the segments merged into one file, byte for byte.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::Index as Choice;
use wirelane_filter::{Filter, Interpreter, Metadata, compile};
use wirelane_pcap::pcap::{self, Resolution};
use wirelane_pcap::{CaptureReader, Compression, LINK_TYPE_ETHERNET, Record, Source, merge_files};
use wirelane_testkit::tools;

use super::ask;
use super::stores::{Packet, SegmentFile, in_order, store};
use crate::query::{Query, run};

#[path = "../../../../wirelane-filter/tests/filter/corpus.rs"]
mod corpus;
#[path = "../../../../wirelane-filter/tests/filter/dice.rs"]
mod dice;
#[path = "../../../../wirelane-filter/tests/filter/packets.rs"]
mod packets;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_795_400_504 * SECOND;
const KINDS: [Option<Compression>; 3] = [None, Some(Compression::Lz4), Some(Compression::Zstd)];

/// Expressions for Ethernet.
fn expressions() -> Vec<String> {
    let all = corpus::expressions().into_iter();
    all.filter(|one| one.link_type == LINK_TYPE_ETHERNET).map(|one| one.text).collect()
}

/// The corpus of packets, over three lanes with several segments each, whose times overlap.
fn segments(compression: Option<Compression>) -> Vec<SegmentFile> {
    let mut dice = dice::Dice::new(3);
    let mut lanes = vec![Vec::new(); 3];
    for (at, data) in packets::corpus().into_iter().enumerate() {
        // Equal times, and a clock that jumps back now and then.
        let jump = if at % 97 == 0 { 40 } else { 0 };
        let time = START + (at as u64 / 5).saturating_sub(jump) * SECOND / 16;
        let mut packet = Packet::new(at as u32 % 2, time, &data);
        packet.original_len += dice.below(3) * 700;
        lanes[dice.below(3) as usize].push(packet);
    }
    let mut segments = Vec::new();
    for (lane, packets) in (0..).zip(lanes) {
        let extents: Vec<_> = packets.chunks(12).map(<[_]>::to_vec).collect();
        for (round, extents) in (0..).zip(extents.chunks(9)) {
            let number = round * 3 + u64::from(lane);
            let new = SegmentFile::new(number, extents.to_vec());
            segments.push(SegmentFile { lane, compression, ..new });
        }
    }
    segments
}

/// Classic pcap in nanoseconds.
struct Pcap(Vec<u8>);

impl Pcap {
    fn new() -> Self {
        let source =
            Source { link_type: LINK_TYPE_ETHERNET, snaplen: 262_144, ..Source::default() };
        let mut bytes = Vec::new();
        pcap::file_header(&mut bytes, Resolution::Nanoseconds, &source);
        Self(bytes)
    }

    fn push(&mut self, record: &Record<'_>) {
        pcap::packet(&mut self.0, Resolution::Nanoseconds, record);
    }
}

/// tcpdump's output for a file; `None` if it refuses the expression for files.
fn tcpdump(path: &Path, expression: &str) -> Option<Vec<u8>> {
    let output = Command::new("tcpdump")
        .args(["--time-stamp-precision=nano", "-r", "-", "-w", "-", "--", expression])
        .stdin(File::open(path).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_refused = errors.contains("not supported on Ethernet when reading savefiles");
    assert!(output.status.success() || is_refused, "{expression}: {errors}");
    (!is_refused).then_some(output.stdout)
}

/// A packet as the kernel's filter sees it, without the outer tag, and whether it had one.
fn untagged(packet: &Packet) -> (Packet, bool) {
    let mut packet = packet.clone();
    let is_tagged = packet.data.len() >= 16
        && matches!(packet.data.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
    if is_tagged {
        packet.data.drain(12..16);
        packet.original_len -= 4;
    }
    (packet, is_tagged)
}

/// tcpdump's answer on an interface, derived from its answer on files: packets have their tags
/// removed, and are numbered by their times. Expressions on tags, and packets of other link types,
/// are answered by the program alone.
fn answer_of_tcpdump(packets: &[&Packet], scratch: &Path, expression: &str) -> Option<Vec<u8>> {
    let path = scratch.join("numbered.pcap");
    let mut file = Pcap::new();
    for (number, packet) in (0..).zip(packets) {
        let packet = Packet { time: number, ..untagged(packet).0 };
        file.push(&packet.record());
    }
    std::fs::write(&path, file.0).unwrap();
    let output = tcpdump(&path, expression)?;
    let path = scratch.join("answer.pcap");
    std::fs::write(&path, output).unwrap();
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut accepted = std::collections::HashSet::new();
    while let Some(record) = reader.next_record().unwrap() {
        accepted.insert(record.timestamp);
    }
    let program = compile(expression, LINK_TYPE_ETHERNET, 262_144).unwrap();
    let interpreter = Interpreter::new(&program).unwrap();
    let mut answer = Pcap::new();
    for (number, packet) in (0..).zip(packets) {
        let asks_tag = untagged(packet).1 && expression.contains("vlan");
        let is_accepted = if asks_tag || packet.data.len() < 16 {
            let (data, wire_len) = (&packet.data[..], packet.original_len);
            interpreter.run(&wirelane_filter::Packet { data, wire_len, ..Default::default() }) != 0
        } else {
            accepted.contains(&number)
        };
        if is_accepted {
            answer.push(&packet.record());
        }
    }
    Some(answer.0)
}

#[test]
fn answers_are_those_of_tcpdump_for_every_expression() {
    if !tools::require("tcpdump") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let plain = segments(None);
    let plain = [&plain[..]];
    let merged = in_order(&plain);
    let merged: Vec<_> = merged.iter().collect();
    let stores = KINDS.map(|kind| {
        let name = kind.map_or("plain", Compression::name);
        store(&scratch.path().join(name), &segments(kind))
    });
    let (mut asked, mut found, mut extents, mut read) = (0, 0, 0, 0);
    for expression in expressions().iter().step_by(3) {
        let Some(expected) = answer_of_tcpdump(&merged, scratch.path(), expression) else {
            continue;
        };
        for store in &stores {
            let filter = Some(expression.parse::<Filter>().unwrap());
            let mut answer = Pcap::new();
            let query = Query { filter, threads: 1, ..Query::all() };
            let report = run(std::slice::from_ref(store), &query, |packet| {
                answer.push(&packet.record);
                ControlFlow::Continue(())
            });
            let report = report.unwrap();
            let name = store.path().display();
            assert!(answer.0 == expected, "{expression} of {name}");
            assert_eq!(report.damage, []);
            found += report.packets;
            (extents, read) = (extents + report.extents, read + report.extents_read);
        }
        asked += 1;
    }
    let _ = writeln!(
        std::io::stderr(),
        "{asked} expressions, {found} packets, {read} of {extents} extents"
    );
    assert!(asked >= 200 && found > 10_000, "{asked} {found}");
    assert!(read < extents * 9 / 10, "the index narrows: {read} of {extents}");
}

#[test]
fn the_whole_store_is_what_merging_its_segments_gives() {
    let scratch = tempfile::tempdir().unwrap();
    // Merging keeps the order of a file, so no clock may jump back here.
    let mut segments = segments(Some(Compression::Lz4));
    for segment in &mut segments {
        let mut packets: Vec<_> = segment.packets().cloned().collect();
        packets.sort_by_key(|packet| packet.time);
        segment.extents = packets.chunks(10).map(<[_]>::to_vec).collect();
    }
    let directory = store(&scratch.path().join("store"), &segments);
    let mut inputs: Vec<_> = segments
        .iter()
        .map(|segment| (segment.number, segment.write(directory.path()).file_name()))
        .collect();
    inputs.sort();
    let inputs: Vec<_> = inputs.iter().map(|(_, name)| directory.path().join(name)).collect();
    let merged = scratch.path().join("merged.pcapng");
    let report = merge_files(&inputs, &merged, &Default::default()).unwrap();
    assert!(report.failure.is_none());
    let mut reader = CaptureReader::open(&merged).unwrap();
    let (found, _) = ask(&[directory], &Query::all());
    for packet in &found {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.timestamp, record.original_len), (packet.time, packet.original_len));
        assert_eq!(record.data, packet.data);
    }
    assert!(reader.next_record().unwrap().is_none());
    assert!(found.len() > 500);
}

/// Index of a packet, a damaged byte, the cut length, and the time.
type Captured = (Choice, Option<(Choice, u8)>, Choice, u64);

/// Packets of the corpus, some damaged or cut, in segments of any shape.
fn captures() -> impl Strategy<Value = Vec<Captured>> {
    let damage = proptest::option::weighted(0.3, (any::<Choice>(), any::<u8>()));
    proptest::collection::vec((any::<Choice>(), damage, any::<Choice>(), 0..200u64), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn answers_over_random_captures_are_exact(
        captures in captures(),
        shape in proptest::collection::vec((1..20usize, 1..4usize, 0..3usize, any::<bool>()), 6),
        expression in any::<Choice>(),
        from in proptest::option::of(0..200u64),
        to in proptest::option::of(0..200u64),
    ) {
        let corpus = packets::corpus();
        let packet = |(which, damage, cut, time): Captured| {
            let mut data = which.get(&corpus).clone();
            let original_len = data.len() as u32;
            if let Some((at, value)) = damage.filter(|_| !data.is_empty()) {
                let at = at.index(data.len());
                data[at] = value;
                data.truncate(data.len() - cut.index(data.len()) / 2);
            }
            Packet { original_len, ..Packet::new(time as u32 % 2, time, &data) }
        };
        let packets: Vec<_> = captures.into_iter().map(packet).collect();
        let (mut rest, mut segments) = (&packets[..], Vec::new());
        for (number, (size, count, kind, indexed)) in (0..).zip(shape.into_iter().cycle()) {
            let len = (size * count).min(rest.len());
            let (now, later) = rest.split_at(len);
            let extents = now.chunks(size).map(<[_]>::to_vec).collect();
            let new = SegmentFile::new(number, extents);
            segments.push(SegmentFile { compression: KINDS[kind], indexed, ..new });
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let expressions = expressions();
        let text = expression.get(&expressions);
        let program = compile(text, LINK_TYPE_ETHERNET, 262_144).unwrap();
        let interpreter = Interpreter::new(&program).unwrap();
        let query = Query {
            from,
            to,
            filter: Some(text.parse().unwrap()),
            threads: 1,
            ..Query::all()
        };
        let scratch = tempfile::tempdir().unwrap();
        let (found, report) = ask(&[store(scratch.path(), &segments)], &query);
        let expected: Vec<_> = in_order(&[&segments])
            .into_iter()
            .filter(|packet| query.includes(packet.time))
            .filter(|packet| {
                let (data, wire_len) = (&packet.data[..], packet.original_len);
                // The second interface has sent packets.
                let packet_type = if packet.interface == 1 { 4 } else { 0 };
                let metadata = Metadata { packet_type, ..Metadata::default() };
                let packet = wirelane_filter::Packet { data, wire_len, metadata };
                interpreter.run(&packet) != 0
            })
            .collect();
        prop_assert_eq!(found, expected, "{}", text);
        prop_assert_eq!(report.damage, []);
    }
}

#[test]
fn what_was_sent_is_told_from_what_was_received() {
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments(None))];
    let ask = |text: &str| {
        let filter = Some(text.parse().unwrap());
        ask(&stores, &Query { filter, ..Query::all() }).0
    };
    let (received, sent) = (ask("inbound"), ask("outbound"));
    assert!(received.iter().all(|packet| packet.interface == 0) && received.len() > 300);
    assert!(sent.iter().all(|packet| packet.interface == 1) && sent.len() > 300);
    assert_eq!(received.len() + sent.len(), packets::corpus().len());
}
