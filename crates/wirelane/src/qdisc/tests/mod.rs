//! The disciplines before an interface under the test's control, and before a simulated one.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod conservation;
mod limits;
mod locks;
mod queues;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::stats::{BandStats, Sent};
use super::*;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pool::{Pool, PoolConfig};
use crate::port::{Transmit, Tx};
use crate::stats::TxCounters;

/// The interface as the test sees and controls it.
#[derive(Default)]
struct Seen {
    /// Producer and number of every frame, in the order of transmission.
    frames: Mutex<Vec<(u32, u32)>>,
    /// Frames that the TX ring holds.
    slots: AtomicUsize,
    /// The most frames that each `flush` completes.
    completes: AtomicUsize,
    /// The most frames that were in the ring at once.
    most: AtomicUsize,
}

/// An interface with a TX ring of `slots` frames.
struct Interface {
    seen: Arc<Seen>,
    pending: usize,
    /// Empty frames, for [`Transmit::allocate`].
    pool: Pool,
    counters: Arc<TxCounters>,
}

impl Transmit for Interface {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let slots = self.seen.slots.load(Ordering::Relaxed);
        let taken = batch.len().min(slots.saturating_sub(self.pending));
        let mut frames = self.seen.frames.lock().unwrap();
        frames.extend(batch[..taken].iter().map(number));
        batch.release_first(taken);
        self.pending += taken;
        self.seen.most.fetch_max(self.pending, Ordering::Relaxed);
        self.counters.packets.add(taken as u64);
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        let n = self.seen.completes.load(Ordering::Relaxed);
        self.pending -= n.min(self.pending);
        Ok(())
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn wait(&mut self, _: Duration) -> Result<()> {
        self.flush()
    }
}

/// The producer and number that [`fill`] wrote.
fn number(frame: &Frame) -> (u32, u32) {
    let at = |i: usize| u32::from_be_bytes(frame.data()[i..i + 4].try_into().unwrap());
    (at(0), at(4))
}

/// A discipline before an interface of `slots` frames.
fn egress(spec: &str, slots: usize) -> (Egress, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    seen.slots.store(slots, Ordering::Relaxed);
    seen.completes.store(usize::MAX, Ordering::Relaxed);
    let counters = Arc::new(TxCounters::new(0));
    let interface = Interface {
        seen: Arc::clone(&seen),
        pending: 0,
        pool: pool(64),
        counters: Arc::clone(&counters),
    };
    (Egress::new(&spec.parse().unwrap(), Tx::new(interface, counters)), seen)
}

fn pool(chunks: u32) -> Pool {
    Pool::new(PoolConfig { chunks, chunk_size: 1024, headroom: 0, numa_node: None }).unwrap()
}

/// Adds `n` frames of `length` bytes to `batch`, numbered from `next` on.
fn fill(
    pool: &mut Pool,
    batch: &mut Batch,
    producer: u32,
    next: &mut u32,
    (n, length): (usize, usize),
) {
    let first = batch.len();
    let taken = pool.take(batch, n);
    for frame in &mut batch[first..first + taken] {
        assert!(frame.set_len(length));
        frame.data_mut()[..4].copy_from_slice(&producer.to_be_bytes());
        frame.data_mut()[4..8].copy_from_slice(&next.to_be_bytes());
        *next += 1;
    }
}

/// A producer with a separate pool.
struct Source {
    pool: Pool,
    batch: Batch,
    next: u32,
}

impl Source {
    fn new(chunks: u32) -> Self {
        Self { pool: pool(chunks), batch: Batch::new(256), next: 0 }
    }

    /// A batch of `n` frames of `length` bytes.
    fn frames(&mut self, n: usize, length: usize) -> &mut Batch {
        fill(&mut self.pool, &mut self.batch, 0, &mut self.next, (n, length));
        &mut self.batch
    }
}

/// All disciplines, with and without options.
const ALL: [&str; 13] = [
    "noqueue",
    "noqueue:1",
    "fifo",
    "bulk:8",
    "bulk,bql=on",
    "fifo,enqueue=batch",
    "bulk:8,enqueue=batch,tsq=8k",
    "pfifo_fast:8",
    "lockless",
    "lockless:nobypass",
    "lockless,bql=on",
    "lockless,tsq=8k",
    "fifo,limit=64k,tsq=8k",
];
