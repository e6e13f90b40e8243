//! `fifo`, `bulk` and `pfifo_fast`: a queue behind a lock, as `pfifo`, `bfifo` and `pfifo_fast` of
//! Linux 3.15 in the path of that time (`__dev_xmit_skb`, `qdisc_restart` and `sch_direct_xmit`,
//! `net/core/dev.c` and `net/sched/sch_generic.c`). The lock operations are the 2014 qdisc paper's:
//!
//! ```text
//!   (1) lock root     enqueue, or bypass if the queue is empty; start to run it
//!   (2) unlock root   with the frames of one round in hand
//!   (3) lock TX       hand them to the TX ring
//!   (4) unlock TX
//!   (5) lock root     more? then again from (2)
//!   (6) unlock root
//! ```
//!
//! A producer that finds another one running the queue only enqueues: (1) and (6). So every frame
//! costs two operations to enqueue, and every round four: with one frame per round (`fifo`) that
//! is **6 per frame, always**; with up to `n` frames per round (`bulk:n`) it is **2 + 4/n** when
//! rounds are full, 2·frames + 4·rounds exactly. To let rounds fill, `bulk` runs the queue when
//! `n` frames wait or the batch ends, as `xmit_more` lets the kernel's drivers wait.
//!
//! With `enqueue=batch` a producer enqueues a whole batch of `b` frames under (1) and (6), like a
//! packet of segmentation offload with all its segments ("TSO: one lock for 64 KB"): **2/b + 4/n**,
//! and a frame never passes the empty queue.
//!
//! With three [bands](super::bands) (`pfifo_fast`), each band has the whole limit, so that bulk
//! cannot displace control.

use std::collections::VecDeque;

use super::bands::band;
use super::bulk::Round;
use super::discipline::{ProducerState, Qdisc};
use super::link::{LockedTx, Wire};
use super::lock::{Guard, SpinLock};
use super::run::QUOTA;
use super::stats::{BandStats, LaneCounters, QdiscStats, Sent};
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::sync::Counter;

/// The capacity of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimit {
    /// The most frames, as in `pfifo`.
    pub packets: usize,
    /// The most bytes, as in `bfifo`.
    pub bytes: u64,
}

/// See the [module documentation](self). It has one band, or the bands of [`band`].
#[derive(Debug)]
pub(super) struct Fifo<const BANDS: usize> {
    root: SpinLock<LockedQueue<BANDS>>,
    /// The limit of each band.
    limit: QueueLimit,
    round: Round,
    /// A batch is enqueued under one lock.
    batched: bool,
    /// Frames ever put into the queue. Written under the root lock.
    pushed: Counter,
}

/// The data under the root lock.
#[derive(Debug)]
struct LockedQueue<const BANDS: usize> {
    bands: [Band; BANDS],
    /// A producer is between (1) and (6) and runs the queue (`__QDISC___STATE_RUNNING`).
    running: bool,
}

/// A queue of frames.
#[derive(Debug)]
struct Band {
    frames: VecDeque<Frame>,
    bytes: u64,
    enqueued: u64,
    left: u64,
    dropped: u64,
}

impl Band {
    fn with_capacity(frames: usize) -> Self {
        let frames = VecDeque::with_capacity(frames);
        Self { frames, bytes: 0, enqueued: 0, left: 0, dropped: 0 }
    }

    fn stats(&self) -> BandStats {
        let Self { frames, enqueued, left, dropped, .. } = self;
        let backlog = frames.len() as u64;
        BandStats { enqueued: *enqueued, left: *left, dropped: *dropped, backlog }
    }
}

/// The most frames to allocate room for in advance.
const PREPARED: usize = 1 << 16;

impl<const BANDS: usize> Fifo<BANDS> {
    /// A queue within `limit`, of which each lock round takes up to `round`. The lock is taken for
    /// each enqueued frame or, with `batched`, for each batch.
    pub(super) fn new(limit: QueueLimit, round: Round, batched: bool) -> Self {
        // The shortest Ethernet frame has 60 bytes.
        let by_bytes = usize::try_from(limit.bytes / 60).unwrap_or(usize::MAX);
        let prepared = limit.packets.min(by_bytes).saturating_add(1).min(PREPARED);
        let bands = std::array::from_fn(|_| Band::with_capacity(prepared));
        Self {
            root: SpinLock::new(LockedQueue { bands, running: false }),
            limit,
            round,
            batched,
            pushed: Counter::default(),
        }
    }

    /// The band of `frame`.
    #[inline]
    fn band(frame: &Frame) -> usize {
        if BANDS > 1 { band(frame.data()).min(BANDS - 1) } else { 0 }
    }

    /// Appends `frame` to its band. At a limit, returns and counts it.
    #[inline]
    fn push(
        &self,
        queue: &mut LockedQueue<BANDS>,
        lane: &LaneCounters,
        (band, frame): (usize, Frame),
    ) -> Result<(), Frame> {
        let length = frame.len() as u64;
        let queue = &mut queue.bands[band];
        if queue.frames.len() >= self.limit.packets {
            lane.limit_packets.add(1);
            queue.dropped += 1;
            return Err(frame);
        }
        if queue.bytes + length > self.limit.bytes {
            lane.limit_bytes.add(1);
            queue.dropped += 1;
            return Err(frame);
        }
        queue.frames.push_back(frame);
        queue.bytes += length;
        queue.enqueued += 1;
        self.pushed.add(1);
        lane.enqueued.add(1);
        lane.enqueued_bytes.add(length);
        Ok(())
    }

    /// Runs the queue, unless another producer does, until it is empty or the TX ring is full.
    fn run(&self, lane: &mut ProducerState, link: &LockedTx, now: u64) {
        let ProducerState { counters, out, .. } = lane;
        let root = self.root.lock(counters);
        if !root.running && !root.is_empty() && !link.is_stopped() {
            self.run_locked(root, (counters, out), link, usize::MAX, now);
        }
    }

    /// Runs the queue: steps (2) to (6). `out` may contain a frame that bypasses the empty queue.
    fn run_locked<'a>(
        &'a self,
        mut root: Guard<'a, LockedQueue<BANDS>>,
        (lane, out): (&'a LaneCounters, &mut Batch),
        link: &LockedTx,
        quota: usize,
        now: u64,
    ) {
        root.running = true;
        let mut bypassing = !out.is_empty();
        let mut done = 0;
        loop {
            let offered = if bypassing { out.len() } else { root.take(out, self.round) };
            if offered == 0 {
                break;
            }
            let bytes: u64 = out.iter().map(|frame| frame.len() as u64).sum();
            drop(root);
            let sent = link.lock(lane).transmit(link, lane, out, now);
            if !bypassing {
                link.handed(sent);
            }
            root = self.root.lock(lane);
            done += offered;
            let left = offered - sent;
            if left > 0 {
                let bytes_left = root.put_back(out, bypassing);
                lane.requeued.add(left as u64);
                if bypassing {
                    // The frame did not bypass the queue after all.
                    self.pushed.add(left as u64);
                    lane.enqueued.add(left as u64);
                    lane.enqueued_bytes.add(bytes_left);
                } else {
                    lane.dequeued_bytes.add(bytes - bytes_left);
                }
            } else if !bypassing {
                lane.dequeued_bytes.add(bytes);
            }
            let counter = if bypassing { &lane.bypassed } else { &lane.dequeued };
            counter.add(sent as u64);
            bypassing = false;
            // The thread that restarts the queue takes the root lock after this. It either sees
            // that the queue is not running, or its restart was seen here.
            if done >= quota || link.is_stopped() {
                break;
            }
        }
        root.running = false;
    }
}

impl<const BANDS: usize> LockedQueue<BANDS> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.bands.iter().all(|band| band.frames.is_empty())
    }

    #[inline]
    fn len(&self) -> usize {
        self.bands.iter().map(|band| band.frames.len()).sum()
    }

    /// Takes the frames of one round. A band is served only when the bands before it are empty.
    #[inline]
    fn take(&mut self, into: &mut Batch, round: Round) -> usize {
        let mut budget = round.budget(into.room());
        for band in &mut self.bands {
            while let Some(front) = band.frames.front() {
                if !budget.admit(front.len() as u64) {
                    return budget.taken();
                }
                let Some(frame) = band.frames.pop_front() else { break };
                band.bytes -= frame.len() as u64;
                band.left += 1;
                into.as_vec().push(frame);
            }
        }
        budget.taken()
    }

    /// Puts frames back to the front, in order (`dev_requeue_skb`); returns their bytes. `new`
    /// frames were not in the queue before.
    fn put_back(&mut self, frames: &mut Batch, new: bool) -> u64 {
        let mut bytes = 0;
        while let Some(frame) = frames.pop() {
            let length = frame.len() as u64;
            bytes += length;
            let band = &mut self.bands[Fifo::<BANDS>::band(&frame)];
            band.bytes += length;
            match new {
                true => band.enqueued += 1,
                false => band.left -= 1,
            }
            band.frames.push_front(frame);
        }
        bytes
    }
}

impl<const BANDS: usize> Qdisc for Fifo<BANDS> {
    fn dequeue(&self, lane: &mut ProducerState, into: &mut Batch, max: usize, _: u64) -> usize {
        let first = into.len();
        let mut root = self.root.lock(&lane.counters);
        let taken = root.take(into, Round::packets(max));
        drop(root);
        lane.counters.dequeued.add(taken as u64);
        let bytes = into[first..].iter().map(|frame| frame.len() as u64).sum();
        lane.counters.dequeued_bytes.add(bytes);
        taken
    }

    fn position(&self, _: &ProducerState) -> u64 {
        self.pushed.value()
    }

    fn len(&self) -> usize {
        self.root.lock(&LaneCounters::default()).len()
    }

    fn send(&self, lane: &mut ProducerState, link: &LockedTx, batch: &mut Batch, now: u64) -> Sent {
        let ProducerState { counters, out, .. } = lane;
        let offered = batch.len();
        let mut sent = Sent::default();
        if self.batched {
            // Dropped frames are freed without the lock.
            let mut dropped = Batch::new(0);
            let mut root = self.root.lock(counters);
            for frame in batch.drain(offered) {
                if let Err(frame) = self.push(&mut root, counters, (Self::band(&frame), frame)) {
                    sent.drops(&frame);
                    dropped.as_vec().push(frame);
                }
            }
            if root.running || root.is_empty() || link.is_stopped() {
                drop(root);
            } else {
                self.run_locked(root, (counters, out), link, QUOTA, now);
            }
            sent.accepted = offered - sent.dropped;
            return sent;
        }
        let mut left = offered;
        for frame in batch.drain(offered) {
            left -= 1;
            let band = Self::band(&frame);
            let mut root = self.root.lock(counters);
            let is_free = !root.running && !link.is_stopped();
            if is_free && self.round.is_single() && root.is_empty() {
                // TCQ_F_CAN_BYPASS
                out.as_vec().push(frame);
                self.run_locked(root, (counters, out), link, QUOTA, now);
                continue;
            }
            let result = self
                .push(&mut root, counters, (band, frame))
                .inspect_err(|frame| sent.drops(frame));
            if is_free && (left == 0 || self.round.is_filled_by(root.len())) {
                self.run_locked(root, (counters, out), link, QUOTA, now);
            } else {
                drop(root);
            }
            drop(result);
        }
        sent.accepted = offered - sent.dropped;
        sent
    }

    fn flush(&self, lane: &mut ProducerState, link: &LockedTx, now: u64) -> Result<()> {
        self.run(lane, link, now);
        if link.lock(&lane.counters).flush(link, &lane.counters, now)? {
            self.run(lane, link, now);
        }
        Ok(())
    }

    fn with_wire(&self, lane: &mut ProducerState, link: &LockedTx, act: &mut dyn FnMut(&mut Wire)) {
        act(&mut link.lock(&lane.counters));
    }

    fn read(&self, stats: &mut QdiscStats) {
        if BANDS > 1 {
            let counters = LaneCounters::default();
            let root = self.root.lock(&counters);
            stats.bands = root.bands.iter().map(Band::stats).collect();
        }
    }
}
