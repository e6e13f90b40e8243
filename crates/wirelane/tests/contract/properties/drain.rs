//! Closing a transmitting end: every accepted frame is counted as sent or as an error, and returns
//! to its pool.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::internal::stats::TxCounters;
use wirelane::port::Tx;
use wirelane::{Batch, Pool, PoolConfig};

use crate::bed::Bed;
use crate::session::{PATIENCE, Session, Verified, rx_only};
use crate::traffic::{mixed, short};

/// The number of frames that each end accepts in these tests. Half of them are from a separate
/// pool.
const COUNT: u32 = 48;

/// After an end is drained, all frames are counted and sent, and none is pending.
pub(crate) fn a_drained_end_has_sent_everything(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let mut pool = foreign();
    for place in 0..session.tx.len() {
        take_some(&mut session, &mut pool, place);
        let tx = &mut session.tx[place];
        assert_eq!(tx.drain(PATIENCE).unwrap(), 0, "TX queue {}", tx.queue());
        assert_eq!((tx.pending(), tx.counters().packets.value()), (0, u64::from(COUNT)));
        assert_eq!(tx.drain(Duration::ZERO).unwrap(), 0, "nothing is left to be done");
        session.watch();
    }
    let verified = session.finish();
    assert_whole(&mut pool);
    verified
}

/// An end that is dropped right after it accepted frames, without a flush, sends them.
pub(crate) fn a_dropped_end_sends_what_it_took(bed: &mut dyn Bed) -> Verified {
    let mut session = Session::start(bed);
    let mut pool = foreign();
    let counters = counters(&session.tx);
    for place in 0..counters.len() {
        take_some(&mut session, &mut pool, place);
    }
    session.tx.clear();
    for counters in &counters {
        let counted = (counters.packets.value(), counters.errors.value());
        assert_eq!(counted, (u64::from(COUNT), 0), "TX queue {}", counters.queue);
    }
    session.watch();
    let sent = Verified::of(u64::from(COUNT) * counters.len() as u64);
    let verified = session.finish().and(sent);
    assert_whole(&mut pool);
    verified
}

/// An end that is dropped when it is full, because it was never flushed, counts all frames that it
/// accepted.
pub(crate) fn a_full_end_that_is_dropped_counts_every_frame(bed: &mut dyn Bed) -> Verified {
    let fills = bed.promises().fills;
    let mut session = Session::start(bed);
    let mut pool = foreign();
    let counters = counters(&session.tx);
    for (place, counters) in counters.iter().enumerate() {
        let left = fill(&mut session, &mut pool, place);
        assert!(left > 0 || !fills, "TX queue {} is full", counters.queue);
    }
    session.tx.clear();
    let sent = balance(&counters, &session.taken);
    let taken: u64 = session.taken.iter().map(|taken| u64::from(*taken)).sum();
    assert_eq!(sent, taken, "there was a link, and time");
    session.watch_overload();
    let verified = session.finish().and(Verified::of(sent));
    assert_whole(&mut pool);
    verified
}

/// An end that is dropped without a link counts all frames that it accepted. The next port sends
/// again.
pub(crate) fn an_end_dropped_without_a_link_counts_every_frame(bed: &mut dyn Bed) -> Verified {
    let mut pool = foreign();
    {
        // Receiving without a link is not part of this property.
        let options = rx_only().receive(false);
        let mut session = Session::open(bed, None, &options);
        session.port.start().unwrap();
        let counters = counters(&session.tx);
        let is_down = session.bed.set_link(false);
        for place in 0..counters.len() {
            take_some(&mut session, &mut pool, place);
        }
        session.tx.clear();
        balance(&counters, &session.taken);
        if !is_down {
            session.watch();
        }
        session.assert_nothing_held();
    }
    assert_whole(&mut pool);
    bed.set_link(true);
    let mut session = Session::start(bed);
    session.transmit(20, mixed);
    session.finish()
}

fn foreign() -> Pool {
    let config = PoolConfig { chunks: 8192, chunk_size: 256, headroom: 64, numa_node: None };
    Pool::new(config).unwrap()
}

fn counters(ends: &[Tx]) -> Vec<Arc<TxCounters>> {
    ends.iter().map(|tx| Arc::clone(tx.counters())).collect()
}

/// Transmits [`COUNT`] frames on the end at `place`, without a flush.
#[track_caller]
fn take_some(session: &mut Session<'_>, pool: &mut Pool, place: usize) {
    let mut batch = Batch::new(COUNT as usize);
    session.tx[place].allocate(&mut batch, COUNT as usize / 2);
    pool.take(&mut batch, COUNT as usize / 2);
    assert_eq!(batch.len(), COUNT as usize);
    tag(session, &mut batch, place);
    let deadline = Instant::now() + PATIENCE;
    while !batch.is_empty() {
        // A device that shares its memory between queues may be busy with another queue.
        session.taken[place] += session.tx[place].transmit(&mut batch) as u32;
        assert!(Instant::now() < deadline, "{} of {COUNT} frames are not taken", batch.len());
    }
}

/// Transmits frames on the end at `place` until it is full, or 4000. Returns how many of the last
/// batch it did not accept.
fn fill(session: &mut Session<'_>, pool: &mut Pool, place: usize) -> u32 {
    let mut batch = Batch::new(50);
    while batch.is_empty() && session.taken[place] < 4000 && pool.take(&mut batch, 50) > 0 {
        tag(session, &mut batch, place);
        session.taken[place] += session.tx[place].transmit(&mut batch) as u32;
    }
    batch.len() as u32
}

/// Fills the batch with the next frames of the end at `place`.
fn tag(session: &Session<'_>, batch: &mut Batch, place: usize) {
    let macs = session.bed.promises().macs;
    let queue = session.tx[place].queue();
    for (number, frame) in (session.taken[place]..).zip(batch.iter_mut()) {
        let tag = session.tag(queue, number, short(number, 60));
        assert!(frame.fill(&tag.frame(session.bed.flow(queue), macs)));
    }
}

/// Checks that each end has counted the frames that it accepted. Returns the number of frames sent.
#[track_caller]
fn balance(counters: &[Arc<TxCounters>], taken: &[u32]) -> u64 {
    for (counters, taken) in counters.iter().zip(taken) {
        let (sent, errors) = (counters.packets.value(), counters.errors.value());
        let queue = counters.queue;
        assert_eq!(sent + errors, u64::from(*taken), "TX queue {queue}: {sent} + {errors}");
    }
    counters.iter().map(|counters| counters.packets.value()).sum()
}

/// Checks that every frame returns to its pool.
#[track_caller]
fn assert_whole(pool: &mut Pool) {
    let deadline = Instant::now() + PATIENCE;
    while pool.free() < pool.size() {
        // The pool collects returned frames only when frames are requested.
        pool.take(&mut Batch::new(0), 0);
        assert!(Instant::now() < deadline, "{} of {} came home", pool.free(), pool.size());
        thread::sleep(Duration::from_millis(1));
    }
}
