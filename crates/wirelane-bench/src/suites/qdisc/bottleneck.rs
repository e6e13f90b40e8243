//! How long control packets wait behind bulk packets where a link is slower than its senders.
//!
//! ```text
//!   bulk, as much as it can ─┐
//!                            ├─▶ discipline ─▶ TX ring of 512 ─▶ link of 100 Mbit/s
//!   control, now and then ───┘
//! ```
//!
//! The 2014 qdisc paper asks what a discipline should do when its locks are cheap: send control
//! before bulk (`pfifo_fast`), keep the ring short (BQL), and limit the share of one sender (TSQ).
//! This module measures the effect of each on waiting time, in simulated time: the disciplines read
//! no clock, so the same run gives the same times on every machine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wirelane::error::Result;
use wirelane::frame::Batch;
use wirelane::internal::port::Transmit;
use wirelane::internal::qdisc::{Egress, EgressHandle};
use wirelane::internal::stats::TxCounters;
use wirelane::pool::{Pool, PoolConfig};
use wirelane::port::Tx;
use wirelane::qdisc::QdiscSpec;

use super::bench::SUITE;
use crate::row::{FigureRow, RowSubject, params};

const CASE: &str = "bottleneck";
/// The disciplines, without and with limits on the ring (BQL) and on a sender (TSQ).
const SPECS: [&str; 6] = [
    "fifo",
    "fifo,bql=on",
    "fifo,tsq=64k",
    "fifo,bql=on,tsq=64k",
    "pfifo_fast",
    "pfifo_fast,bql=on",
];
/// Nanoseconds that the link takes for a byte.
const BYTE: u64 = 80;
const SLOTS: usize = 512;
/// Time between two turns of the senders, and how many packets bulk offers in each: four times the
/// rate of the link.
const TICK: u64 = 200_000;
const OFFERED: usize = 7;
const BULK: usize = 1500;
const CONTROL: usize = 100;
/// The number of ticks per control packet.
const PAUSE: u64 = 10;
/// The measured period: queues are full, and byte limits have settled.
const SETTLED: u64 = 200_000_000;
const END: u64 = 420_000_000;
/// Frames of each sender: more than queue and ring hold.
const FRAMES: u32 = 2048;

/// The samples, by discipline and round.
#[derive(Default)]
pub(super) struct Bottleneck {
    samples: [Vec<BottleneckSample>; SPECS.len()],
}

/// The sample of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BottleneckSample {
    /// The median wait of control packets, in nanoseconds.
    median: f64,
    longest: f64,
    /// The share of control packets that a limit dropped.
    lost: f64,
    /// The used share of the link's capacity.
    used: f64,
}

impl Bottleneck {
    /// Measures all disciplines once.
    pub(super) fn measure(&mut self, round: u32) -> Result<()> {
        for (spec, samples) in SPECS.iter().zip(&mut self.samples) {
            samples.push(sample(spec, round)?);
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> Vec<FigureRow> {
        let mut rows = Vec::new();
        for (spec, samples) in SPECS.iter().zip(&self.samples) {
            let params = params![qdisc = *spec];
            let subject = RowSubject { suite: SUITE, case: CASE, peer: None, params };
            let mut row = |metric, of: fn(&BottleneckSample) -> f64| {
                rows.push(subject.row(metric, samples.iter().map(of).collect()));
            };
            row("control_wait_ms", |sample| sample.median / 1e6);
            row("control_wait_max_ms", |sample| sample.longest / 1e6);
            row("control_lost_share", |sample| sample.lost);
            row("link_share", |sample| sample.used);
        }
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

/// Sends bulk and control packets through the discipline of `spec` for the whole period.
fn sample(spec: &str, round: u32) -> Result<BottleneckSample> {
    let link = Arc::new(BottleneckLink::default());
    let counters = Arc::new(TxCounters::new(0));
    let end = BottleneckTx {
        link: Arc::clone(&link),
        counters: Arc::clone(&counters),
        ring: VecDeque::with_capacity(SLOTS),
        free: 0,
    };
    let spec: QdiscSpec = spec.parse()?;
    let egress = Egress::new(&spec, Tx::new(end, counters));
    let mut bulk = BottleneckSender::new(&egress, BULK, ORDINARY)?;
    let mut control = BottleneckSender::new(&egress, CONTROL, LLDP)?;
    for tick in 0..END / TICK {
        let now = tick * TICK;
        link.now.store(now, Ordering::Relaxed);
        // Frees the slots of packets that have left.
        bulk.flush(now)?;
        // Control packets are sent at a different tick in every round. Every other one is sent
        // after bulk: a full queue then has no room.
        let turn = tick + u64::from(round);
        let (is_due, is_behind) = (turn.is_multiple_of(PAUSE), turn % (2 * PAUSE) == PAUSE);
        if is_due && !is_behind {
            control.offer(1, now);
            control.send(now)?;
        }
        bulk.offer(OFFERED, now);
        bulk.send(now)?;
        if is_due && is_behind {
            control.offer(1, now);
            control.send(now)?;
        }
    }
    let mut waits = std::mem::take(&mut *link.waits());
    waits.sort_unstable();
    let at = |place: usize| waits.get(place).copied().unwrap_or(0) as f64;
    let used = link.bytes.load(Ordering::Relaxed) * BYTE;
    Ok(BottleneckSample {
        median: at(waits.len() / 2),
        longest: at(waits.len().saturating_sub(1)),
        lost: control.dropped as f64 / control.offered.max(1) as f64,
        used: used as f64 / (END - SETTLED) as f64,
    })
}

/// EtherTypes of test frames: control and bulk.
const LLDP: [u8; 2] = [0x88, 0xcc];
const ORDINARY: [u8; 2] = [0x88, 0xb5];

/// A sender of packets of one kind. It keeps packets that the discipline does not accept.
struct BottleneckSender {
    handle: EgressHandle,
    pool: Pool,
    batch: Batch,
    packet: Vec<u8>,
    /// Packets offered since queues have settled.
    offered: u64,
    dropped: u64,
}

impl BottleneckSender {
    fn new(egress: &Egress, length: usize, ethertype: [u8; 2]) -> Result<Self> {
        let config = PoolConfig { chunks: FRAMES, chunk_size: 2048, ..PoolConfig::default() };
        let mut packet = vec![2; length];
        packet[12..14].copy_from_slice(&ethertype);
        Ok(Self {
            handle: egress.handle(),
            pool: Pool::new(config)?,
            batch: Batch::default(),
            packet,
            offered: 0,
            dropped: 0,
        })
    }

    /// Fills the batch up to `packets`. Packets that were not accepted before stay in it.
    fn offer(&mut self, packets: usize, now: u64) {
        let before = self.batch.len();
        self.pool.take(&mut self.batch, packets.saturating_sub(before));
        for frame in self.batch.iter_mut().skip(before) {
            // A frame of the pool has room for it.
            let _ = frame.fill(&self.packet);
            frame.set_timestamp(now);
            self.offered += u64::from(now >= SETTLED);
        }
    }

    fn send(&mut self, now: u64) -> Result<()> {
        let sent = self.handle.send(&mut self.batch, now);
        if now >= SETTLED {
            self.dropped += sent.dropped as u64;
        }
        self.flush(now)
    }

    fn flush(&mut self, now: u64) -> Result<()> {
        self.handle.flush(now).map(drop)
    }
}

/// The link's time, and its results.
#[derive(Default)]
struct BottleneckLink {
    /// The simulated time.
    now: AtomicU64,
    /// Bytes sent since queues have settled.
    bytes: AtomicU64,
    /// The time until each control packet had left, since queues have settled.
    waits: Mutex<Vec<u64>>,
}

impl BottleneckLink {
    fn waits(&self) -> MutexGuard<'_, Vec<u64>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transmitting end of the link.
struct BottleneckTx {
    link: Arc<BottleneckLink>,
    counters: Arc<TxCounters>,
    /// The time when each packet in the ring will have left.
    ring: VecDeque<u64>,
    /// The time when the last packet will have left.
    free: u64,
}

impl Transmit for BottleneckTx {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let now = self.link.now.load(Ordering::Relaxed);
        let taken = batch.len().min(SLOTS - self.ring.len());
        for frame in batch.iter().take(taken) {
            self.free = self.free.max(now) + frame.len() as u64 * BYTE;
            self.ring.push_back(self.free);
            if (SETTLED..END).contains(&self.free) {
                self.link.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
            }
            let is_control = frame.data().get(12..14) == Some(&LLDP);
            if is_control && frame.timestamp() >= SETTLED {
                self.link.waits().push(self.free - frame.timestamp());
            }
            self.counters.count(1, frame.len() as u64);
        }
        batch.release_first(taken);
        taken
    }

    fn allocate(&mut self, _: &mut Batch, _: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<()> {
        let now = self.link.now.load(Ordering::Relaxed);
        while self.ring.front().is_some_and(|left| *left <= now) {
            self.ring.pop_front();
        }
        Ok(())
    }

    fn pending(&self) -> usize {
        self.ring.len()
    }

    fn wait(&mut self, _: Duration) -> Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ring and queue of `fifo` hold 512 and 1000 packets of 1500 bytes, 120 µs each; some have
    /// just left.
    #[test]
    fn bands_pass_the_queue_and_limits_empty_the_ring() {
        let [fifo, fifo_bql, small, both, bands, bands_bql] =
            SPECS.map(|spec| sample(spec, 1).unwrap());
        let ms = |sample: BottleneckSample| sample.median / 1e6;
        let all = [fifo, fifo_bql, small, both, bands, bands_bql];
        assert!((172.0..182.0).contains(&ms(fifo)), "{all:?}");
        assert!((56.0..62.0).contains(&ms(bands)), "the ring alone: {all:?}");
        assert!((114.0..122.0).contains(&ms(fifo_bql)), "the queue alone: {all:?}");
        assert!(ms(small) < 7.0 && ms(both) < 7.0, "64 KiB: {all:?}");
        assert!(ms(bands_bql) < 2.0, "{all:?}");
        assert_eq!((bands.lost, bands_bql.lost, small.lost), (0.0, 0.0, 0.0), "{all:?}");
        assert!((0.4..0.6).contains(&fifo.lost), "what comes to a full queue: {all:?}");
        for sample in all {
            assert!((0.97..1.01).contains(&sample.used), "the link is not idle: {sample:?}");
        }
    }

    #[test]
    fn a_run_is_the_same_again_but_for_the_round() {
        assert_eq!(
            sample("pfifo_fast,bql=on", 3).unwrap(),
            sample("pfifo_fast,bql=on", 3).unwrap()
        );
    }
}
