//! The writing thread of a lane. It takes full buffers, asks the pre-trigger, packs, and keeps
//! several writes in flight.
//!
//! ```text
//!  full ─▶ pre-trigger ─▶ queue ─▶ packer ─▶ packed ─▶ segment: place ─▶ disk ─▶ segment: retire
//!                                              ▲                           │
//!                                              └──── after a failure ──────┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::filled::FilledBlocks;
use super::hold::Hold;
use super::lane::Wakeup;
use super::lost::{BySource, Lost, add_blocks};
use super::pack::{ExtentPacker, Packed};
use super::retention::{LaneProperties, RetentionRequest};
use super::sealer::Sealer;
use super::segment::{GrowingSegment, PreparedSegment};
use super::status::{Counts, LaneStatus, StoreStatus, Who};
use crate::disk::{DirectWriter, Done};

/// The longest sleep, so that timers are checked this often.
const NAP: Duration = Duration::from_millis(250);
/// The delay before a failed write is repeated.
const RETRY: Duration = Duration::from_millis(500);
/// How long writing is tried at the end of the store while nothing succeeds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of the thread.
pub(crate) struct LaneWorker {
    pub(crate) full: Receiver<FilledBlocks>,
    pub(crate) hold: Hold,
    pub(crate) queue: VecDeque<FilledBlocks>,
    pub(crate) packer: ExtentPacker,
    pub(crate) packed: VecDeque<Packed>,
    pub(crate) segments: LaneSegments,
    pub(crate) disk: DirectWriter,
    pub(crate) lost: Option<Lost>,
    pub(crate) status: Arc<StoreStatus>,
    pub(crate) lane_status: Arc<LaneStatus>,
    pub(crate) wakeup: Arc<Wakeup>,
    /// The whole store ends: waiting for room is useless.
    pub(crate) closing: Arc<AtomicBool>,
    pub(crate) state: WorkerState,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct WorkerState {
    has_ended: bool,
    next_token: u64,
    /// No write starts before this time.
    retry_at: Option<Instant>,
    /// The time since which no write has succeeded at the end of the store.
    stuck_since: Option<Instant>,
    in_trouble: bool,
}

/// The segments of the lane.
pub(crate) struct LaneSegments {
    properties: Arc<LaneProperties>,
    ready: Receiver<PreparedSegment>,
    retention: Sender<RetentionRequest>,
    sealer: Sealer,
    status: Arc<LaneStatus>,
    /// Segments being written; only the last is open.
    open: VecDeque<GrowingSegment>,
    next: Option<PreparedSegment>,
    is_asked: bool,
    /// The time after which a segment is finished.
    time: Option<Duration>,
}

impl LaneWorker {
    /// Runs until the lane has ended and its packets are written or lost.
    pub(crate) fn run(mut self) {
        loop {
            let moved = [self.take_in(), self.pack(), self.place(), self.land()].contains(&true);
            if self.is_done() {
                break;
            }
            if self.is_hopeless() {
                self.status.keep_trouble();
                self.give_up();
                break;
            }
            if !moved {
                self.wait();
            }
        }
        self.status.settled(self.who());
        self.segments.end();
    }

    /// Takes the buffers of the receiving thread.
    fn take_in(&mut self) -> bool {
        let mut moved = false;
        loop {
            match self.full.try_recv() {
                Ok(filled) => self.hold.take(filled, &mut self.queue),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    moved |= !self.state.has_ended;
                    self.state.has_ended = true;
                    break;
                }
            }
            moved = true;
        }
        let mut sorted = self.hold.sort(&mut self.queue);
        if self.state.has_ended {
            sorted |= self.hold.end();
        }
        if sorted {
            self.count_held();
        }
        moved
    }

    fn count_held(&mut self) {
        let (storing, forgotten) = (&self.lane_status.storing, self.hold.take_forgotten());
        storing.forgotten.add(forgotten.all);
        storing.cut.add(forgotten.cut);
        storing.held.set(self.hold.held());
        self.wakeup.wake();
    }

    /// Passes extents to the packer.
    fn pack(&mut self) -> bool {
        let mut moved = false;
        while let Some(filled) = self.queue.pop_front() {
            if let Some(back) = self.packer.send(filled) {
                self.queue.push_front(back);
                break;
            }
            moved = true;
        }
        // Packed extents wait, so that the next write can start at once.
        while self.packed.len() < 2 {
            match self.packer.receive() {
                Some(Ok(packed)) => self.packed.push_back(packed),
                Some(Err(unpacked)) => {
                    self.status.mishap(format!("an extent was not compressed: {}", unpacked.why));
                    if let Some(filled) = unpacked.filled {
                        let sources = add_blocks(filled.blocks(), &filled.sources, &mut None);
                        self.lose(filled.counts, &sources);
                    }
                }
                None => break,
            }
            moved = true;
        }
        moved
    }

    /// Starts as many writes as the disk accepts.
    fn place(&mut self) -> bool {
        let mut moved = self.segments.close_old();
        if self.state.retry_at.is_some_and(|at| Instant::now() < at) {
            return moved;
        }
        while self.disk.has_room()
            && let Some(packed) = self.packed.front()
        {
            let Some(segment) = self.segments.with_room(packed) else { break };
            let Some(packed) = self.packed.pop_front() else { break };
            let token = self.state.next_token;
            self.state.next_token += 1;
            let write = segment.place(packed, token);
            self.disk.write(&write.file, write.buffer, write.len, write.offset, token);
            self.segments.ask_ahead();
            moved = true;
        }
        if moved {
            // The blocks of compressed extents are free again.
            self.wakeup.wake();
        }
        moved
    }

    /// Handles completed writes.
    fn land(&mut self) -> bool {
        let mut moved = false;
        while let Some(done) = self.disk.done(Duration::ZERO) {
            self.landed(done);
            moved = true;
        }
        self.settle();
        moved
    }

    fn landed(&mut self, done: Done) {
        if let Err(error) = &done.result {
            self.status.trouble(self.who(), &format!("cannot write: {}", error.source));
            self.state.in_trouble = true;
            self.state.retry_at = Some(Instant::now() + RETRY);
        }
        let mut done = Some(done);
        for segment in &mut self.segments.open {
            done = done.and_then(|done| segment.land(done));
        }
    }

    /// Counts written packets, and takes back extents that could not be written.
    fn settle(&mut self) {
        let (mut back, mut has_written) = (Vec::new(), false);
        for segment in &mut self.segments.open {
            let (counts, bytes) = segment.retire();
            let storing = &self.lane_status.storing;
            storing.written.add(counts);
            storing.disk_bytes.fetch_add(bytes, Ordering::Relaxed);
            has_written |= bytes > 0;
            back.extend(segment.take_back().into_iter().flatten());
        }
        let is_retried = self.state.retry_at.is_none_or(|at| at <= Instant::now());
        if has_written && self.state.in_trouble && is_retried {
            self.state =
                WorkerState { in_trouble: false, retry_at: None, stuck_since: None, ..self.state };
            self.status.settled(self.who());
        }
        for packed in back.into_iter().rev() {
            self.packed.push_front(packed);
        }
        self.segments.finish();
        self.wakeup.wake();
    }

    /// Sleeps until there is work.
    fn wait(&mut self) {
        if self.disk.pending() > 0 {
            if let Some(done) = self.disk.done(NAP) {
                self.landed(done);
            }
        } else {
            thread::park_timeout(NAP);
        }
    }

    fn is_done(&self) -> bool {
        self.state.has_ended
            && self.queue.is_empty()
            && self.packer.is_empty()
            && self.packed.is_empty()
            && self.disk.pending() == 0
    }

    /// Whether the store ends, and nothing was written for long.
    fn is_hopeless(&mut self) -> bool {
        let is_over = self.state.has_ended && self.closing.load(Ordering::Relaxed);
        let is_busy = self.disk.pending() > 0 || self.packed.is_empty();
        if !is_over || is_busy && !self.state.in_trouble {
            self.state.stuck_since = None;
            return false;
        }
        let since = *self.state.stuck_since.get_or_insert_with(Instant::now);
        self.disk.pending() == 0 && since.elapsed() >= PATIENCE
    }

    /// Counts all unwritten packets as lost.
    fn give_up(&mut self) {
        while !(self.packer.is_empty() && self.queue.is_empty() && self.packed.is_empty()) {
            while let Some(packed) = self.packed.pop_front() {
                let sources = packed.count_by_source();
                self.lose(packed.counts, &sources);
            }
            if !self.pack() {
                thread::park_timeout(NAP);
            }
        }
    }

    fn lose(&mut self, counts: Counts, sources: &BySource) {
        self.lane_status.storing.lost.add(counts);
        if let Some(lost) = &mut self.lost {
            sources.tell(lost);
        }
    }

    fn who(&self) -> Who {
        Who::Lane(self.segments.properties.lane)
    }
}

impl LaneSegments {
    pub(crate) fn new(
        properties: Arc<LaneProperties>,
        ready: Receiver<PreparedSegment>,
        retention: Sender<RetentionRequest>,
        sealer: Sealer,
        status: Arc<LaneStatus>,
        time: Option<Duration>,
    ) -> Self {
        let (open, next, is_asked) = (VecDeque::new(), None, false);
        Self { properties, ready, retention, sealer, status, open, next, is_asked, time }
    }

    /// The segment for this extent; `None` if none is ready.
    fn with_room(&mut self, packed: &Packed) -> Option<&mut GrowingSegment> {
        if packed.sources.len() > self.properties.sources {
            // If memory runs out, it is tried again later.
            self.properties = Arc::new(self.properties.describing(&packed.sources).ok()?);
        }
        let has_room = |segment: &GrowingSegment| segment.has_room(packed);
        while !self.open.back().is_some_and(has_room) {
            if let Some(full) = self.open.back_mut() {
                full.close();
            }
            let Some(ready) = self.next.take().or_else(|| self.ready.try_recv().ok()) else {
                self.ask();
                return None;
            };
            self.is_asked = false;
            let segment = GrowingSegment::new(ready);
            // A segment that was prepared before a source was known is unused, and deleted.
            let is_used = u32::from(segment.describes(packed));
            self.status.storing.segments.fetch_add(is_used, Ordering::Relaxed);
            self.open.push_back(segment);
        }
        self.open.back_mut()
    }

    /// Requests the next segment in time.
    fn ask_ahead(&mut self) {
        if self.open.back().is_some_and(GrowingSegment::needs_next) {
            self.ask();
        }
    }

    fn ask(&mut self) {
        if !self.is_asked && self.next.is_none() {
            self.is_asked =
                self.retention.send(RetentionRequest::Open(Arc::clone(&self.properties))).is_ok();
        }
    }

    /// Closes a segment that has been open for long.
    fn close_old(&mut self) -> bool {
        let Some(time) = self.time else { return false };
        let Some(segment) = self.open.back_mut() else { return false };
        let is_old = segment.is_open() && segment.since().is_some_and(|at| at.elapsed() >= time);
        if is_old {
            segment.close();
            self.finish();
        }
        is_old
    }

    /// Passes finished segments to the sealer.
    fn finish(&mut self) {
        while self.open.front().is_some_and(GrowingSegment::is_finished)
            && let Some(segment) = self.open.pop_front()
        {
            self.sealer.finish(segment.finish());
        }
    }

    /// Ends the lane.
    fn end(mut self) {
        for segment in &mut self.open {
            segment.close();
        }
        self.finish();
        let (next, ready) = (self.next.take(), self.ready);
        let _ =
            self.retention.send(RetentionRequest::End { lane: self.properties.lane, next, ready });
    }
}
