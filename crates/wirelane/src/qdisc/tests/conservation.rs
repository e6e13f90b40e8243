//! No frame is lost, doubled or reordered: with many producers, and compared with a plain queue.

use std::collections::VecDeque;

use proptest::prelude::*;
use wirelane_testkit::oracle::Random;

use super::*;

/// Some producers send through one queue, with random batch sizes, an interface that is sometimes
/// full, and flushes in between.
fn many(spec: &str, producers: u32, frames: u32) {
    let (egress, seen) = egress(spec, 300);
    std::thread::scope(|scope| {
        for producer in 0..producers {
            let mut handle = egress.handle();
            scope.spawn(move || {
                let mut random = Random::new(u64::from(producer) + 1);
                let (mut pool, mut batch, mut next) = (pool(2048), Batch::default(), 0);
                let mut now = 0;
                while next < frames || !batch.is_empty() {
                    let n = random.below(65).min(u64::from(frames - next)) as usize;
                    let n = n.min(batch.room());
                    fill(&mut pool, &mut batch, producer, &mut next, (n, 64 + n));
                    let before = batch.len();
                    let sent = handle.send(&mut batch, now);
                    assert_eq!(sent.accepted + sent.dropped + sent.refused, before);
                    assert_eq!(sent.refused, batch.len());
                    now += 1_000;
                    if sent.refused > 0 || random.below(4) == 0 {
                        handle.flush(now).unwrap();
                        std::thread::yield_now();
                    }
                }
                while handle.flush(now).unwrap() > 0 {
                    std::thread::yield_now();
                }
                drop(handle);
                assert_eq!(pool_is_back(&pool), pool.size(), "{spec}");
            });
        }
    });
    let stats = egress.stats();
    let seen = seen.frames.lock().unwrap();
    let dropped = stats.dropped.total();
    assert_eq!(seen.len() as u64 + dropped, u64::from(producers * frames), "{spec}: {stats:?}");
    assert_eq!(stats.bypassed + stats.dequeued, seen.len() as u64, "{spec}: {stats:?}");
    assert_eq!((stats.backlog_packets, stats.backlog_bytes), (0, 0), "{spec}: {stats:?}");
    if !stats.bands.is_empty() {
        let sum = |of: fn(&BandStats) -> u64| stats.bands.iter().map(of).sum::<u64>();
        assert!(stats.bands.iter().all(|band| band.enqueued == band.left + band.backlog));
        assert_eq!(sum(|band| band.enqueued), stats.enqueued, "{stats:?}");
        assert_eq!(sum(|band| band.left), stats.dequeued + stats.dropped.purged, "{stats:?}");
        assert_eq!(sum(|band| band.dropped), stats.dropped.limit_packets, "{stats:?}");
    }
    assert_eq!(stats.bands.is_empty(), !spec.starts_with("pfifo_fast"));
    for producer in 0..producers {
        let mine = seen.iter().filter(|frame| frame.0 == producer).map(|frame| frame.1);
        assert!(mine.is_sorted_by(|a, b| a < b), "{spec}: order and duplicates");
    }
    if spec.starts_with("lockless") {
        assert_eq!(stats.lock_operations, 0);
    }
}

/// The number of free frames of the pool, once other threads have had time to return theirs.
fn pool_is_back(pool: &Pool) -> u32 {
    for _ in 0..10_000 {
        if pool.free() == pool.size() {
            break;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    pool.free()
}

#[test]
fn nothing_is_lost_doubled_or_reordered() {
    let frames = if cfg!(miri) { 40 } else { 1_500 };
    for spec in ALL {
        for producers in if cfg!(miri) { 2..=2 } else { 1..=8 } {
            many(spec, producers, frames);
        }
    }
}

#[test]
fn short_queues_drop_and_keep_the_order() {
    let frames = if cfg!(miri) { 40 } else { 4_000 };
    for spec in [
        "fifo,limit=20",
        "bulk:8,limit=20",
        "bulk:8,limit=20,enqueue=batch",
        "pfifo_fast,limit=20",
        "lockless,limit=32",
        "lockless:nobypass,limit=20",
    ] {
        many(spec, 4, frames);
    }
}

/// A step of a test.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Flush,
    Dequeue(usize),
    Slots(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..70).prop_map(Step::Send),
        1 => Just(Step::Flush),
        1 => (0_usize..70).prop_map(Step::Dequeue),
        1 => (0_usize..100).prop_map(Step::Slots),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    /// Against a `VecDeque` with a limit: same frames kept, same frames out, same counts.
    #[test]
    fn behaves_like_a_plain_queue(
        which in 0_usize..8,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (name, limit) = [
            ("fifo,limit=100", 100),
            ("bulk:8,limit=100", 100),
            ("bulk,limit=100", 100),
            ("fifo,limit=100,enqueue=batch", 100),
            ("pfifo_fast:8,limit=100", 100),
            ("lockless,limit=128", 128),
            ("lockless,limit=100", 100),
            ("lockless:nobypass,limit=128", 128),
        ][which];
        let (egress, seen) = egress(name, 0);
        let (mut handle, mut source) = (egress.handle(), Source::new(256));
        let (mut model, mut out) = (VecDeque::new(), Vec::new());
        let (mut slots, mut pending, mut stopped) = (0_usize, 0_usize, false);
        // Frames that the model passes on while its ring has room.
        let run = |model: &mut VecDeque<u32>, out: &mut Vec<u32>, slots: usize,
                   pending: &mut usize, stopped: &mut bool| {
            while !*stopped && !model.is_empty() {
                if *pending < slots {
                    out.extend(model.pop_front());
                    *pending += 1;
                } else {
                    *stopped = true;
                }
            }
        };
        let mut taken = Batch::new(128);
        for step in steps {
            match step {
                Step::Send(n) => {
                    let first = source.next;
                    let sent = handle.send(source.frames(n, 64), 0);
                    let mut dropped = 0;
                    for k in first..source.next {
                        if model.len() < limit {
                            model.push_back(k);
                        } else {
                            dropped += 1;
                        }
                        // Lockless: the whole batch passes if the queue was empty before it.
                        let waiting = match name.split(',').next() {
                            Some("fifo") if name.ends_with("batch") => usize::MAX,
                            Some("fifo") => 1,
                            Some("bulk:8" | "pfifo_fast:8") => 8,
                            Some("bulk") => 32,
                            Some("lockless") if model.len() <= (k - first) as usize + 1 => 1,
                            _ => usize::MAX,
                        };
                        if model.len() >= waiting {
                            run(&mut model, &mut out, slots, &mut pending, &mut stopped);
                        }
                    }
                    run(&mut model, &mut out, slots, &mut pending, &mut stopped);
                    prop_assert_eq!(sent.dropped, dropped);
                }
                Step::Flush => {
                    run(&mut model, &mut out, slots, &mut pending, &mut stopped);
                    pending = 0;
                    stopped = false;
                    run(&mut model, &mut out, slots, &mut pending, &mut stopped);
                    prop_assert_eq!(handle.flush(0).unwrap(), model.len());
                }
                Step::Dequeue(n) => {
                    let (shared, lane) = (&handle.shared, &mut handle.lane);
                    let got = shared.qdisc.dequeue(lane, &mut taken, n, 0);
                    let n = n.min(model.len());
                    let expected: Vec<u32> = model.drain(..n).collect();
                    prop_assert_eq!(got, expected.len());
                    let numbers: Vec<u32> = taken.iter().map(|frame| number(frame).1).collect();
                    prop_assert_eq!(numbers, expected);
                    taken.clear();
                }
                Step::Slots(n) => {
                    slots = n;
                    seen.slots.store(n, Ordering::Relaxed);
                }
            }
            let numbers: Vec<u32> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
            prop_assert_eq!(&numbers, &out);
            prop_assert_eq!(handle.shared.qdisc.len(), model.len());
            prop_assert_eq!(egress.stats().backlog_packets as usize, model.len());
        }
    }
}
