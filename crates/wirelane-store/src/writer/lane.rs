//! The receiving thread's end of a lane. It encodes packets as blocks in large buffers.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use wirelane_pcap::pcapng::{self, MAX_PACKET};
use wirelane_pcap::{Record, Source, Statistics};

use super::filled::FilledBlocks;
use super::pre_trigger::PreTrigger;
use super::status::{Counts, LaneStatus};
use crate::disk::Buffers;
use crate::prelude::MAX_PRELUDE;

/// Bytes of a packet's block in addition to its data and its comment.
const BLOCK_ROOM: usize = 64;

/// The most bytes of the first blocks of a segment, which has them twice.
const MAX_DESCRIBED: usize = MAX_PRELUDE / 2 - 8192;

/// Accepts the packets of one queue. One thread owns it, and never waits for the file system.
///
/// Without room, a packet is refused and counted. Dropping it ends the lane: accepted packets are
/// still written.
pub struct LaneWriter {
    filling: Option<Filling>,
    buffers: Buffers,
    /// `None` once it has ended.
    full: Option<SyncSender<FilledBlocks>>,
    store_thread: Thread,
    status: Arc<LaneStatus>,
    wakeup: Arc<Wakeup>,
    pre_trigger: Option<Arc<PreTrigger>>,
    layout: BufferLayout,
    sources: Arc<[Source]>,
    /// Bytes of the first blocks of each segment.
    described: usize,
    /// The clock as of the last [`LaneWriter::tick`], monotonic.
    now: u64,
    flush_every: u64,
    /// Memory for encoding other blocks than packets.
    scratch: Vec<u8>,
}

/// Start and upper limit of the blocks in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferLayout {
    pub(crate) start: usize,
    pub(crate) limit: usize,
}

struct Filling {
    filled: FilledBlocks,
    /// The time of the first block.
    since: u64,
}

/// Wakes a receiving thread that waits for room.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    waits: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

/// The parts of a lane writer.
pub(crate) struct LaneParts {
    pub(crate) buffers: Buffers,
    pub(crate) full: SyncSender<FilledBlocks>,
    pub(crate) store_thread: Thread,
    pub(crate) status: Arc<LaneStatus>,
    pub(crate) wakeup: Arc<Wakeup>,
    pub(crate) pre_trigger: Option<Arc<PreTrigger>>,
    pub(crate) layout: BufferLayout,
    pub(crate) sources: Arc<[Source]>,
    pub(crate) described: usize,
    pub(crate) flush_every: Duration,
}

impl LaneWriter {
    pub(crate) fn new(parts: LaneParts) -> Self {
        Self {
            filling: None,
            buffers: parts.buffers,
            full: Some(parts.full),
            store_thread: parts.store_thread,
            status: parts.status,
            wakeup: parts.wakeup,
            pre_trigger: parts.pre_trigger,
            layout: parts.layout,
            sources: parts.sources,
            described: parts.described,
            now: 0,
            flush_every: u64::try_from(parts.flush_every.as_nanos()).unwrap_or(u64::MAX),
            scratch: Vec::new(),
        }
    }

    /// Adds a source, whose packets may follow, and returns its number for records. Segments with
    /// its packets describe it. `None` if there is no room for its description.
    pub fn add_source(&mut self, source: Source) -> Option<u32> {
        self.scratch.clear();
        pcapng::interface(&mut self.scratch, &source);
        let described = self.described + self.scratch.len();
        if described > MAX_DESCRIBED {
            return None;
        }
        self.described = described;
        let number = u32::try_from(self.sources.len()).ok()?;
        self.sources = self.sources.iter().cloned().chain([source]).collect();
        Some(number)
    }

    /// Accepts a packet, with an optional comment. False without room: the packet is counted as
    /// dropped.
    #[inline]
    pub fn push(&mut self, record: &Record<'_>, comment: Option<&str>) -> bool {
        self.encode(record, |room| pcapng::packet_into(room, record, comment))
    }

    /// Like [`LaneWriter::push`], with encoded options, for example of another file's packet, in
    /// this machine's byte order.
    #[inline]
    pub fn push_with_options(&mut self, record: &Record<'_>, options: &[u8]) -> bool {
        self.encode(record, |room| pcapng::packet_with_options_into(room, record, options))
    }

    #[inline]
    fn encode(&mut self, record: &Record<'_>, encode: impl Fn(&mut [u8]) -> Option<usize>) -> bool {
        self.try_encode(record, &encode) || self.encode_elsewhere(record, &encode)
    }

    #[inline]
    fn try_encode(
        &mut self,
        record: &Record<'_>,
        encode: &impl Fn(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(Filling { filled, .. }) = &mut self.filling else { return false };
        let Some(room) = filled.buffer.get_mut(filled.end..self.layout.limit) else { return false };
        let Some(len) = encode(room) else { return false };
        filled.end += len;
        filled.counts.packets += 1;
        filled.counts.bytes += record.data.len().min(MAX_PACKET) as u64;
        filled.oldest = filled.oldest.min(record.timestamp);
        filled.newest = filled.newest.max(record.timestamp);
        true
    }

    /// The slow path: the buffer is full, or missing.
    #[cold]
    fn encode_elsewhere(
        &mut self,
        record: &Record<'_>,
        encode: &impl Fn(&mut [u8]) -> Option<usize>,
    ) -> bool {
        self.flush();
        if self.begin() && self.try_encode(record, encode) {
            return true;
        }
        let bytes = record.data.len().min(MAX_PACKET) as u64;
        self.status.receiving.dropped.add(Counts { packets: 1, bytes });
        false
    }

    /// Whether there is room for a packet whose data and options together have `len` bytes.
    #[must_use]
    pub fn has_room(&mut self, len: usize) -> bool {
        let len = len.min(MAX_PACKET) + BLOCK_ROOM;
        if let Some(Filling { filled, .. }) = &self.filling {
            if filled.end + len <= self.layout.limit {
                return true;
            }
            self.flush();
        }
        self.begin()
    }

    /// Waits for room for a packet with `len` bytes of data and options; false if `timeout` passes
    /// first.
    pub fn wait_for_room(&mut self, len: usize, timeout: Duration) -> bool {
        if self.has_room(len) {
            return true;
        }
        let begin = Instant::now();
        self.wakeup.announce();
        loop {
            let left = timeout.saturating_sub(begin.elapsed());
            if self.has_room(len) || left.is_zero() {
                self.wakeup.waits.store(false, Ordering::Relaxed);
                return self.filling.is_some();
            }
            thread::park_timeout(left);
        }
    }

    /// Sets the current monotonic time in nanoseconds, and passes on a buffer that is old enough.
    /// Call it for every batch, and several times per
    /// [`StoreOptions::flush_every`](super::StoreOptions::flush_every) without packets.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        self.now = now;
        let Some(Filling { since, .. }) = &mut self.filling else { return };
        // The buffer was started before the first tick.
        if *since == 0 {
            *since = now;
        }
        if now.saturating_sub(*since) >= self.flush_every {
            self.flush_old();
        }
    }

    /// Appends interface statistics. False without room.
    pub fn statistics(&mut self, statistics: &[Statistics]) -> bool {
        self.scratch.clear();
        for one in statistics {
            pcapng::statistics(&mut self.scratch, one);
        }
        if !self.has_room(self.scratch.len()) {
            return false;
        }
        let Some(Filling { filled, .. }) = &mut self.filling else { return false };
        let end = filled.end + self.scratch.len();
        let Some(room) = filled.buffer.get_mut(filled.end..end) else { return false };
        room.copy_from_slice(&self.scratch);
        filled.end = end;
        true
    }

    /// The number of segments started. When it changes, the new segment has no statistics yet.
    #[must_use]
    pub fn segment(&self) -> u32 {
        self.status.storing.segments.load(Ordering::Relaxed)
    }

    /// Passes on all accepted packets, and ends the lane.
    pub fn finish(self) {}

    /// Passes on an old buffer, unless it waits for a trigger anyway.
    #[cold]
    fn flush_old(&mut self) {
        let Some(Filling { filled, since }) = &self.filling else { return };
        if let Some(pre_trigger) = &self.pre_trigger {
            // Each waiting buffer takes memory, however few packets it has.
            let patience = self.flush_every.max(pre_trigger.before() / 16);
            if !pre_trigger.is_open(filled.newest) && self.now.saturating_sub(*since) < patience {
                return;
            }
        }
        self.flush();
    }

    /// Passes on the buffer.
    fn flush(&mut self) {
        let Some(Filling { mut filled, .. }) = self.filling.take() else { return };
        if filled.end == filled.start {
            return;
        }
        let counts = filled.counts;
        filled.sources = Arc::clone(&self.sources);
        // The channel has room for every buffer. If the thread has ended, the buffer is lost.
        match self.full.as_ref().map(|full| full.try_send(filled)) {
            Some(Ok(())) => {
                self.status.receiving.taken.add(counts);
                self.store_thread.unpark();
            }
            _ => self.status.receiving.dropped.add(counts),
        }
    }

    /// Starts a buffer, if one is free.
    fn begin(&mut self) -> bool {
        let BufferLayout { start, .. } = self.layout;
        self.filling = self.buffers.take().map(|buffer| {
            let counts = Counts::default();
            let sources = Arc::clone(&self.sources);
            let (end, oldest, newest) = (start, u64::MAX, 0);
            let filled = FilledBlocks { sources, buffer, start, end, counts, oldest, newest };
            Filling { filled, since: self.now }
        });
        self.filling.is_some()
    }
}

impl Drop for LaneWriter {
    fn drop(&mut self) {
        self.flush();
        self.full = None;
        self.store_thread.unpark();
    }
}

impl std::fmt::Debug for LaneWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneWriter").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Wakeup {
    /// Announces that the calling thread waits.
    fn announce(&self) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        self.waits.store(true, Ordering::Relaxed);
        // Either this thread sees the returned buffer, or the returning thread sees that this one
        // waits.
        fence(Ordering::SeqCst);
    }

    /// Wakes the waiting thread, after buffers were returned.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed)
            && let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner)
        {
            thread.unpark();
        }
    }
}
