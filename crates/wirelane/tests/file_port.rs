//! The file port: it delivers the packets of a file, and writes the packets that it transmits to a
//! file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirelane::internal::file;
use wirelane::pcap::pcap::Resolution;
use wirelane::pcap::{
    CaptureReader, CaptureWriter, Direction, FileFormat, Record, Source, WriterOptions,
};
use wirelane::port::{OpenOptions, Port, Readiness, Rx, Spec};
use wirelane::{Batch, Class, Error, ErrorKind, QueueMask, QueueSet};
use wirelane_os::clock;
use wirelane_testkit::{process, tools};

/// The properties of a packet that the tests compare.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    queue: u16,
    class: Class,
    timestamp: u64,
    original_len: u32,
    data: Vec<u8>,
}

/// Four RX queues, two TX queues and OTHER.
fn sources() -> Vec<Source> {
    let rx = (0..4).map(|queue| Source::new("eth7", Class::Rx, Some(queue)));
    let tx = (0..2).map(|queue| Source::new("eth7", Class::Tx, Some(queue)));
    rx.chain(tx).chain([Source::new("eth7", Class::Other, None)]).collect()
}

/// Makes `count` packets of various lengths, from all sources.
fn packets(count: usize) -> Vec<Packet> {
    let sources = sources();
    let packet = |k: usize| {
        let source = &sources[k * 5 % sources.len()];
        let len = [60, 64, 1514, 9000, 200, 61][k % 6];
        Packet {
            queue: source.queue.unwrap_or(0) as u16,
            class: source.class.unwrap(),
            timestamp: 1_700_000_000_123_456_000 + k as u64 * 1000,
            original_len: len as u32 + if k.is_multiple_of(7) { 100 } else { 0 },
            data: (0..len).map(|i| (i + k) as u8).collect(),
        }
    };
    (0..count).map(packet).collect()
}

fn interface(sources: &[Source], packet: &Packet) -> u32 {
    let queue = (packet.class != Class::Other).then_some(u32::from(packet.queue));
    let of = |s: &Source| s.class == Some(packet.class) && s.queue == queue;
    sources.iter().position(of).unwrap_or(0) as u32
}

fn write(path: &Path, sources: &[Source], options: WriterOptions, packets: &[Packet]) {
    let mut writer = CaptureWriter::create(path, sources, options, 0).unwrap();
    for packet in packets {
        let record = Record {
            interface: interface(sources, packet),
            timestamp: packet.timestamp,
            original_len: packet.original_len,
            direction: Direction::Unknown,
            data: &packet.data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// Writes a file of `packets` with all sources, and returns its path.
fn sample(directory: &Path, name: &str, packets: &[Packet]) -> PathBuf {
    let path = directory.join(name);
    write(&path, &sources(), WriterOptions::of_path(&path), packets);
    path
}

fn spec(path: &Path, query: &str) -> Spec {
    format!("file:{}{query}", path.display()).parse().unwrap()
}

fn open(path: &Path, options: &OpenOptions) -> Port {
    file::open(&spec(path, ""), options).unwrap()
}

fn refused(text: &str, options: &OpenOptions) -> Error {
    let error = file::open(&text.parse().unwrap(), options).map(|_| ()).unwrap_err();
    assert!(!error.to_string().contains('\n'));
    error
}

fn packet(frame: &wirelane::Frame) -> Packet {
    Packet {
        queue: frame.queue().unwrap_or(0),
        class: frame.class(),
        timestamp: frame.timestamp(),
        original_len: frame.original_len(),
        data: frame.data().to_vec(),
    }
}

/// Receives until the end. Returns the packets, and the error from `readiness`.
fn drain(rx: &mut Rx) -> (Vec<Packet>, Option<Error>) {
    let (mut all, mut failure) = (Vec::new(), None);
    let mut batch = Batch::default();
    loop {
        if rx.receive(&mut batch) > 0 {
            all.extend(batch.iter().map(packet));
            batch.clear();
            continue;
        }
        match rx.readiness() {
            Ok(Readiness::Now) => {}
            Ok(Readiness::After(time)) => std::thread::sleep(time),
            Ok(Readiness::End) => return (all, failure),
            Ok(Readiness::Soon(..) | Readiness::Descriptor(..)) => {
                panic!("a file has no descriptor to wait for")
            }
            Err(error) => assert!(failure.replace(error).is_none(), "reported twice"),
        }
    }
}

/// Receives all packets of a port, and checks its counters and that all frames have returned.
fn receive(mut port: Port) -> (Vec<Packet>, Option<Error>) {
    let mut rx = port.rx().unwrap();
    assert_eq!(rx.len(), 1);
    assert!(port.rx().is_err());
    port.start().unwrap();
    let (packets, failure) = drain(&mut rx[0]);
    let bytes: u64 = packets.iter().map(|packet| u64::from(packet.original_len)).sum();
    assert_eq!(rx[0].counters().packets.value(), packets.len() as u64);
    assert_eq!(rx[0].counters().bytes.value(), bytes);
    assert_eq!(rx[0].watermark(), u64::MAX);
    assert_eq!(port.frames().held(), 0);
    (packets, failure)
}

#[test]
fn every_packet_with_its_queue_and_class() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(1000);
    for name in ["a.pcapng", "a.pcapng.gz", "a.pcapng.lz4", "a.pcapng.zst"] {
        let port = open(&sample(directory.path(), name, &sent), &OpenOptions::default());
        assert_eq!(port.info().queues, [0, 1, 2, 3]);
        assert_eq!(port.info().interface.as_deref(), Some("eth7"));
        assert!(port.info().lossless);
        let (received, failure) = receive(port);
        assert!(failure.is_none() && received == sent, "{name}");
    }
}

#[test]
fn pcap_in_both_resolutions() {
    let directory = tempfile::tempdir().unwrap();
    let source = [Source::new("eth7", Class::Rx, Some(0))];
    let mut sent = packets(100);
    for packet in &mut sent {
        (packet.queue, packet.class) = (0, Class::Rx);
    }
    for (resolution, unit) in [(Resolution::Microseconds, 1000), (Resolution::Nanoseconds, 1)] {
        sent.iter_mut().for_each(|packet| packet.timestamp += 2 * unit);
        let path = directory.path().join("a.pcap.gz");
        let format = FileFormat::Pcap(resolution);
        write(&path, &source, WriterOptions::of_path(&path).format(format), &sent);
        let (received, failure) = receive(open(&path, &OpenOptions::default()));
        assert!(failure.is_none() && received == sent, "{resolution:?}");
    }
}

#[test]
fn interfaces_are_no_queues_in_files_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    let source =
        |name: &str| Source { class: None, queue: None, ..Source::new(name, Class::Rx, None) };
    let sources = ["lan", "wan"].map(source);
    let mut writer =
        CaptureWriter::create(&path, &sources, WriterOptions::of_path(&path), 0).unwrap();
    let directions = [Direction::Unknown, Direction::Inbound, Direction::Outbound];
    for (k, direction) in directions.into_iter().enumerate() {
        for interface in 0..2 {
            let timestamp = k as u64;
            let data = &[0; 60][..];
            writer
                .write(&Record { interface, timestamp, original_len: 60, direction, data })
                .unwrap();
        }
    }
    writer.finish(&[]).unwrap();
    let port = open(&path, &OpenOptions::default());
    assert_eq!((port.info().interface.as_deref(), &port.info().queues[..]), (None, &[][..]));
    let (received, _) = receive(port);
    let found: Vec<_> = received.iter().map(|packet| (packet.class, packet.queue)).collect();
    use Class::{Rx, Tx};
    assert_eq!(found, [(Rx, 0), (Rx, 1), (Rx, 0), (Rx, 1), (Tx, 0), (Tx, 1)]);
}

#[test]
fn masks_select_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(500);
    let path = sample(directory.path(), "a.pcapng", &sent);
    for bits in 0..1usize << 7 {
        let set = |from: usize, n: usize| -> QueueSet {
            (0..n).filter(|queue| bits >> (from + queue) & 1 == 1).collect()
        };
        let mask = QueueMask { enabled: true, rx: set(0, 4), tx: set(4, 2), other: bits >> 6 == 1 };
        let options = OpenOptions::default().mask(mask.clone());
        let (received, _) = receive(open(&path, &options));
        let selected = |packet: &&Packet| mask.selects(packet.class, usize::from(packet.queue));
        let expected: Vec<_> = sent.iter().filter(selected).cloned().collect();
        assert!(received == expected, "{mask}");
    }
}

/// A file may describe an interface before each packet, in a separate section or not. The test
/// compares the CPU time of this thread with the time for as many packets of one interface. A
/// search through all interfaces for each packet takes 100 times as long.
#[test]
fn reading_takes_time_by_the_number_of_interfaces_and_not_by_its_square() {
    const COUNT: usize = 8000;
    let directory = tempfile::tempdir().unwrap();
    let part = |count: usize, name: &str| {
        let path = directory.path().join(name);
        let mut writer =
            CaptureWriter::create(&path, &[], WriterOptions::of_path(&path), 0).unwrap();
        let mut interface = 0;
        for k in 0..COUNT {
            if k < count {
                interface = writer.add_source(Source::new("x", Class::Rx, Some(0))).unwrap();
            }
            let (direction, data) = (Direction::Unknown, &[7; 60][..]);
            let (timestamp, original_len) = (k as u64, 60);
            let record = Record { interface, timestamp, original_len, direction, data };
            writer.write(&record).unwrap();
        }
        writer.finish(&[]).unwrap();
        path
    };
    let (one, between) = (part(1, "one.pcapng"), part(COUNT, "between.pcapng"));
    let sections = directory.path().join("sections.pcapng");
    let whole = fs::read(&between).unwrap();
    // A section header, an interface and a packet.
    let length = |at: usize| u32::from_ne_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
    let end = (0..3).fold(0, |at, _| at + length(at));
    fs::write(&sections, whole[..end].repeat(COUNT)).unwrap();
    let time = |path: &Path| {
        let before = clock::thread_cpu_ns();
        let (packets, failure) = receive(open(path, &OpenOptions::default()));
        assert!(packets.len() == COUNT && failure.is_none());
        clock::thread_cpu_ns() - before
    };
    let usual = time(&one);
    for path in [between, sections] {
        let taken = time(&path);
        assert!(taken < 30 * usual, "{taken} ns instead of {usual} ns: {}", path.display());
    }
}

#[test]
fn masks_change_while_reading() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(700);
    let mut port = open(&sample(directory.path(), "a.pcapng", &sent), &OpenOptions::default());
    let (mut rx, control) = (port.rx().unwrap(), port.control());
    port.start().unwrap();
    let mut batch = Batch::new(100);
    assert_eq!(rx[0].receive(&mut batch), 100);
    let only = QueueMask { rx: [2].into_iter().collect(), ..QueueMask::NONE };
    control.set_mask(only.clone()).unwrap();
    assert_eq!(control.mask(), only);
    let (rest, _) = drain(&mut rx[0]);
    let selected = |packet: &&Packet| only.selects(packet.class, usize::from(packet.queue));
    let expected: Vec<_> = sent[100..].iter().filter(selected).cloned().collect();
    assert!(rest == expected);
    let wrong = QueueMask { rx: [0, 4].into_iter().collect(), ..QueueMask::NONE };
    let error = control.set_mask(wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().ends_with("no RX queue 4; its RX queues are: 0-3"), "{error}");
    assert_eq!(control.mask(), only);
}

#[test]
fn a_damaged_file_gives_what_is_before_the_damage() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(300);
    let path = sample(directory.path(), "a.pcapng", &sent);
    let whole = fs::read(&path).unwrap();
    for len in [whole.len() - 1, whole.len() - 70, whole.len() / 2] {
        fs::write(&path, &whole[..len]).unwrap();
        let (received, failure) = receive(open(&path, &OpenOptions::default()));
        assert!(received.len() < 300 && received == sent[..received.len()]);
        let failure = failure.unwrap().to_string();
        assert!(failure.contains("cut short in the block"), "{failure}");
    }
}

#[test]
fn nothing_is_read_while_no_frame_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(400);
    let path = sample(directory.path(), "a.pcapng.zst", &sent);
    let options = OpenOptions::default().ring_bytes(16 * 2048);
    let mut port = open(&path, &options);
    let mut rx = port.rx().unwrap().remove(0);
    let mut batch = Batch::new(16);
    assert_eq!(rx.receive(&mut batch), 0, "before the start");
    port.start().unwrap();
    let mut received = Vec::new();
    while received.len() < sent.len() {
        let mut held = Batch::new(1000);
        while rx.receive(&mut held) > 0 {}
        assert!(!held.is_empty());
        assert!(matches!(rx.readiness().unwrap(), Readiness::After(_) | Readiness::End));
        assert_eq!(rx.receive(&mut held), 0);
        assert_eq!(port.frames().held(), held.len() as u64);
        received.extend(held.iter().map(packet));
    }
    assert!(received == sent);
    assert_eq!(rx.receive(&mut batch), 0);
    assert!(matches!(rx.readiness().unwrap(), Readiness::End));
    assert_eq!(port.frames().held(), 0);
}

#[test]
fn long_packets_and_the_snap_length() {
    let directory = tempfile::tempdir().unwrap();
    let mut sent = packets(4);
    for (packet, len) in sent.iter_mut().zip([60, 65_536, 65_550, 262_144]) {
        packet.data.resize(len, 7);
        packet.original_len = len as u32;
    }
    let path = sample(directory.path(), "a.pcapng", &sent);
    let mut port = open(&path, &OpenOptions::default());
    let mut rx = port.rx().unwrap();
    port.start().unwrap();
    let (received, failure) = drain(&mut rx[0]);
    assert!(failure.is_none());
    for (received, sent) in received.iter().zip(&sent) {
        assert_eq!(received.original_len, sent.original_len);
        assert!(received.data == sent.data);
    }
    assert_eq!(port.diagnostics(), [""; 0]);
    assert_eq!((port.frames().held(), received.len()), (0, 4));

    let options = OpenOptions::default().snaplen(100);
    let (cut, _) = receive(open(&path, &options));
    let lengths: Vec<_> = cut.iter().map(|p| (p.data.len(), p.original_len)).collect();
    assert_eq!(lengths, [(60, 60), (100, 65_536), (100, 65_550), (100, 262_144)]);
}

#[test]
fn repeated_files_go_on_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(50);
    let path = sample(directory.path(), "a.pcapng", &sent);
    let port = file::open(&spec(&path, "?loop=3"), &OpenOptions::default()).unwrap();
    let (received, failure) = receive(port);
    assert!(failure.is_none() && received.len() == 150);
    assert!(received.is_sorted_by(|a, b| a.timestamp < b.timestamp));
    assert!(received.iter().map(|p| &p.data).eq(sent.iter().cycle().take(150).map(|p| &p.data)));
    let gap = |k: usize| received[k + 1].timestamp - received[k].timestamp;
    assert_eq!((gap(0), gap(49), gap(50), gap(99)), (1000, 1, 1000, 1));

    let empty = sample(directory.path(), "empty.pcapng", &[]);
    let port = file::open(&spec(&empty, "?loop=1G"), &OpenOptions::default()).unwrap();
    assert!(receive(port).0.is_empty());
}

#[test]
fn the_gaps_of_the_file_are_kept_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut sent = packets(5);
    for (packet, ms) in sent.iter_mut().zip([0, 20, 10, 40, 60]) {
        packet.timestamp = 1_000_000_000 + ms * 1_000_000;
    }
    let path = sample(directory.path(), "a.pcapng", &sent);
    let port = file::open(&spec(&path, "?rate=original"), &OpenOptions::default()).unwrap();
    let start = Instant::now();
    let (received, failure) = receive(port);
    assert!(failure.is_none() && received == sent);
    assert!(start.elapsed() >= Duration::from_millis(60));

    let mut port = file::open(&spec(&path, "?rate=original"), &OpenOptions::default()).unwrap();
    let mut rx = port.rx().unwrap();
    port.start().unwrap();
    let mut batch = Batch::default();
    assert_eq!(rx[0].receive(&mut batch), 1);
    port.control().stop();
    assert_eq!(rx[0].receive(&mut batch), 0);
    assert!(matches!(rx[0].readiness().unwrap(), Readiness::End));
}

fn receive_what_is_there(rx: &mut Rx) -> Vec<Packet> {
    let (mut received, mut batch) = (Vec::new(), Batch::default());
    while rx.receive(&mut batch) > 0 {
        received.extend(batch.iter().map(packet));
        batch.clear();
    }
    received
}

/// A complete packet is received at once, and the descriptor becomes readable when there are more
/// bytes.
#[test]
fn a_live_pipe_holds_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    for name in ["a.pcapng", "a.pcap"] {
        // A pipe holds 64 KiB.
        let mut sent = packets(150);
        sent.retain(|packet| packet.data.len() < 1000);
        sent.truncate(100);
        for packet in sent.iter_mut().filter(|_| name == "a.pcap") {
            (packet.queue, packet.class, packet.timestamp) =
                (0, Class::Rx, packet.timestamp / 1000 * 1000);
        }
        // The file offsets at which the packets end.
        let len = |n: usize| fs::read(sample(directory.path(), name, &sent[..n])).unwrap().len();
        let ends: Vec<_> = (0..=100).map(len).collect();
        let bytes = fs::read(sample(directory.path(), name, &sent)).unwrap();
        let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        // Opening waits for these bytes, up to the start of the first packet.
        let mut at = ends[0] + 12;
        pipe.write_all(&bytes[..at]).unwrap();
        let mut port = open(&fifo, &OpenOptions::default());
        let mut rx = port.rx().unwrap().remove(0);
        port.start().unwrap();
        let mut received = Vec::new();
        let mut receive = |rx: &mut Rx| {
            received.extend(receive_what_is_there(rx));
            received.clone()
        };
        for (step, whole) in [(0, 0), (3, 3), (0, 3), (1, 4), (70, 74)] {
            // Complete packets, and all of the next packet but its last byte.
            let to = if step == 0 { at } else { ends[whole + 1] - 1 };
            pipe.write_all(&bytes[at..to]).unwrap();
            at = to;
            assert!(receive(&mut rx) == sent[..whole], "{name}: {whole}");
            assert!(matches!(rx.readiness().unwrap(), Readiness::Descriptor(..)), "{name}");
        }
        pipe.write_all(&bytes[at..]).unwrap();
        assert!(receive(&mut rx) == sent, "{name}");
        assert!(matches!(rx.readiness().unwrap(), Readiness::Descriptor(..)), "{name}");
        drop(pipe);
        assert_eq!(rx.receive(&mut Batch::default()), 0);
        assert!(matches!(rx.readiness().unwrap(), Readiness::End), "{name}");
        drop(rx);
        assert_eq!(port.frames().held(), 0);
    }
}

/// The same for a compressed pipe: the packets of each compressed frame are received when it is
/// complete. Until then the thread does not block.
#[test]
fn a_live_compressed_pipe_holds_no_frame_back() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    process::run(Command::new("mkfifo").arg(&fifo));
    let mut sent = packets(300);
    // A pipe holds 64 KiB.
    sent.retain(|packet| packet.data.len() < 1000);
    sent.truncate(60);
    let len = |n: usize| fs::read(sample(directory.path(), "a.pcapng", &sent[..n])).unwrap().len();
    let ends = [len(20), len(40), len(60)];
    let bytes = fs::read(sample(directory.path(), "a.pcapng", &sent)).unwrap();
    for program in ["gzip", "lz4", "zstd"] {
        if !tools::require(program) {
            continue;
        }
        let pack = |name: &str, bytes: &[u8]| {
            let plain = directory.path().join(name);
            fs::write(&plain, bytes).unwrap();
            let packed = Command::new(program).arg("-c").arg(&plain).output().unwrap();
            assert!(packed.status.success(), "{packed:?}");
            packed.stdout
        };
        let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        pipe.write_all(&pack("first", &bytes[..ends[0]])).unwrap();
        let mut port = open(&fifo, &OpenOptions::default());
        let mut rx = port.rx().unwrap().remove(0);
        port.start().unwrap();
        let mut received = Vec::new();
        let mut receive = |rx: &mut Rx| {
            received.extend(receive_what_is_there(rx));
            assert!(matches!(rx.readiness().unwrap(), Readiness::Descriptor(..)), "{program}");
            received.clone()
        };
        assert!(receive(&mut rx) == sent[..20], "{program}");
        let second = pack("second", &bytes[ends[0]..ends[1]]);
        let (head, tail) = second.split_at(second.len() / 2);
        pipe.write_all(head).unwrap();
        assert!(receive(&mut rx).len() < 40, "{program}");
        pipe.write_all(tail).unwrap();
        assert!(receive(&mut rx) == sent[..40], "{program}");
        pipe.write_all(&pack("third", &bytes[ends[1]..])).unwrap();
        assert!(receive(&mut rx) == sent, "{program}");
        drop(pipe);
        assert_eq!(rx.receive(&mut Batch::default()), 0);
        assert!(matches!(rx.readiness().unwrap(), Readiness::End), "{program}");
    }
}

#[test]
fn what_is_sent_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let sent = packets(500);
    let input = sample(directory.path(), "in.pcapng", &sent);
    let transmit = OpenOptions::default().receive(false).transmit(true);
    for name in ["out.pcapng", "out.pcap", "out.pcapng.zst", "out.pcap.gz"] {
        let mut from = open(&input, &OpenOptions::default());
        let path = directory.path().join(name);
        let mut to = open(&path, &transmit);
        let (mut rx, mut tx) = (from.rx().unwrap().remove(0), to.tx().unwrap());
        assert_eq!((tx.len(), tx[0].queue(), to.rx().unwrap().len()), (1, 0, 0));
        from.start().unwrap();
        to.start().unwrap();
        let mut batch = Batch::default();
        while rx.receive(&mut batch) > 0 {
            let n = batch.len();
            assert_eq!((tx[0].transmit(&mut batch), batch.len()), (n, 0));
        }
        tx[0].flush().unwrap();
        let counters = tx[0].counters();
        let bytes: u64 = sent.iter().map(|packet| u64::from(packet.original_len)).sum();
        assert_eq!((counters.packets.value(), counters.bytes.value()), (500, bytes));
        assert_eq!((tx[0].pending(), counters.errors.value()), (0, 0));
        rx.receive(&mut batch);
        assert_eq!((from.frames().held(), to.frames().held()), (0, 0));
        drop(tx);

        let mut reader = CaptureReader::open(&path).unwrap();
        for packet in &sent {
            let record = reader.next_record().unwrap().unwrap();
            assert!(record.data == packet.data && record.timestamp == packet.timestamp);
            assert_eq!(record.original_len, packet.original_len);
        }
        assert!(reader.next_record().unwrap().is_none());
        if name.contains("pcapng") {
            assert_eq!(reader.interfaces()[0].describe(), "tx queue 0");
        }
    }
}

#[test]
fn frames_made_here_get_the_time_of_sending() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcapng");
    let transmit = OpenOptions::default().receive(false).transmit(true);
    let mut port = open(&path, &transmit);
    let mut tx = port.tx().unwrap();
    port.start().unwrap();
    let mut batch = Batch::default();
    assert_eq!(tx[0].allocate(&mut batch, 3), 3);
    batch.iter_mut().for_each(|frame| assert!(frame.fill(&[1; 60])));
    assert_eq!(tx[0].transmit(&mut batch), 3);
    assert_eq!(tx[0].pending(), 3);
    let counters = Arc::clone(tx[0].counters());
    drop(tx);
    assert_eq!((counters.packets.value(), counters.errors.value()), (3, 0));
    assert_eq!(port.frames().held(), 0);
    let (received, failure) = receive(open(&path, &OpenOptions::default()));
    assert!(failure.is_none() && received.len() == 3);
    let long_ago = 1_700_000_000_000_000_000;
    assert!(received.iter().all(|packet| packet.class == Class::Tx && packet.timestamp > long_ago));
}

#[test]
fn what_an_end_took_is_written_or_counted_when_it_is_drained_or_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let transmit = OpenOptions::default().receive(false).transmit(true);
    for name in ["a.pcap", "a.pcapng.gz", "/dev/full"] {
        for drains in [true, false] {
            let is_full = name == "/dev/full";
            let mut port = open(&directory.path().join(name), &transmit);
            let mut tx = port.tx().unwrap().remove(0);
            port.start().unwrap();
            let mut batch = Batch::default();
            tx.allocate(&mut batch, 20);
            batch.iter_mut().for_each(|frame| assert!(frame.fill(&[1; 200])));
            assert_eq!((tx.transmit(&mut batch), tx.pending()), (20, 20));
            if drains {
                assert_eq!(tx.drain(Duration::ZERO).ok(), (!is_full).then_some(0), "{name}");
            }
            let counters = Arc::clone(tx.counters());
            drop(tx);
            let counted = (counters.packets.value(), counters.errors.value());
            assert_eq!(counted, if is_full { (0, 20) } else { (20, 0) }, "{name}");
            assert_eq!(port.frames().held(), 0, "{name}");
        }
    }
}

#[test]
fn a_full_disk_is_reported_and_counted() {
    let transmit = OpenOptions::default().receive(false).transmit(true);
    let mut port = open(Path::new("/dev/full"), &transmit);
    let mut tx = port.tx().unwrap().remove(0);
    port.start().unwrap();
    let mut batch = Batch::default();
    for _ in 0..3 {
        tx.allocate(&mut batch, 64);
        batch.iter_mut().for_each(|frame| assert!(frame.fill(&[1; 1500])));
        assert_eq!(tx.transmit(&mut batch), 64);
    }
    let error = tx.flush().unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("ENOSPC"), "{error}");
    assert!(tx.flush().unwrap_err().to_string().contains("an earlier write failed"));
    tx.allocate(&mut batch, 8);
    assert_eq!(tx.transmit(&mut batch), 8);
    let counters = tx.counters();
    assert_eq!((counters.packets.value(), counters.errors.value()), (0, 200));
    assert_eq!((tx.pending(), port.frames().held()), (0, 0));
}

#[test]
fn what_cannot_be_opened_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let receive = OpenOptions::default();
    let transmit = OpenOptions::default().receive(false).transmit(true);
    let both = OpenOptions::default().transmit(true);
    let file = |name: &str| format!("file:{}", directory.path().join(name).display());
    fs::write(directory.path().join("text"), "no capture file").unwrap();
    fs::write(directory.path().join("none"), "").unwrap();
    sample(directory.path(), "a.pcapng", &packets(1));
    let is = |text: &str, options: &OpenOptions, kind: ErrorKind, words: &str| {
        let error = refused(text, options);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    use ErrorKind::{Failed, Usage};
    is(&file("missing"), &receive, Failed, "ENOENT");
    is(&file(""), &receive, Failed, "EISDIR");
    is(&file(""), &transmit, Failed, "EISDIR");
    is(&file("no/where.pcap"), &transmit, Failed, "ENOENT");
    is(&file("text"), &receive, Failed, "not a capture file");
    is(&file("none"), &receive, Failed, "it is empty");
    is(&file("a.pcapng"), &both, Usage, "read or written, not both");
    is(
        &file("a.pcapng?rate=1M"),
        &receive,
        Usage,
        "rate=1M is not possible; write max or original",
    );
    is(
        &file("a.pcapng?loop=0"),
        &receive,
        Usage,
        "loop=0 is not possible; write a number from 1 on",
    );
    is(&file("a.pcapng?frame=9k"), &receive, Usage, "'frame' is not an option");
    is(&file("b.pcapng?queues=2"), &transmit, Usage, "'queues' is not an option");
    is("file:-?loop=2", &receive, Usage, "standard input cannot be repeated");
    let mask = QueueMask { tx: [2].into_iter().collect(), ..QueueMask::ALL };
    is(&file("a.pcapng"), &receive.clone().mask(mask), Usage, "no TX queue 2");

    let mixed =
        [Source::new("a", Class::Rx, Some(0)), Source { link_type: 113, ..Source::default() }];
    let path = directory.path().join("mixed.pcapng");
    write(&path, &mixed, WriterOptions::of_path(&path), &[]);
    is(&file("mixed.pcapng"), &receive, Failed, "link types 1 and 113");
}

/// A file repeats a section, an interface and a packet. The work per packet must not grow with the
/// number of previous interfaces. If it grew, four times the packets would take sixteen times as
/// long.
#[test]
fn work_per_packet_does_not_grow_with_the_interfaces_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let make = |name: &str, count: usize| {
        write(&path("one"), &sources()[..1], WriterOptions::of_path(&path("one")), &packets(1));
        fs::write(path(name), fs::read(path("one")).unwrap().repeat(count)).unwrap();
    };
    let count = 3000;
    make("short", count);
    make("long", 4 * count);
    let cost = |work: &dyn Fn(&str)| {
        let best = |name| (0..3).map(|_| thread_time(|| work(name))).min().unwrap();
        (best("short"), best("long"))
    };
    let read = cost(&|name| {
        let (packets, failure) = receive(open(&path(name), &OpenOptions::default()));
        assert!(failure.is_none() && [count, 4 * count].contains(&packets.len()));
    });
    let merged = cost(&|name| {
        let report =
            wirelane::pcap::merge_files(&[path(name)], &path("merged"), &Default::default())
                .unwrap();
        assert_eq!(report.written.packets, report.inputs[0].interfaces as u64);
    });
    for (what, (short, long)) in [("receive", read), ("merge", merged)] {
        assert!(long < 9 * short, "{what}: {short:?}, and {long:?} for four times as many");
    }
}

/// The CPU time of this thread in `work`, which does not depend on the load of the machine.
fn thread_time(work: impl FnOnce()) -> Duration {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    work();
    now() - before
}

/// A packet with the timestamp 0 keeps it. Only a packet without a timestamp gets the time of
/// sending.
#[test]
fn the_beginning_of_time_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut sent = packets(3);
    sent.iter_mut().zip([0, 5, 0]).for_each(|(packet, time)| packet.timestamp = time);
    let mut from = open(&sample(directory.path(), "a.pcapng", &sent), &OpenOptions::default());
    let to = directory.path().join("b.pcapng");
    let options = OpenOptions::default().receive(false).transmit(true);
    let mut port = open(&to, &options);
    let (mut rx, mut tx) = (from.rx().unwrap(), port.tx().unwrap());
    from.start().unwrap();
    port.start().unwrap();
    let mut batch = Batch::default();
    while batch.len() < 3 {
        rx[0].receive(&mut batch);
    }
    tx[0].transmit(&mut batch);
    // A frame without a timestamp.
    tx[0].allocate(&mut batch, 1);
    assert!(batch[0].fill(&[0; 60]));
    tx[0].transmit(&mut batch);
    tx[0].flush().unwrap();
    let mut reader = CaptureReader::open(&to).unwrap();
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        times.push(record.timestamp);
    }
    assert_eq!(times[..3], [0, 5, 0]);
    assert!(times[3] > 1_700_000_000_000_000_000);
}

/// If the times of a repeated file exceed 64 bits, the port ends with an error instead of hanging.
#[test]
fn a_loop_beyond_the_end_of_time_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut sent = packets(2);
    sent[1].timestamp = u64::MAX - 10;
    let path = sample(directory.path(), "a.pcapng", &sent);
    let port = file::open(&spec(&path, "?loop=2"), &OpenOptions::default()).unwrap();
    let (received, failure) = receive(port);
    assert!(received == sent && failure.unwrap().to_string().contains("2554"));
}

#[test]
fn names_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
    let sent = packets(10);
    write(&name(b"\xff a.pcapng"), &sources(), WriterOptions::of_path(&name(b"a.pcapng")), &sent);
    let of = |path: &Path, query: &str| {
        let mut text = std::ffi::OsString::from("file:");
        text.push(path);
        text.push(query);
        Spec::try_from(text.as_os_str()).unwrap()
    };
    let spec = of(&name(b"\xff a.pcapng"), "?loop=2");
    let port = file::open(&spec, &OpenOptions::default()).unwrap();
    assert_eq!(receive(port).0.len(), 20);
    let options = OpenOptions::default().receive(false).transmit(true);
    file::open(&of(&name(b"b\xfe.pcapng"), ""), &options).unwrap();
    assert!(CaptureReader::open(name(b"b\xfe.pcapng")).is_ok());
}
