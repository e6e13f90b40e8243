//! The sockets engine over ports that need no privilege.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::{Duration, Instant};

use wirelane::port::{self, OpenOptions, Port};
use wirelane_gen::source::{Departure, PacketSource, ThreadShare};
use wirelane_send::{Pacing, SendConfig, SendOutcome, sockets};

/// The packets `next`, `next + of` … below `end`. The packets of all lanes are `gap` nanoseconds
/// apart.
struct Numbered {
    next: u64,
    of: u64,
    end: u64,
    gap: u64,
    lengths: Vec<usize>,
    fails_at: Option<u64>,
}

impl Numbered {
    fn new(lane: ThreadShare, end: u64, gap: u64) -> Self {
        let (next, of) = (u64::from(lane.index), u64::from(lane.of));
        Self { next, of, end, gap, lengths: vec![60], fails_at: None }
    }

    fn len(&self) -> usize {
        self.lengths[(self.next as usize) % self.lengths.len()]
    }
}

impl PacketSource for Numbered {
    fn next(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        if self.fails_at.is_some_and(|at| self.next >= at) {
            return Err(wirelane_gen::Error::of_source("the disk is gone"));
        }
        let departure = Departure { at: self.next * self.gap, len: self.len(), stream: 0 };
        Ok((self.next < self.end).then_some(departure))
    }

    fn write(&mut self, packet: &mut [u8], _now: u64) {
        assert_eq!(packet.len(), self.len());
        packet.fill(0);
        packet[..12].fill(2);
        packet[12..14].copy_from_slice(&[0x88, 0xB5]);
        packet[14..22].copy_from_slice(&self.next.to_be_bytes());
        self.next += self.of;
    }

    fn skip(&mut self) {
        self.next += self.of;
    }
}

fn open(spec: &str) -> Port {
    let options = OpenOptions::default().receive(false).transmit(true);
    port::open(&spec.parse().unwrap(), &options).unwrap()
}

fn run(port: Port, config: &SendConfig, make: impl Fn(ThreadShare) -> Numbered) -> SendOutcome {
    let mut sources = |lane| Ok(Box::new(make(lane)) as Box<dyn PacketSource>);
    let sending = sockets::start(port, &mut sources, config).unwrap();
    assert!(sending.wait(Duration::from_secs(60)));
    sending.join()
}

#[test]
fn every_lane_sends_its_part_in_time() {
    let started = Instant::now();
    let numbered = |lane| Numbered::new(lane, 1001, 100_000);
    let outcome = run(open("sim:2"), &SendConfig::default(), numbered);
    assert!(started.elapsed() >= Duration::from_millis(100));
    let sent: Vec<_> = outcome.tx.iter().map(|tx| (tx.queue, tx.packets, tx.errors)).collect();
    assert_eq!((sent, outcome.errors.len()), (vec![(0, 501, 0), (1, 500, 0)], 0));
    let timing = &outcome.timing;
    assert_eq!(timing.scheduled, Some(Duration::from_millis(100)));
    assert_eq!((timing.packets, timing.scheduled_rate()), (1001, Some(10_000.0)));
    assert!(timing.error.is_some() && timing.rate_error().is_some());
    assert_eq!(outcome.frames.held(), 0);
}

#[test]
fn the_end_is_exact() {
    let endless = |lane| Numbered::new(lane, u64::MAX, 10_000);
    // A packet limit counts all lanes together. A time limit excludes the packet that is due at the
    // end.
    let config = SendConfig::default().packets(777);
    assert_eq!(run(open("sim:2"), &config, endless).sent(), 777);
    let config = SendConfig::default().duration(Duration::from_millis(50));
    assert_eq!(run(open("sim:2"), &config, endless).sent(), 5000);
    // Packets without scheduled times end when the time has passed.
    let config = SendConfig::default().duration(Duration::from_millis(20));
    let started = Instant::now();
    let outcome = run(open("sim:1"), &config, |lane| Numbered::new(lane, u64::MAX, 0));
    assert!(started.elapsed() >= Duration::from_millis(20) && outcome.sent() > 1000);
    assert_eq!((outcome.timing.scheduled, outcome.timing.error), (None, None));
}

#[test]
fn a_stop_ends_a_long_wait_with_exact_counts() {
    let day = 86_400 * 1_000_000_000;
    let mut sources =
        |lane| Ok(Box::new(Numbered::new(lane, u64::MAX, day)) as Box<dyn PacketSource>);
    let config = SendConfig::default();
    let sending = sockets::start(open("sim:1"), &mut sources, &config).unwrap();
    while sending.progress().packets == 0 {
        assert!(!sending.wait(Duration::from_millis(1)));
    }
    sending.stop();
    assert!(sending.wait(Duration::from_secs(60)));
    let outcome = sending.join();
    assert_eq!((outcome.sent(), outcome.timing.packets, outcome.errors.len()), (1, 1, 0));
}

#[test]
fn a_source_that_fails_ends_it_with_what_went_before() {
    let outcome = run(open("sim:1"), &SendConfig::default(), |lane| Numbered {
        fails_at: Some(100),
        ..Numbered::new(lane, 1000, 1000)
    });
    let errors: Vec<_> = outcome.errors.iter().map(ToString::to_string).collect();
    assert_eq!((outcome.sent(), errors), (100, vec!["packets to send: the disk is gone".into()]));
}

#[test]
fn a_file_keeps_the_schedule_and_what_is_too_long_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.pcap");
    let port = open(&format!("file:{}", path.display()));
    let config = SendConfig::default().pacing(Pacing::default().burst(7));
    let outcome = run(port, &config, |lane| Numbered {
        lengths: vec![60, 1514, 400_000],
        ..Numbered::new(lane, 300, 20_000)
    });
    assert_eq!((outcome.sent(), outcome.skipped.too_long, outcome.errors.len()), (200, 100, 0));
    assert_eq!(outcome.port.notes.len(), 1, "{:?}", outcome.port.notes);
    let spec = format!("file:{}", path.display()).parse().unwrap();
    let mut source = port::open(&spec, &OpenOptions::default()).unwrap();
    let mut inputs = source.rx().unwrap();
    source.start().unwrap();
    let mut seen = Vec::new();
    let note = |_: usize, batch: &mut wirelane::Batch| {
        for frame in batch.iter() {
            let number = u64::from_be_bytes(frame.data()[14..22].try_into().unwrap());
            seen.push((number, frame.len(), frame.timestamp()));
        }
        Ok(())
    };
    wirelane::pipeline::run(&mut inputs, note).unwrap();
    let first = seen[0].2;
    for (position, (number, len, time)) in seen.iter().enumerate() {
        let expected = (position / 2 * 3 + position % 2) as u64;
        assert_eq!((*number, *len), (expected, [60, 1514][position % 2]));
        // The file has a resolution of microseconds.
        assert!((time - first).abs_diff(expected * 20_000) < 1000, "{position}");
    }
    assert_eq!(seen.len(), 200);
}
