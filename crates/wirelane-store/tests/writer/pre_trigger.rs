//! With a pre-trigger, only packets around triggers are written.

use std::sync::Arc;
use std::time::Duration;

use wirelane_store::{PreTrigger, StoreOptions, StoreWriter};

use crate::scratch::{Read, Scratch, packet, sources};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

/// Packet `number`, at this second.
fn at(second: u64) -> Read {
    Read { timestamp: START + second * SECOND, ..packet(second) }
}

/// Writes a packet per second, with triggers at some seconds.
fn run(buffer: usize, seconds: u64, triggers: &[u64]) -> (Vec<u64>, wirelane_store::LaneReport) {
    let scratch = Scratch::in_memory();
    let pre_trigger = Arc::new(PreTrigger::new(Duration::from_secs(10), Duration::from_secs(20)));
    let options = StoreOptions::default()
        .segment_bytes(4 << 20)
        .buffer(buffer)
        .pre_trigger(Arc::clone(&pre_trigger));
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let status = store.status();
    for second in 0..seconds {
        lane.tick(second * SECOND);
        if triggers.contains(&second) {
            pre_trigger.fire(START + second * SECOND);
        }
        assert!(lane.wait_for_room(2000, Duration::from_secs(60)));
        assert!(lane.push(&at(second).record(), None));
        // The store thread keeps up with the clock of this test.
        let is_behind = |it: wirelane_store::LaneReport| it.lag() > 0;
        while is_behind(status.report().total()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    lane.finish();
    let report = store.finish();
    let total = report.total();
    assert_eq!(total.taken.packets, total.written.packets + total.forgotten.packets);
    assert_eq!(total.held.packets, 0);
    let seconds = scratch.packets(0).iter().map(|it| (it.timestamp - START) / SECOND).collect();
    (seconds, total)
}

#[test]
fn nothing_is_written_without_a_trigger() {
    let (written, report) = run(64 << 20, 100, &[]);
    assert!(written.is_empty());
    assert_eq!((report.forgotten.packets, report.cut.packets), (100, 0));
}

#[test]
fn what_is_around_a_trigger_is_written() {
    let (written, report) = run(64 << 20, 200, &[50, 52, 150]);
    for second in (40..=72).chain(140..=170) {
        assert!(written.contains(&second), "{second} is missing: {written:?}");
    }
    // An extent is a second of packets here.
    let strays = written.iter().filter(|it| !(38..=75).contains(*it) && !(138..=173).contains(*it));
    assert_eq!(strays.count(), 0, "{written:?}");
    assert_eq!(report.cut.packets, 0);
}

#[test]
fn when_memory_is_short_the_oldest_is_forgotten_and_counted() {
    let (written, report) = run(8 << 20, 60, &[50]);
    assert!(report.cut.packets > 0);
    assert!(!written.contains(&40) && (50..=59).all(|it| written.contains(&it)), "{written:?}");
}
