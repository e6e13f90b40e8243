//! A thread that is kept waiting, as on a busy machine; several files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::Class;
use crate::frame::Batch;
use crate::pcap::{CaptureReader, CaptureWriter, Direction, Record, Source, WriterOptions};
use crate::port::{self, OpenOptions, Readiness, Receive};

/// How long the thread of the second receiving end sleeps before its first call: longer than the
/// bound.
const KEPT: Duration = Duration::from_millis(1500);

/// A receiving end that sleeps first.
struct KeptRx {
    inner: Box<dyn Receive>,
    asleep: bool,
}

impl Receive for KeptRx {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if std::mem::take(&mut self.asleep) {
            std::thread::sleep(KEPT);
        }
        self.inner.receive(batch)
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        self.inner.readiness()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

/// Captures 4000 packets that arrive within 200 ms; returns the outcome and the times in the file.
fn capture(buffer: usize) -> (CaptureOutcome, Vec<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    let spec = "sim:2?rate=20kpps&count=4000".parse().unwrap();
    let mut port = port::open(&spec, &OpenOptions::default()).unwrap();
    let mut position = 0..;
    port.map_rx(|rx| match position.next() {
        Some(1) => rx.wrap(|inner, _| KeptRx { inner, asleep: true }),
        _ => rx,
    });
    let options = WriterOptions::of_path(&path);
    let output = Some(OutputConfig { path: path.clone(), options, split: false });
    let config = CaptureConfig { output, buffer, ..CaptureConfig::default() };
    let running = Capture::start(vec![port], &config).unwrap();
    assert!(running.wait(Duration::from_secs(120)));
    let outcome = running.join();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    let times = times(&path);
    assert_eq!(times.len(), 4000);
    (outcome, times)
}

/// The times of the packets in a file.
fn times(path: &Path) -> Vec<u64> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut times = Vec::new();
    while reader.advance().unwrap() {
        times.push(reader.current().timestamp);
    }
    times
}

#[test]
fn a_thread_that_is_kept_waiting_is_waited_for() {
    let (outcome, times) = capture(64 << 20);
    assert!(KEPT.as_nanos() > u128::from(outcome.lateness));
    assert_eq!(outcome.violations, 0);
    assert!(times.is_sorted());
}

/// Without memory for waiting, no packet is lost, and late packets are counted.
#[test]
fn disorder_is_counted_when_memory_is_scarce() {
    let (outcome, times) = capture(0);
    let disorder = times.iter().fold((0, 0), |(newest, late), time| {
        (time.max(&newest).to_owned(), late + u64::from(*time < newest))
    });
    assert_eq!(outcome.violations, disorder.1);
}

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Writes a file with a packet of `length` bytes at each of these seconds.
fn write(path: &Path, seconds: impl Iterator<Item = u64>, length: usize) {
    let source = Source::new("x", Class::Rx, Some(0));
    let mut writer =
        CaptureWriter::create(path, &[source], WriterOptions::of_path(path), 0).unwrap();
    let data = vec![0; length];
    for second in seconds {
        let record = Record {
            interface: 0,
            timestamp: START + second * SECOND,
            original_len: length as u32,
            direction: Direction::Unknown,
            data: &data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// Captures two files, which hold these seconds, with memory for few packets; returns the seconds
/// in each file that was written.
fn capture_two(
    inputs: [&mut dyn Iterator<Item = u64>; 2],
    length: usize,
    packets: Option<u64>,
    split: bool,
) -> Vec<Vec<u64>> {
    let directory = tempfile::tempdir().unwrap();
    let names = ["a.pcapng", "b.pcapng"].map(|name| directory.path().join(name));
    let open = |(path, seconds): (&PathBuf, _)| {
        write(path, seconds, length);
        let spec = format!("file:{}", path.display()).parse().unwrap();
        port::open(&spec, &OpenOptions::default()).unwrap()
    };
    let ports = names.iter().zip(inputs).map(open).collect();
    let to = directory.path().join("to");
    std::fs::create_dir(&to).unwrap();
    let path = to.join("x.pcapng");
    let options = WriterOptions::of_path(&path);
    let output = Some(OutputConfig { path, options, split });
    let config = CaptureConfig { output, packets, buffer: 0, ..CaptureConfig::default() };
    let running = Capture::start(ports, &config).unwrap();
    assert!(running.wait(Duration::from_secs(60)), "it does not end");
    let outcome = running.join();
    assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
    assert_eq!(outcome.violations, 0);
    let mut files: Vec<_> =
        std::fs::read_dir(to).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seconds = |file: &PathBuf| -> Vec<u64> {
        times(file).into_iter().map(|time| (time - START) / SECOND).collect()
    };
    files.iter().map(seconds).collect()
}

/// Chunks for a few thousand packets at most, each packet a second after the last one.
#[test]
fn several_files_have_one_order_of_time() {
    const ALL: u64 = 20_000;
    // For 9000 packets, one thread receives from all queues of a port.
    for packets in [None, Some(9_000), Some(12_345)] {
        let expected: Vec<u64> = (0..packets.unwrap_or(ALL)).collect();
        let capture = |[a, b]: [&mut dyn Iterator<Item = u64>; 2]| {
            capture_two([a, b], 60, packets, false).concat()
        };
        assert!(capture([&mut (0..ALL / 2), &mut (ALL / 2..ALL)]) == expected, "{packets:?}");
        assert!(capture([&mut (ALL / 2..ALL), &mut (0..ALL / 2)]) == expected, "{packets:?}");
        let (mut even, mut odd) = ((0..ALL).step_by(2), (1..ALL).step_by(2));
        assert!(capture([&mut even, &mut odd]) == expected, "{packets:?}");
    }
}

/// A thread receives more at a time than its own chunks hold.
#[test]
fn long_packets_of_several_files_do_not_wait_for_each_other() {
    const ALL: u64 = 400;
    let (mut even, mut odd) = ((0..ALL).step_by(2), (1..ALL).step_by(2));
    let captured = capture_two([&mut even, &mut odd], 30_000, None, false).concat();
    assert!(captured.into_iter().eq(0..ALL));
    let captured = capture_two([&mut (200..ALL), &mut (0..200)], 30_000, Some(300), false);
    assert!(captured.concat().into_iter().eq(0..300));
}

#[test]
fn the_files_of_several_files_share_a_limit() {
    let (mut even, mut odd) = ((0..100).step_by(2), (1..100).step_by(2));
    let captured = capture_two([&mut even, &mut odd], 60, Some(7), true);
    assert_eq!(captured, [[0, 2, 4, 6].to_vec(), [1, 3, 5].to_vec()]);
    let captured = capture_two([&mut (10..20_000), &mut (0..10)], 60, Some(15_000), true);
    assert!(captured == [(10..15_000).collect::<Vec<_>>(), (0..10).collect()]);
}
