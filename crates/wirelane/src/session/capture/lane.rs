//! The way of the packets of a receiving end to one writer.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::chunk::{Chunk, PATIENCE};
use super::credit::{CHUNK, Credit, OWN};
use super::roster::Numbers;
use crate::frame::Frame;
use crate::pcap::Direction;
use crate::ring::{Receiver, Sender};
use crate::stats::RxCounters;
use crate::sync::{Doorbell, Watermark};

/// The writer looks for chunks periodically; it is woken for this many, and for the first after a
/// pause. A wake-up costs as much as encoding thousands of packets.
const WORTH_WAKING: usize = 4;

/// A way to one writer.
pub(super) struct Lane {
    /// Its counters: one, or those of the interfaces.
    pub(super) counters: Vec<Arc<RxCounters>>,
    /// Index of the interface description block of the first of them.
    pub(super) interface: u32,
    /// How many of its interfaces are there from the start.
    pub(super) fixed: u32,
    /// Those that are found while it runs.
    pub(super) numbers: Option<Numbers>,
    pub(super) filled: Sender<Chunk>,
    pub(super) spent: Receiver<Chunk>,
    /// Empty chunks; the one used last is used first, while it is still in the cache.
    pub(super) empty: Vec<Chunk>,
    /// How many of its own chunks are not made yet.
    pub(super) own: usize,
    /// How many more chunks all lanes together may make.
    pub(super) credit: Arc<Credit>,
    pub(super) current: Option<Chunk>,
    /// Time up to which everything has been handed over.
    pub(super) watermark: Arc<Watermark>,
    /// Timestamp of the newest packet in the chunks that were handed over.
    pub(super) newest: u64,
    pub(super) bell: Arc<Doorbell>,
    /// Packets do not wait for others.
    pub(super) prompt: bool,
    /// The receiving thread writes itself, and wakes the writer only for much.
    pub(super) is_helped: bool,
    /// Chunks handed over since the bell was rung.
    pub(super) unannounced: usize,
    /// When the current chunk was first found incomplete with no packets coming; monotonic clock.
    pub(super) waiting_since: Option<u64>,
}

impl Lane {
    /// Copies the frames into chunks, each as a packet of interface `place`, relative to the lane's
    /// first; counts frames for which there is no chunk. Returns the number of copied frames.
    #[inline]
    pub(super) fn encode(
        &mut self,
        frames: &[Frame],
        lossless: bool,
        place: impl Fn(&Frame) -> (u32, Direction),
    ) -> u64 {
        let mut encoded = 0;
        for (done, frame) in frames.iter().enumerate() {
            if self.current.as_ref().is_some_and(|chunk| !chunk.has_room_for(frame)) {
                self.hand_over();
            }
            if self.current.is_none() {
                self.current = self.empty_chunk(lossless);
            }
            let Some(chunk) = &mut self.current else {
                self.lose(frames.get(done..).unwrap_or_default(), place);
                return encoded;
            };
            let (interface, direction) = place(frame);
            let interface = if interface < self.fixed {
                self.interface + interface
            } else {
                let found = self.numbers.as_mut().map(|numbers| numbers.of(interface - self.fixed));
                // The port numbers no frame like this.
                let Some((number, _)) = found.flatten() else { continue };
                *number
            };
            chunk.push(interface, direction, frame);
            encoded += 1;
        }
        encoded
    }

    #[cold]
    pub(super) fn lose(&mut self, frames: &[Frame], place: impl Fn(&Frame) -> (u32, Direction)) {
        for frame in frames {
            if let Some(counters) = self.counters_of(place(frame).0) {
                counters.count_unstored(1, u64::from(frame.original_len()));
            }
        }
    }

    /// The counters of the interface at this place.
    pub(super) fn counters_of(&mut self, interface: u32) -> Option<&Arc<RxCounters>> {
        if interface < self.fixed {
            return self.counters.get(interface as usize);
        }
        let found = self.numbers.as_mut().map(|numbers| numbers.of(interface - self.fixed));
        found.flatten().map(|(_, counters)| counters)
    }

    /// One round of receiving is done, after which nothing older than `time` comes; `idle` says
    /// that it brought nothing.
    pub(super) fn round(&mut self, time: u64, idle: bool) {
        if idle {
            self.keep_few();
        }
        let is_stale = self.current.as_ref().is_some_and(|chunk| chunk.is_stale(time));
        if is_stale || (idle && self.waits_in_vain()) {
            self.hand_over();
        } else if idle && self.prompt && self.is_due() {
            self.hand_over();
            if !self.is_helped {
                self.announce();
            }
        }
        let handed_over = self.current.as_ref().map_or(time, |chunk| chunk.oldest().min(time));
        if handed_over > self.watermark.get() {
            self.watermark.set(handed_over);
        }
    }

    /// An empty chunk, waiting for one if the port can wait and the writer is alive.
    pub(super) fn empty_chunk(&mut self, lossless: bool) -> Option<Chunk> {
        loop {
            self.spent.receive(&mut self.empty, usize::MAX);
            if let Some(mut chunk) = self.empty.pop() {
                chunk.clear();
                return Some(chunk);
            }
            if self.own > 0 {
                self.own -= 1;
                return Some(Chunk::new(CHUNK));
            }
            if self.credit.take() {
                return Some(Chunk::new(CHUNK));
            }
            if lossless && self.newest > self.watermark.get() {
                // The writer must not wait for the rest of this round, which waits for a chunk that
                // the writer holds. A port that waits has its packets in order.
                self.watermark.set(self.newest);
            }
            self.announce();
            if !lossless || self.spent.is_finished() {
                return None;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Leaves memory that a burst took to other lanes.
    pub(super) fn keep_few(&mut self) {
        self.spent.receive(&mut self.empty, usize::MAX);
        for _ in OWN.min(self.empty.len())..self.empty.len() {
            self.empty.pop();
            self.credit.give_back();
        }
    }

    /// Whether packets have waited long enough by our own clock: the time of a port, such as a
    /// file, may stand still without packets.
    pub(super) fn waits_in_vain(&mut self) -> bool {
        if self.current.as_ref().is_none_or(Chunk::is_empty) {
            return false;
        }
        let now = clock::monotonic_ns();
        now.saturating_sub(*self.waiting_since.get_or_insert(now)) >= PATIENCE
    }

    /// Whether there are packets, and the writer has taken those before: chunks with few of them
    /// are soon used up.
    pub(super) fn is_due(&mut self) -> bool {
        let all = self.filled.capacity();
        self.has_packets() && self.filled.room(all) == all
    }

    /// Whether there are packets that were not handed over.
    pub(super) fn has_packets(&self) -> bool {
        self.current.as_ref().is_some_and(|chunk| !chunk.is_empty())
    }

    /// Gives the current chunk to the writer. There is always room: the ring holds all chunks that
    /// a lane can have.
    pub(super) fn hand_over(&mut self) {
        self.waiting_since = None;
        let Some(chunk) = self.current.take_if(|chunk| !chunk.is_empty()) else { return };
        self.newest = self.newest.max(chunk.newest());
        let sent = self.filled.send_one(chunk);
        debug_assert!(sent.is_ok());
        self.unannounced += 1;
        if self.unannounced >= WORTH_WAKING || !self.is_helped && self.bell.is_deep() {
            self.announce();
        }
    }

    /// The writer has received all chunks.
    pub(super) fn forget(&mut self) {
        self.unannounced = 0;
    }

    pub(super) fn announce(&mut self) {
        self.unannounced = 0;
        self.bell.ring();
    }
}
