//! A thread that is kept waiting, as on a busy machine.

use std::time::Duration;

use super::*;
use crate::frame::Batch;
use crate::pcap::CaptureReader;
use crate::port::{self, OpenOptions, Readiness, Receive};

/// What the thread of the second receiving end sleeps before it looks for the first time: longer
/// than the bound.
const KEPT: Duration = Duration::from_millis(1500);

/// Such an end.
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

/// Captures 4000 packets that come within 200 ms; returns the outcome and the times in the file.
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
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut times = Vec::new();
    while reader.advance().unwrap() {
        times.push(reader.current().timestamp);
    }
    assert_eq!(times.len(), 4000);
    (outcome, times)
}

#[test]
fn a_thread_that_is_kept_waiting_is_waited_for() {
    let (outcome, times) = capture(64 << 20);
    assert!(KEPT.as_nanos() > u128::from(outcome.lateness));
    assert_eq!(outcome.violations, 0);
    assert!(times.is_sorted());
}

/// Without memory to wait with, nothing is lost, and what comes too late is counted.
#[test]
fn disorder_is_counted_when_memory_is_scarce() {
    let (outcome, times) = capture(0);
    let disorder = times.iter().fold((0, 0), |(newest, late), time| {
        (time.max(&newest).to_owned(), late + u64::from(*time < newest))
    });
    assert_eq!(outcome.violations, disorder.1);
}
