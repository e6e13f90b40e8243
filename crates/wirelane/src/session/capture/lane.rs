//! The path of a receiving end's packets to one writer.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::chunk::{Chunk, PATIENCE};
use super::credit::{CHUNK, Credit, OWN};
use super::file_interfaces::Numbers;
use crate::frame::Frame;
use crate::pcap::Direction;
use crate::ring::{Receiver, Sender};
use crate::stats::RxCounters;
use crate::sync::{Doorbell, Watermark};

/// The writer checks for chunks periodically. It is woken for this many, and for the first one
/// after a pause. A wake-up costs as much as encoding thousands of packets.
const WORTH_WAKING: usize = 4;

/// A path to one writer.
pub(super) struct WriterPath {
    /// Its counters: one, or one per interface.
    pub(super) counters: Vec<Arc<RxCounters>>,
    /// Index of the interface description block of its first interface.
    pub(super) interface: u32,
    /// The number of its interfaces that are known from the start.
    pub(super) fixed: u32,
    /// The interfaces that are found at run time.
    pub(super) numbers: Option<Numbers>,
    pub(super) filled: Sender<Chunk>,
    pub(super) spent: Receiver<Chunk>,
    /// Empty chunks; the most recently used one is used first, while it is in the cache.
    pub(super) empty: Vec<Chunk>,
    /// How many of its reserved chunks are not allocated yet.
    pub(super) own: usize,
    /// How many more chunks all lanes together may allocate.
    pub(super) credit: Arc<Credit>,
    pub(super) current: Option<Chunk>,
    /// Time up to which all packets have been handed over.
    pub(super) watermark: Arc<Watermark>,
    /// Timestamp of the newest packet in the chunks that were handed over.
    pub(super) newest: u64,
    pub(super) bell: Arc<Doorbell>,
    /// Packets do not wait for others.
    pub(super) prompt: bool,
    /// The receiving thread writes itself, and wakes the writer only for many packets.
    pub(super) is_helped: bool,
    /// Chunks handed over since the bell was rung.
    pub(super) unannounced: usize,
    /// Monotonic time at which the current chunk was first found incomplete in an idle round.
    pub(super) waiting_since: Option<u64>,
}

impl WriterPath {
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
                // The port creates no frame with such a number.
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

    /// The counters of the interface at this index.
    pub(super) fn counters_of(&mut self, interface: u32) -> Option<&Arc<RxCounters>> {
        if interface < self.fixed {
            return self.counters.get(interface as usize);
        }
        let found = self.numbers.as_mut().map(|numbers| numbers.of(interface - self.fixed));
        found.flatten().map(|(_, counters)| counters)
    }

    /// Ends a round of receiving: nothing older than `time` follows; `idle` if there were no
    /// packets.
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

    /// An empty chunk. Waits for one if the port can wait and the writer is alive.
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
                // the writer holds. The packets of a port that waits are in order.
                self.watermark.set(self.newest);
            }
            self.announce();
            if !lossless || self.spent.is_finished() {
                return None;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Returns chunks that a burst took, for other lanes.
    pub(super) fn keep_few(&mut self) {
        self.spent.receive(&mut self.empty, usize::MAX);
        for _ in OWN.min(self.empty.len())..self.empty.len() {
            self.empty.pop();
            self.credit.give_back();
        }
    }

    /// Whether packets have waited long enough by the monotonic clock: the time of a port, such as
    /// a file, may stop without packets.
    pub(super) fn waits_in_vain(&mut self) -> bool {
        if self.current.as_ref().is_none_or(Chunk::is_empty) {
            return false;
        }
        let now = clock::monotonic_ns();
        now.saturating_sub(*self.waiting_since.get_or_insert(now)) >= PATIENCE
    }

    /// Whether there are packets, and the writer has taken all earlier ones: handing over chunks
    /// with few packets soon uses them up.
    pub(super) fn is_due(&mut self) -> bool {
        let all = self.filled.capacity();
        self.has_packets() && self.filled.room(all) == all
    }

    /// Whether there are packets that have not been handed over.
    pub(super) fn has_packets(&self) -> bool {
        self.current.as_ref().is_some_and(|chunk| !chunk.is_empty())
    }

    /// Gives the current chunk to the writer. There is always room: the ring holds all chunks of a
    /// lane.
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

    /// Notes that the writer has received all chunks.
    pub(super) fn forget(&mut self) {
        self.unannounced = 0;
    }

    pub(super) fn announce(&mut self) {
        self.unannounced = 0;
        self.bell.ring();
    }
}
