//! Frames that do not fit: limits, a full TX ring, the byte limit, small queues.

use super::*;

#[test]
fn frames_over_the_limit_are_counted_and_freed() {
    for (spec, length, kept) in [
        ("fifo,limit=10", 64, 10),
        ("bulk:4,limit=10", 64, 10),
        ("bulk:4,limit=10,enqueue=batch", 64, 10),
        ("pfifo_fast:4,limit=10", 64, 10),
        ("lockless,limit=16", 64, 16),
        ("lockless:nobypass,limit=10", 64, 10),
        ("fifo,limit=1000B", 100, 10),
        ("bulk,limit=20,limit=1000B", 100, 10),
    ] {
        let (egress, seen) = egress(spec, 0);
        let (mut handle, mut source) = (egress.handle(), Source::new(64));
        let sent = handle.send(source.frames(32, length), 0);
        assert_eq!(
            sent,
            Sent {
                accepted: kept,
                dropped: 32 - kept,
                refused: 0,
                dropped_packets: 32 - kept as u64
            },
            "{spec}"
        );
        assert_eq!(source.pool.free() as usize, 64 - kept, "{spec}: freed");
        let stats = egress.stats();
        assert_eq!(stats.dropped.total() as usize, 32 - kept, "{spec}");
        let by_bytes = spec.ends_with('B');
        assert_eq!(stats.dropped.limit_bytes > 0, by_bytes, "{spec}");
        assert_eq!(stats.dropped.limit_packets > 0, !by_bytes, "{spec}");
        assert_eq!(stats.backlog_packets as usize, kept, "{spec}");
        assert_eq!(stats.backlog_bytes as usize, kept * length, "{spec}");
        assert!(stats.stops > 0, "{spec}");
        // The interface works again: the queue is woken, and sends the kept frames first.
        seen.slots.store(1000, Ordering::Relaxed);
        assert_eq!(handle.flush(0).unwrap(), 0, "{spec}");
        let numbers: Vec<_> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
        assert_eq!(numbers, (0..kept as u32).collect::<Vec<_>>(), "{spec}");
        assert_eq!(egress.stats().wakes, 1, "{spec}");
        assert_eq!(source.pool.free(), 64);
    }
}

/// Control leaves first, whatever else waits, and a full band does not affect the others.
#[test]
fn bands_are_served_in_their_order_and_have_limits_of_their_own() {
    for spec in ["pfifo_fast:4,limit=10", "pfifo_fast:4,limit=10,enqueue=batch"] {
        let (egress, seen) = egress(spec, 0);
        let (mut handle, mut source) = (egress.handle(), Source::new(64));
        // Bulk (CS1), ordinary, and control (CS6), by the DSCP of an IPv4 header.
        for (count, dscp) in [(12, 8), (8, 0), (5, 48)] {
            let batch = source.frames(count, 64);
            for frame in batch.iter_mut() {
                let bytes = frame.data_mut();
                bytes[12..34].fill(0);
                bytes[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2]);
                bytes[17] = 50;
            }
            let sent = handle.send(batch, 0);
            assert_eq!((sent.accepted, sent.dropped), (count.min(10), count - count.min(10)));
        }
        seen.slots.store(1000, Ordering::Relaxed);
        assert_eq!(handle.flush(0).unwrap(), 0, "{spec}");
        let numbers: Vec<_> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
        assert_eq!(numbers, (20..25).chain(12..20).chain(0..10).collect::<Vec<_>>(), "{spec}");
        assert_eq!(source.pool.free(), 64);
    }
}

#[test]
fn a_full_ring_leaves_frames_with_the_producer_of_noqueue() {
    for spec in ["noqueue", "noqueue:4"] {
        let (egress, seen) = egress(spec, 10);
        let (mut handle, mut source) = (egress.handle(), Source::new(64));
        let sent = handle.send(source.frames(32, 64), 0);
        assert_eq!(sent, Sent { accepted: 10, refused: 22, ..Sent::default() }, "{spec}");
        while !source.batch.is_empty() {
            handle.flush(0).unwrap();
            let _ = handle.send(&mut source.batch, 0);
        }
        let numbers: Vec<_> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
        assert_eq!(numbers, (0..32).collect::<Vec<_>>(), "{spec}");
    }
}

#[test]
fn a_full_ring_stops_the_queue_and_completions_wake_it() {
    for spec in [
        "fifo",
        "bulk:8",
        "bulk:64",
        "bulk:8,enqueue=batch",
        "pfifo_fast",
        "lockless",
        "lockless:nobypass",
        "bulk,bql=on",
    ] {
        let (egress, seen) = egress(spec, 10);
        let (mut handle, mut source) = (egress.handle(), Source::new(128));
        assert_eq!(handle.send(source.frames(64, 64), 0).accepted, 64, "{spec}");
        assert!(egress.stats().backlog_packets >= 54, "{spec}");
        assert_eq!(handle.send(source.frames(64, 64), 0).accepted, 64, "{spec}");
        let mut rounds = 0;
        while handle.flush(rounds).unwrap() > 0 {
            rounds += 1;
            assert!(rounds < 200, "{spec}: stands still");
        }
        let numbers: Vec<_> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
        assert_eq!(numbers, (0..128).collect::<Vec<_>>(), "{spec}");
        let stats = egress.stats();
        assert_eq!(stats.bypassed + stats.dequeued, 128, "{spec}");
        assert_eq!((stats.backlog_packets, stats.backlog_bytes), (0, 0), "{spec}");
        assert!(seen.most.load(Ordering::Relaxed) <= 10);
    }
}

/// With 100 frames completed per round, some hundreds of frames in the ring are enough, although it
/// would accept more.
#[test]
fn the_byte_limit_keeps_the_ring_short_and_busy() {
    for spec in ["bulk,bql=on,limit=4000", "lockless,bql=on,limit=4096", "fifo,bql=on,limit=4000"] {
        let (egress, seen) = egress(spec, 100_000);
        seen.completes.store(100, Ordering::Relaxed);
        let (mut handle, mut source) = (egress.handle(), Source::new(8192));
        let (rounds, mut now, mut before) = (1500, 0, 0);
        for round in 0..rounds {
            let _ = handle.send(source.frames(200, 1000), now);
            now += 4_000_000;
            handle.flush(now).unwrap();
            if round == rounds / 2 {
                before = seen.frames.lock().unwrap().len();
            }
            if round == rounds - 2 {
                let most = egress.stats().bql.unwrap();
                assert!((99_000..=300_000).contains(&most.limit), "{spec}: {most:?}");
                assert!(most.inflight <= 301_000 && most.held > 0, "{spec}: {most:?}");
            }
        }
        let sent = seen.frames.lock().unwrap().len() - before;
        assert!(sent >= (rounds / 2 - 2) * 100, "{spec}: busy all the time: {sent}");
        assert!(egress.stats().dropped.limit_packets > 0, "{spec}: the rest waits in the queue");
    }
}

#[test]
fn a_small_queue_refuses_and_lets_go_on() {
    for spec in [
        "noqueue,tsq=1000B",
        "fifo,tsq=1000B",
        "bulk:4,tsq=1000B",
        "lockless,tsq=1000B",
        "lockless:nobypass,tsq=1000B",
    ] {
        let (egress, seen) = egress(spec, 4);
        let (mut hog, mut other) = (egress.handle(), egress.handle());
        let (mut source, mut more) = (Source::new(64), Source::new(64));
        let sent = hog.send(source.frames(32, 100), 0);
        let most = if spec.starts_with("noqueue") { 4 } else { 10 };
        assert_eq!(sent, Sent { accepted: most, refused: 32 - most, ..Sent::default() }, "{spec}");
        assert_eq!(hog.held(), 100 * most as u64, "{spec}");
        // Another producer has a separate share.
        let sent = other.send(more.frames(5, 100), 0);
        assert_eq!(sent.accepted + sent.refused, 5, "{spec}");
        let mut rounds = 0;
        while !source.batch.is_empty() || !more.batch.is_empty() || hog.held() + other.held() > 0 {
            let _ = (hog.flush(0).unwrap(), other.flush(0).unwrap());
            let _ = (hog.send(&mut source.batch, 0), other.send(&mut more.batch, 0));
            assert!(hog.held() <= 1000, "{spec}");
            rounds += 1;
            assert!(rounds < 100, "{spec}: stands still");
        }
        assert_eq!(seen.frames.lock().unwrap().len(), 37, "{spec}: nothing is dropped");
        let stats = egress.stats();
        assert_eq!(stats.dropped.total(), 0, "{spec}");
        assert!(stats.refused > 0, "{spec}");
    }
}

#[test]
fn purging_gives_everything_back_and_says_so() {
    for spec in
        ["fifo", "bulk", "fifo,enqueue=batch", "pfifo_fast", "lockless:nobypass,tsq=1M", "lockless"]
    {
        let (egress, seen) = egress(spec, 3);
        let (mut handle, mut source) = (egress.handle(), Source::new(64));
        assert_eq!(handle.send(source.frames(40, 64), 0).accepted, 40, "{spec}");
        assert_eq!(handle.purge(0), 37, "{spec}");
        assert_eq!(source.pool.free(), 64, "{spec}");
        handle.flush(0).unwrap();
        assert_eq!(handle.held(), 0, "{spec}");
        let stats = egress.stats();
        assert_eq!((stats.dropped.purged, stats.backlog_packets, stats.backlog_bytes), (37, 0, 0));
        assert_eq!(stats.bypassed + stats.dequeued, 3, "{spec}");
        assert_eq!(seen.frames.lock().unwrap().len(), 3, "{spec}");
    }
}

#[test]
fn what_waits_in_the_ring_is_pending_and_counted_at_the_end() {
    for spec in ALL {
        let (egress, seen) = egress(spec, 64);
        let (mut source, mut handle) = (Source::new(64), egress.handle());
        seen.completes.store(3, Ordering::Relaxed);
        assert_eq!(handle.send(source.frames(8, 100), 0).accepted, 8, "{spec}");
        let mut flushes = 0;
        while handle.flush(flushes).unwrap() + handle.pending() > 0 {
            flushes += 1;
            assert!(flushes < 10, "{spec}: {} pending", handle.pending());
        }
        assert!(flushes > 0 && seen.frames.lock().unwrap().len() == 8, "{spec}: {flushes}");
        // No frame leaves any more.
        seen.completes.store(0, Ordering::Relaxed);
        assert_eq!(handle.send(source.frames(1, 100), 0).accepted, 1, "{spec}");
        handle.flush(flushes).unwrap();
        assert_eq!(handle.pending(), 1, "{spec}");
        let counters = Arc::clone(egress.tx_counters());
        drop(handle);
        egress.close();
        assert_eq!(counters.errors.value(), 1, "{spec}");
        drop(egress);
        assert_eq!(counters.errors.value(), 1, "{spec}: counted twice");
    }
}
