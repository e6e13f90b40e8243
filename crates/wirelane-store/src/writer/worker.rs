//! The thread of a lane that writes: takes full buffers, asks the gate, packs, and keeps several
//! writes in flight.
//!
//! ```text
//!  full ─▶ held (gate) ─▶ queue ─▶ packer ─▶ packed ─▶ segment: place ─▶ disk ─▶ segment: retire
//!                                              ▲                           │
//!                                              └──── after a failure ──────┘
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::disk::{DirectWriter, Done};

use super::filled::Filled;
use super::finisher::Finisher;
use super::hold::Hold;
use super::keeper::{Door, Request};
use super::lane::Wakeup;
use super::lost::{BySource, Lost, add_blocks};
use super::pack::{Packed, Packer};
use super::segment::{Ready, Segment};
use super::status::{Counts, LaneStatus, StoreStatus, Who};

/// The longest sleep: timers are looked at that often.
const NAP: Duration = Duration::from_millis(250);
/// Between two attempts to write what could not be written.
const RETRY: Duration = Duration::from_millis(500);
/// When the end was asked for, writing is tried that long if nothing moves.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the thread works on.
pub(crate) struct Worker {
    pub(crate) full: Receiver<Filled>,
    pub(crate) hold: Hold,
    pub(crate) queue: VecDeque<Filled>,
    pub(crate) packer: Packer,
    pub(crate) packed: VecDeque<Packed>,
    pub(crate) segments: Segments,
    pub(crate) disk: DirectWriter,
    pub(crate) lost: Option<Lost>,
    pub(crate) status: Arc<StoreStatus>,
    pub(crate) lane_status: Arc<LaneStatus>,
    pub(crate) wakeup: Arc<Wakeup>,
    /// The whole store ends: there is no use in waiting for room.
    pub(crate) closing: Arc<AtomicBool>,
    pub(crate) state: WorkerState,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct WorkerState {
    has_ended: bool,
    next_token: u64,
    /// Not before this time is anything written again.
    retry_at: Option<Instant>,
    /// Since when nothing has moved although the store ends.
    stuck_since: Option<Instant>,
    in_trouble: bool,
}

/// The segments of the lane.
pub(crate) struct Segments {
    door: Arc<Door>,
    ready: Receiver<Ready>,
    keeper: Sender<Request>,
    finisher: Finisher,
    status: Arc<LaneStatus>,
    /// Those that are being written; only the last is open.
    open: VecDeque<Segment>,
    next: Option<Ready>,
    is_asked: bool,
    /// A segment is finished after this time.
    time: Option<Duration>,
}

impl Worker {
    /// Works until the lane has ended and all is written, or lost.
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

    /// Takes over what the receiving thread has filled.
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

    /// Keeps the packer busy.
    fn pack(&mut self) -> bool {
        let mut moved = false;
        while let Some(filled) = self.queue.pop_front() {
            if let Some(back) = self.packer.send(filled) {
                self.queue.push_front(back);
                break;
            }
            moved = true;
        }
        // One waits packed, so that the next write can begin at once.
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

    /// Begins as many writes as there may be at once.
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
            // The blocks of compressed extents are not needed any more.
            self.wakeup.wake();
        }
        moved
    }

    /// Takes in what the disk has written.
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

    /// Counts what is on the disk, and takes back what could not be written.
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

    /// Sleeps until there may be something to do.
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

    /// Whether nothing was written for long, and nobody waits for it any more.
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

    /// Counts what is not written as lost.
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
        Who::Lane(self.segments.door.lane)
    }
}

impl Segments {
    pub(crate) fn new(
        door: Arc<Door>,
        ready: Receiver<Ready>,
        keeper: Sender<Request>,
        finisher: Finisher,
        status: Arc<LaneStatus>,
        time: Option<Duration>,
    ) -> Self {
        let (open, next, is_asked) = (VecDeque::new(), None, false);
        Self { door, ready, keeper, finisher, status, open, next, is_asked, time }
    }

    /// The segment of this extent; `None` if there is none now.
    fn with_room(&mut self, packed: &Packed) -> Option<&mut Segment> {
        if packed.sources.len() > self.door.sources {
            // Without memory for it, it is tried again later.
            self.door = Arc::new(self.door.describing(&packed.sources).ok()?);
        }
        let has_room = |segment: &Segment| segment.has_room(packed);
        while !self.open.back().is_some_and(has_room) {
            if let Some(full) = self.open.back_mut() {
                full.close();
            }
            let Some(ready) = self.next.take().or_else(|| self.ready.try_recv().ok()) else {
                self.ask();
                return None;
            };
            self.is_asked = false;
            let segment = Segment::new(ready);
            // It is deleted if it was made ready before a source was known.
            let is_used = u32::from(segment.describes(packed));
            self.status.storing.segments.fetch_add(is_used, Ordering::Relaxed);
            self.open.push_back(segment);
        }
        self.open.back_mut()
    }

    /// Asks for the next segment in time.
    fn ask_ahead(&mut self) {
        if self.open.back().is_some_and(Segment::needs_next) {
            self.ask();
        }
    }

    fn ask(&mut self) {
        if !self.is_asked && self.next.is_none() {
            self.is_asked = self.keeper.send(Request::Open(Arc::clone(&self.door))).is_ok();
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

    /// Hands on those whose last extent is written.
    fn finish(&mut self) {
        while self.open.front().is_some_and(Segment::is_finished)
            && let Some(segment) = self.open.pop_front()
        {
            self.finisher.finish(segment.finish());
        }
    }

    /// The lane has ended.
    fn end(mut self) {
        for segment in &mut self.open {
            segment.close();
        }
        self.finish();
        let (next, ready) = (self.next.take(), self.ready);
        let _ = self.keeper.send(Request::End { lane: self.door.lane, next, ready });
    }
}
