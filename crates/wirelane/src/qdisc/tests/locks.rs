//! Counts lock operations.

use super::*;

/// Lock operations for `batches` batches of `size` frames, all sent by one producer.
fn locks(spec: &str, batches: usize, size: usize) -> usize {
    let (egress, seen) = egress(spec, usize::MAX);
    let (mut handle, mut source) = (egress.handle(), Source::new(256));
    for _ in 0..batches {
        let sent = handle.send(source.frames(size, 64), 0);
        assert_eq!(sent, Sent { accepted: size, ..Sent::default() });
    }
    assert_eq!(seen.frames.lock().unwrap().len(), batches * size, "{spec}");
    egress.stats().lock_operations as usize
}

#[test]
fn lock_operations_follow_the_formulas() {
    let (batches, size) = (10, 32);
    let frames = batches * size;
    assert_eq!(locks("fifo", batches, size), 6 * frames);
    for n in [1, 2, 4, 8, 16, 32] {
        assert_eq!(locks(&format!("bulk:{n}"), batches, size), 2 * frames + 4 * frames / n, "{n}");
    }
    // A round that is not full costs as much: 2 per frame and 4 per round, of which 5 are needed.
    assert_eq!(locks("bulk:7", batches, size), 2 * frames + 4 * 5 * batches);
    // Enqueued in bulk: 2 per batch.
    assert_eq!(locks("fifo,enqueue=batch", batches, size), 2 * batches + 4 * frames);
    assert_eq!(locks("bulk:8,enqueue=batch", batches, size), 2 * batches + 4 * frames / 8);
    assert_eq!(locks("bulk:32,enqueue=batch", batches, size), 6 * batches);
    assert_eq!(locks("pfifo_fast:8", batches, size), 2 * frames + 4 * frames / 8);
    assert_eq!(locks("noqueue", batches, size), 2 * batches);
    assert_eq!(locks("noqueue:1", batches, size), 2 * frames);
    assert_eq!(locks("lockless", batches, size), 0);
    assert_eq!(locks("lockless:nobypass", batches, size), 0);
}

/// A producer that enqueues while another one runs the queue takes two lock operations, and the
/// runner four for the round.
#[test]
fn six_per_frame_whoever_runs() {
    for threads in [2, 4] {
        let frames = if cfg!(miri) { 50 } else { 5_000 };
        let (egress, seen) = egress("fifo,limit=100000", usize::MAX);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let mut handle = egress.handle();
                scope.spawn(move || {
                    let mut source = Source::new(1024);
                    let mut sent = 0;
                    while sent < frames {
                        let batch = source.frames(16.min(frames - sent), 64);
                        sent += handle.send(batch, 0).accepted;
                    }
                });
            }
        });
        let stats = egress.stats();
        let transmitted = seen.frames.lock().unwrap().len() as u64;
        assert_eq!(stats.bypassed + stats.dequeued, transmitted);
        // Frames that the runner left at its quota are not dequeued yet, and have taken two
        // operations each.
        let expected = 6 * transmitted + 2 * stats.backlog_packets;
        assert_eq!(stats.lock_operations, expected);
    }
}

#[test]
fn bypass_and_ring_are_told_apart() {
    for (spec, bypassed, enqueued) in [
        ("lockless", 64, 0),
        ("lockless:nobypass", 0, 64),
        ("fifo", 64, 0),
        ("bulk:8", 0, 64),
        ("fifo,enqueue=batch", 0, 64),
    ] {
        let (egress, _) = egress(spec, usize::MAX);
        let (mut handle, mut source) = (egress.handle(), Source::new(64));
        assert_eq!(handle.send(source.frames(64, 100), 0).accepted, 64);
        let stats = egress.stats();
        assert_eq!(
            (stats.bypassed, stats.enqueued, stats.dequeued),
            (bypassed, enqueued, enqueued)
        );
        assert_eq!(stats.enqueued_bytes, 100 * enqueued);
        assert_eq!(stats.dequeued_bytes, 100 * enqueued);
        assert_eq!((stats.backlog_packets, stats.backlog_bytes), (0, 0));
    }
}
