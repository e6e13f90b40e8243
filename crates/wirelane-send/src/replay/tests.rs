//! Replaying whole files.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source as Interface, WriterOptions};
use wirelane_gen::PacketSource;
use wirelane_gen::rewrite::{Rewrite, Rule, VlanRule};
use wirelane_testkit::packets;
use wirelane_wire::checksum::{self, Sum};
use wirelane_wire::{FlowKey, MacAddr};

use super::*;

/// A packet of a file: its timestamp, the number of bytes that a snap length has cut, its bytes.
type Captured = (u64, u32, Vec<u8>);

/// Times and bytes of the packets of a lane.
type Sent = Vec<(u64, Vec<u8>)>;

fn write(path: &Path, link_type: u16, fcs_len: Option<u8>, packets: &[Captured]) {
    let interface = Interface { link_type, fcs_len, ..Interface::default() };
    let mut writer =
        CaptureWriter::create(path, &[interface], WriterOptions::of_path(path), 0).unwrap();
    for (timestamp, cut, data) in packets {
        let original_len = data.len() as u32 + cut;
        let direction = Direction::Unknown;
        let record = Record { interface: 0, timestamp: *timestamp, original_len, direction, data };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// A directory with a capture file.
fn file(packets: &[Captured]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    write(&path, 1, None, packets);
    (directory, path)
}

/// The times and packets of each lane, and the error of the first lane that failed.
fn sent(config: &ReplayConfig, lanes: u32) -> (Vec<Sent>, Option<String>) {
    let mut replay = Replay::open(config, lanes).unwrap();
    let mut failure = None;
    let lanes = replay.take_lanes().into_iter().map(|mut lane| {
        // Reads all lanes in parallel: a lane that is not drained blocks the others.
        std::thread::spawn(move || {
            let mut sent = Vec::new();
            loop {
                match lane.next() {
                    Ok(Some(departure)) => {
                        assert_eq!(lane.next().ok().flatten(), Some(departure));
                        let mut bytes = vec![0xaa; departure.len + 3];
                        lane.write(&mut bytes, 0);
                        assert_eq!(bytes.split_off(departure.len), [0xaa; 3]);
                        sent.push((departure.at, bytes));
                    }
                    Ok(None) => return (sent, None),
                    Err(error) => return (sent, Some(error.to_string())),
                }
            }
        })
    });
    let threads: Vec<_> = lanes.collect();
    let lanes = threads.into_iter().map(|thread| {
        let (sent, error) = thread.join().unwrap();
        failure = failure.take().or(error);
        sent
    });
    (lanes.collect(), failure)
}

fn one_lane(config: &ReplayConfig) -> Sent {
    let (mut lanes, failure) = sent(config, 1);
    assert_eq!(failure, None);
    lanes.remove(0)
}

fn times(config: &ReplayConfig) -> Vec<u64> {
    one_lane(config).into_iter().map(|(at, _)| at).collect()
}

/// Eight flows, in both directions, with numbered packets.
fn flows(count: u64) -> Vec<Captured> {
    let packet = |number: u64| {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let back = number.is_multiple_of(3);
        let (from, to) = if back { (b, a) } else { (a, b) };
        packets::udp4(number).addresses(from, to).flow((number * 7 % 8) as u16).build()
    };
    (0..count).map(|number| (1_000_000 + number * 1000, 0, packet(number))).collect()
}

#[test]
fn timing_is_exact_across_loops_and_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str, times: &[u64]| {
        let path = directory.path().join(name);
        let frame = |time: &u64| (*time, 0, packets::udp4(*time).build());
        write(&path, 1, None, &times.iter().map(frame).collect::<Vec<_>>());
        path
    };
    // The second file continues the first, as files of one capture. The third is from another day.
    let base = 1_700_000_000_000_000_000;
    let day = 86_400_000_000_000;
    let files = vec![
        at("a.pcapng", &[base, base + 100]),
        at("b.pcap.gz", &[base + 3000]),
        at("c.pcapng.zst", &[base - day, base - day + 2000]),
    ];
    // pcap has microseconds. The gaps are 100, 2900, their mean 1500, and 2000; the mean of all is
    // 1625.
    let expected = [0, 100, 3000, 4500, 6500, 8125, 8225, 11_125, 12_625, 14_625];
    let config = ReplayConfig { loops: 2, ..ReplayConfig::new(files) };
    let streamed = ReplayConfig { memory: Some(0), ..config.clone() };
    for config in [&config, &streamed] {
        assert_eq!(times(config), expected);
        let speed = |text: &str| ReplayConfig {
            timing: ReplayTiming::File(text.parse().unwrap()),
            ..config.clone()
        };
        assert_eq!(times(&speed("3x")), expected.map(|at| at / 3));
        assert_eq!(times(&speed("0.1x")), expected.map(|at| at * 10));
        let capped = ReplayConfig { max_gap: Some(1000), loop_gap: Some(7), ..config.clone() };
        assert_eq!(times(&capped)[..6], [0, 100, 1100, 1107, 2107, 2114]);
        let top = ReplayConfig { timing: ReplayTiming::Top, ..config.clone() };
        assert_eq!(times(&top), [0; 10]);
        let rate = ReplayTiming::Rate { rate: "3Mpps".parse().unwrap(), link: None };
        let rate = ReplayConfig { timing: rate, ..config.clone() };
        assert_eq!(times(&rate), [0, 333, 666, 1000, 1333, 1666, 2000, 2333, 2666, 3000]);
    }
    let replay = Replay::open(&config, 1).unwrap();
    assert_eq!((replay.packets(), replay.report().duration), (Some(10), 6500));
    assert_eq!(
        replay.report().files.iter().map(|file| file.packets).collect::<Vec<_>>(),
        [2, 1, 2]
    );
    assert_eq!(Replay::open(&streamed, 1).unwrap().packets(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Loaded and streamed lanes have the same packets at the same times. Together the lanes have
    /// the whole file, and each flow stays in order in a single lane.
    #[test]
    fn lanes_share_the_file(
        gaps in vec(0_u64..5000, 1..300), lanes in 1_u32..5, loops in 1_u64..4, paced: bool,
        factor in 1_u64..9,
    ) {
        let mut time = 77;
        let mut packets = flows(gaps.len() as u64);
        for (packet, gap) in packets.iter_mut().zip(&gaps) {
            time += gap;
            packet.0 = time;
        }
        let (_directory, path) = file(&packets);
        let timing = if paced {
            ReplayTiming::File(Speed::new(factor, 3).unwrap())
        } else {
            ReplayTiming::Rate { rate: Rate::Bits(1e7 / factor as f64), link: None }
        };
        let config = ReplayConfig { loops, timing, ..ReplayConfig::new(vec![path]) };
        let (loaded, failure) = sent(&config, lanes);
        prop_assert_eq!(failure, None);
        let streamed = ReplayConfig { memory: Some(0), ..config.clone() };
        prop_assert_eq!(&sent(&streamed, lanes).0, &loaded);
        let alone = one_lane(&config);
        prop_assert_eq!(alone.len() as u64, loops * gaps.len() as u64);
        let mut together: Vec<_> = loaded.iter().flatten().cloned().collect();
        let mut sorted = alone.clone();
        together.sort();
        sorted.sort();
        prop_assert_eq!(together, sorted);
        let mut lane_of_flow = HashMap::new();
        for (index, lane) in loaded.iter().enumerate() {
            for (_, frame) in lane {
                let flow = FlowKey::parse(frame).unwrap().unwrap();
                prop_assert_eq!(*lane_of_flow.entry(flow).or_insert(index), index);
                prop_assert_eq!(*lane_of_flow.entry(flow.reversed()).or_insert(index), index);
            }
            let of_lane = alone.iter().filter(|it| lane.contains(it)).cloned().collect::<Vec<_>>();
            prop_assert_eq!(&of_lane, lane);
        }
        if paced {
            let exact: Vec<_> =
                packets.iter().map(|packet| (packet.0 - packets[0].0) * 3 / factor).collect();
            let begun: Vec<_> = alone.iter().take(packets.len()).map(|it| it.0).collect();
            prop_assert_eq!(begun, exact);
        }
    }
}

/// The file is larger than the blocks queued for a lane.
#[test]
fn large_files_are_streamed() {
    let (_directory, path) = file(&flows(40_000));
    let config = ReplayConfig {
        memory: Some(100_000),
        timing: ReplayTiming::Top,
        loops: 2,
        ..ReplayConfig::new(vec![path])
    };
    let (lanes, failure) = sent(&config, 3);
    assert_eq!(failure, None);
    let numbers = lanes.iter().flatten().filter_map(|(_, frame)| packets::sequence(frame));
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..80_000).map(|it| it / 2).collect::<Vec<_>>());
    assert!(lanes.iter().all(|lane| !lane.is_empty()));
}

#[test]
fn what_was_cut_is_padded_skipped_or_sent() {
    let whole = packets::tcp4(1).length(600).build();
    let six = packets::udp6(2).length(700).build();
    let cut = |frame: &[u8], len: usize| (1, (frame.len() - len) as u32, frame[..len].to_vec());
    let captured = [cut(&whole, 96), (2, 0, whole.clone()), cut(&six, 80), (3, 60, vec![0; 4])];
    let (_directory, path) = file(&captured);
    let with = |how: TruncatedPackets| {
        let config = ReplayConfig { cut: how, ..ReplayConfig::new(vec![path.clone()]) };
        let report = Replay::open(&config, 1).unwrap().report();
        let frames: Vec<_> = one_lane(&config).into_iter().map(|(_, frame)| frame).collect();
        (report, frames)
    };
    let (report, padded) = with(TruncatedPackets::Pad);
    assert_eq!((report.total().padded, report.total().short, report.longest), (2, 1, 700));
    assert_eq!(padded.iter().map(Vec::len).collect::<Vec<_>>(), [600, 600, 700]);
    // The remaining bytes are unchanged, except for the checksum.
    assert_eq!((&padded[0][..50], &padded[0][54..96]), (&whole[..50], &whole[54..96]));
    assert!(padded[0][96..].iter().all(|byte| *byte == 0) && padded[1] == whole);
    assert_eq!(violations(&padded), 0);
    let (report, skipped) = with(TruncatedPackets::Skip);
    assert_eq!((report.total().cut, report.total().short, skipped.len()), (3, 0, 1));
    let (report, short) = with(TruncatedPackets::Send);
    assert_eq!((report.total().shortened, short.len()), (2, 3));
    assert_eq!(short[0], whole[..96]);
    let notes = with(TruncatedPackets::Pad).0.notes();
    assert!(
        notes.iter().any(|note| note.starts_with("2 packets cut by a snap length")),
        "{notes:?}"
    );
}

#[test]
fn what_was_cut_in_the_transport_header_has_its_checksum() {
    let mut echo = packets::udp4(1).length(200).build();
    (echo[23], echo[34]) = (1, 8);
    let frames = [echo, packets::tcp4(1).length(200).build(), packets::udp4(1).length(200).build()];
    for (whole, len) in frames.iter().flat_map(|frame| (34..60).map(move |len| (frame, len))) {
        let (_directory, path) = file(&[(1, (whole.len() - len) as u32, whole[..len].to_vec())]);
        let config = ReplayConfig::new(vec![path]);
        let report = Replay::open(&config, 1).unwrap().report();
        assert_eq!((report.total().padded, report.total().unfixed), (1, 0), "{len}");
        let sent = one_lane(&config).remove(0).1;
        assert_eq!(sent.len(), 200);
        let sum = Sum::of(&sent[34..]);
        let (source, destination) = ([26, 30].map(|at| {
            let bytes: [u8; 4] = sent[at..at + 4].try_into().unwrap();
            std::net::Ipv4Addr::from(bytes)
        }))
        .into();
        let protocol = wirelane_wire::Protocol(sent[23]);
        let pseudo = checksum::pseudo_v4(source, destination, protocol, 166);
        let sum = if sent[23] == 1 { sum } else { pseudo.plus(sum) };
        let is_none = sent[23] == 17 && sent[40..42] == [0, 0];
        assert!(is_none || sum.checksum() == 0, "protocol {}, {len} bytes", sent[23]);
    }
}

/// The number of violated rules for checksums, lengths and fragments, with packets as captured from
/// the wire.
fn violations(frames: &[Vec<u8>]) -> u64 {
    use wirelane_verify::{Auditor, Options, Packet};
    let mut auditor = Auditor::new(Options { strict: true, ..Options::default() });
    for frame in frames {
        let original_len = frame.len() as u32;
        let packet = Packet { interface: 0, link_type: 1, timestamp: 1, original_len, data: frame };
        auditor.packet(&packet, &mut |_| ());
    }
    auditor.finish(&mut |_| ());
    auditor.summary().violations()
}

#[test]
fn checksums_left_to_the_card_are_completed() {
    let whole = [packets::tcp4(1), packets::udp6(2), packets::tcp6(3).vlan(7)].map(|it| it.build());
    let mut partial = whole.clone();
    partial[0][50..52].copy_from_slice(&[1, 2]);
    partial[1][60..62].copy_from_slice(&[3, 4]);
    partial[2][74..76].copy_from_slice(&[5, 6]);
    assert!(violations(&partial) > 0);
    let (_directory, path) = file(&partial.map(|frame| (1, 0, frame)));
    let config = ReplayConfig { fix_checksums: true, ..ReplayConfig::new(vec![path]) };
    assert_eq!(one_lane(&config).into_iter().map(|it| it.1).collect::<Vec<_>>(), whole);
}

#[test]
fn other_link_types_get_a_header_or_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let frame = packets::udp6(1).macs([2; 6], [4; 6]).build();
    let mut cooked = vec![0; 16];
    cooked[14..].copy_from_slice(&frame[12..14]);
    cooked.extend(&frame[14..]);
    for (link_type, packet) in [(101, frame[14..].to_vec()), (113, cooked)] {
        let path = directory.path().join(format!("{link_type}.pcapng"));
        write(&path, link_type, None, &[(1, 0, packet)]);
        let mut config = ReplayConfig::new(vec![path]);
        let error = Replay::open(&config, 1).err().unwrap().to_string();
        assert!(error.contains(&format!("link type {link_type}")), "{error}");
        assert!(error.contains("give them one"), "{error}");
        config.header = Some((MacAddr([4; 6]), MacAddr([2; 6])));
        assert_eq!(one_lane(&config)[0].1, frame);
    }
    let path = directory.path().join("wlan.pcapng");
    write(&path, 105, None, &[(1, 0, frame.clone())]);
    let error = Replay::open(&ReplayConfig::new(vec![path]), 1).err().unwrap().to_string();
    assert!(error.contains("link type 105, which is not Ethernet"), "{error}");
    // A frame check sequence is not part of the frame.
    let path = directory.path().join("fcs.pcapng");
    let with_check = [&frame[..], &[1, 2, 3, 4]].concat();
    write(&path, 1, Some(4), &[(1, 0, with_check.clone())]);
    assert_eq!(one_lane(&ReplayConfig::new(vec![path]))[0].1, frame);
    // A check sequence that only the packet's flags (code 2) declare is not sent either: its length
    // is 4 bytes.
    let path = directory.path().join("flags.pcapng");
    let options = WriterOptions::of_path(&path);
    let mut writer = CaptureWriter::create(
        &path,
        &[Interface { link_type: 1, ..Interface::default() }],
        options,
        0,
    )
    .unwrap();
    for (data, flags) in [(with_check.as_slice(), 1 | 4_u32 << 5), (&frame, 1)] {
        let direction = Direction::Unknown;
        let original_len = data.len() as u32;
        let record = Record { interface: 0, timestamp: 1, original_len, direction, data };
        let head = [2_u16.to_ne_bytes(), 4_u16.to_ne_bytes()].concat();
        writer.write_with(&record, &[head, flags.to_ne_bytes().to_vec()].concat()).unwrap();
    }
    writer.finish(&[]).unwrap();
    for (_, sent) in one_lane(&ReplayConfig::new(vec![path])) {
        assert_eq!(sent, frame);
    }
}

#[test]
fn files_without_packets_and_damaged_ones() {
    let (directory, path) = file(&[]);
    for memory in [None, Some(0)] {
        let open = |path: &Path, loops: u64| {
            let config = ReplayConfig { memory, loops, ..ReplayConfig::new(vec![path.into()]) };
            Replay::open(&config, 2).err().map(|error| error.to_string())
        };
        let error = open(&path, 0).unwrap();
        assert!(error.contains("a.pcapng: holds no packets"), "{error}");
        let missing = open(&directory.path().join("none"), 1).unwrap();
        assert!(missing.contains("none: cannot open"), "{missing}");
        // The packets before the damage are sent once.
        let cut = directory.path().join("cut.pcap");
        write(&cut, 1, None, &flows(100));
        let bytes = std::fs::read(&cut).unwrap();
        std::fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
        let config = ReplayConfig { memory, loops: 3, ..ReplayConfig::new(vec![cut]) };
        let (lanes, failure) = sent(&config, 2);
        assert_eq!(lanes.iter().flatten().count(), 99);
        assert!(failure.as_ref().is_some_and(|it| it.contains("cut.pcap")), "{failure:?}");
    }
    assert!(Replay::open(&ReplayConfig::new(Vec::new()), 1).is_err());
}

/// A pipe is sent as it is read. To be repeated, it must fit into memory.
#[test]
fn pipes_are_read_once() {
    let (directory, path) = file(&flows(50));
    let bytes = std::fs::read(&path).unwrap();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let feed = || {
        let (pipe, bytes) = (pipe.clone(), bytes.clone());
        std::thread::spawn(move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
            // Writes in pieces, and ignores errors: the reader may have closed the pipe.
            bytes.chunks(1000).for_each(|piece| drop(pipe.write_all(piece)));
        })
    };
    let config = ReplayConfig::new(vec![pipe.clone()]);
    for (loops, count) in [(1, 50), (3, 150)] {
        let feeder = feed();
        let config = ReplayConfig { loops, ..config.clone() };
        assert_eq!(one_lane(&config).len(), count);
        feeder.join().unwrap();
    }
    let feeder = feed();
    let config = ReplayConfig { loops: 2, memory: Some(100), ..config };
    let error = Replay::open(&config, 1).err().unwrap().to_string();
    assert!(error.contains("a pipe cannot be read twice"), "{error}");
    feeder.join().unwrap();
}

/// The pipe is silent, and a halt is requested.
#[test]
fn a_silent_pipe_is_left_when_asked() {
    let (directory, path) = file(&flows(3));
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = ReplayConfig::new(vec![pipe.clone()]);
    let begun = Instant::now();
    let bytes = std::fs::read(path).unwrap();
    // Opened for reading and writing, so that opening does not block.
    let mut writer = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    writer.write_all(&bytes).unwrap();
    let mut lane = Replay::open(&config, 1).unwrap().take_lanes().remove(0);
    for _ in 0..3 {
        assert!(lane.next().unwrap().is_some());
        lane.skip();
    }
    let halt = config.halt.clone();
    let asking = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        halt.ask();
    });
    assert_eq!(lane.next().unwrap(), None);
    asking.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn loops_differ_when_asked() {
    let (_directory, path) = file(&flows(20));
    let originals: Vec<_> = flows(20).into_iter().map(|it| it.2).collect();
    let rules = [
        Rule::Unique { seed: 5, within: Vec::new() },
        Rule::Vlan(VlanRule::Push { id: 9, priority: 0 }),
    ];
    let rewrite = Rewrite::new(&rules).unwrap();
    for memory in [None, Some(0)] {
        let config = ReplayConfig {
            loops: 4,
            memory,
            rewrite: rewrite.clone(),
            ..ReplayConfig::new(vec![path.clone()])
        };
        let mut seen = HashMap::new();
        for (position, (_, mut frame)) in one_lane(&config).into_iter().enumerate() {
            let number = (position / 20) as u64;
            assert_eq!(*seen.entry(FlowKey::parse(&frame).unwrap()).or_insert(number), number);
            assert_eq!(violations(&[frame.clone()]), 0);
            rewrite.undo(&mut frame, number);
            assert_eq!(frame, originals[position % 20]);
        }
    }
}

/// Prints the cost of a packet at top speed until it is written to send memory: `cargo test
/// --release -p wirelane-send cost_of_a_packet -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn cost_of_a_packet() {
    let frame = |number: u64| packets::udp4(number).flow((number % 1000) as u16);
    for length in [60, 1514] {
        let captured: Vec<_> =
            (0..20_000).map(|n| (n * 1000 + 1, 0, frame(n).length(length).build())).collect();
        let (_directory, path) = file(&captured);
        let unique = Rewrite::new(&[Rule::Unique { seed: 1, within: Vec::new() }]).unwrap();
        let none = Rewrite::default;
        let rate = ReplayTiming::Rate { rate: Rate::Packets(7e6), link: None };
        let speed = ReplayTiming::File(Speed::new(3, 7).unwrap());
        for (name, timing, memory, rewrite) in [
            ("loaded, top speed", ReplayTiming::Top, None, none()),
            ("loaded, 3/7 of its speed", speed, None, none()),
            ("loaded, 7 Mpps", rate, None, none()),
            ("loaded, unique addresses", ReplayTiming::Top, None, unique),
            ("streamed, top speed", ReplayTiming::Top, Some(0), none()),
        ] {
            let config = ReplayConfig {
                timing,
                memory,
                rewrite,
                loops: 0,
                ..ReplayConfig::new(vec![path.clone()])
            };
            let mut lane = Replay::open(&config, 1).unwrap().take_lane(0).unwrap();
            // The slots of a TX ring.
            let mut memory = vec![0; 2048 * 2048];
            let count = 4_000_000_usize;
            // CPU time, as the machine may run other work.
            let begun = wirelane_os::clock::thread_cpu_ns();
            for number in 0..count {
                let begin = number % 2048 * 2048;
                if lane.next().unwrap().is_some() {
                    lane.write(&mut memory[begin..begin + 2048], 0);
                }
            }
            let each = (wirelane_os::clock::thread_cpu_ns() - begun) as f64 / count as f64;
            eprintln!("{length} bytes, {name}: {each:.1} ns per packet");
        }
    }
}
