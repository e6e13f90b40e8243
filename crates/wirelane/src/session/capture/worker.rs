//! The receiving side of a capture: frames become blocks in chunks, chunks go to the writer.

use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::chunk::{Chunk, PATIENCE};
use super::credit::{CHUNK, Credit, OWN};
use super::limit::Limit;
use super::opener::Splitter;
use super::promise::Promise;
use super::roster::Numbers;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pcap::Direction;
use crate::pipeline::Allowance;
use crate::pipeline::Consumer;
use crate::port::Rx;
use crate::ring::{Receiver, Sender};
use crate::session::interfaces::Placing;
use crate::stats::RxCounters;
use crate::sync::{Doorbell, Watermark};

/// The writer looks for chunks periodically; it is woken for this many, and for the first after a
/// pause. A wake-up costs as much as
/// encoding thousands of packets.
const WORTH_WAKING: usize = 4;
/// Longest sleep: the receiving ends say how long they may.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The same while a merge finds the first packets: other ends wait for the time of this end.
const LIMITED_SLEEP: Duration = Duration::from_millis(50);

/// One receiving end's way to the writer, or to the writers of its strands.
#[derive(Default)]
pub(super) struct Route {
    /// One, or one for each strand; none if nothing is written.
    pub(super) lanes: Vec<Lane>,
    pub(super) placing: Placing,
    /// The port waits for us and loses nothing.
    pub(super) lossless: bool,
    /// The quota if a merge finds the first packets; `None` otherwise.
    pub(super) quota: Option<Quota>,
    /// Opens files for interfaces that are described later, if each has a separate file.
    pub(super) splitter: Option<Arc<Splitter>>,
}

/// How many more packets of a receiving end may be among the first ones of all ends. It bounds the
/// memory for packets beyond the limit.
#[derive(Clone, Copy)]
pub(super) struct Quota {
    left: u64,
    /// Timestamp of the newest packet so far. Once `left` is 0, only older packets are taken.
    newest: u64,
}

impl Quota {
    pub(super) fn new(packets: u64) -> Self {
        Self { left: packets, newest: 0 }
    }
}

/// A way to one writer.
pub(super) struct Lane {
    /// Its counters: one, or those of the strands.
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
    /// Chunks handed over since the bell was rung.
    pub(super) unannounced: usize,
    /// When the current chunk was first found incomplete with no packets coming; monotonic clock.
    pub(super) waiting_since: Option<u64>,
}

/// What a receiving thread does with its frames: encode them, or only count them.
pub(super) struct Worker {
    /// One per receiving end.
    pub(super) routes: Vec<Route>,
    pub(super) allowance: Allowance,
    /// Applied behind the merge.
    pub(super) limit: Option<Arc<Limit>>,
    /// For immediate delivery.
    pub(super) promise: Option<Promise>,
}

impl Consumer for Worker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.allowance.spend(batch.len());
        if let Some(route) = self.routes.get_mut(input) {
            route.take(batch)?;
        }
        Ok(())
    }

    fn capacity(&mut self) -> usize {
        if self.limit.as_ref().is_some_and(|limit| limit.is_reached()) {
            return 0;
        }
        self.allowance.admit(Batch::DEFAULT)
    }

    fn longest_sleep(&self) -> Option<Duration> {
        let soon = self.promise.as_ref().and_then(Promise::longest_sleep);
        soon.or(self.limit.as_ref().map(|_| LIMITED_SLEEP)).or(Some(LONGEST_SLEEP))
    }

    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        if idle {
            // Others may have traffic for what we do not use.
            self.allowance.give_back();
        }
        for (route, rx) in self.routes.iter_mut().zip(inputs) {
            let time = rx.watermark();
            route.lanes.iter_mut().for_each(|lane| lane.round(time, idle));
        }
        let lanes = || self.routes.iter().flat_map(|route| &route.lanes);
        if let Some(promise) = self.promise.as_mut().filter(|_| idle) {
            let horizon = inputs.iter().map(Rx::watermark).min().unwrap_or(u64::MAX);
            let newest = lanes().map(|lane| lane.newest).max().unwrap_or(0);
            let has_more = lanes().any(Lane::has_packets);
            if promise.follow(horizon, newest, has_more) {
                self.routes.iter_mut().flat_map(|route| &mut route.lanes).for_each(Lane::announce);
            }
        }
        Ok(())
    }

    /// Hands over the rest and ends the lanes.
    fn finish(&mut self) -> Result<()> {
        self.allowance.give_back();
        let mut bells: Vec<Arc<Doorbell>> = Vec::new();
        for mut lane in self.routes.drain(..).flat_map(|route| route.lanes) {
            lane.hand_over();
            let Lane { filled, bell, .. } = lane;
            drop(filled);
            if !bells.iter().any(|one| Arc::ptr_eq(one, &bell)) {
                bells.push(bell);
            }
        }
        // Who wakes up finds all lanes ended.
        bells.iter().for_each(|bell| bell.ring());
        Ok(())
    }
}

impl Route {
    #[inline]
    fn take(&mut self, batch: &Batch) -> Result<()> {
        let mut opened = Ok(());
        if let Some(splitter) = &self.splitter
            && self.placing.count() > self.lanes.len()
        {
            opened = splitter.open(&self.placing, &mut self.lanes);
        }
        match self.quota {
            None => {
                self.encode(batch);
            }
            Some(quota) => self.quota = Some(self.take_within(quota, batch)),
        }
        opened
    }

    /// Takes the frames that may be among the first ones; returns the rest of the quota.
    fn take_within(&mut self, mut quota: Quota, mut frames: &[Frame]) -> Quota {
        while quota.left > 0 && !frames.is_empty() {
            let most =
                usize::try_from(quota.left).map_or(frames.len(), |left| left.min(frames.len()));
            let (within, rest) = frames.split_at(most);
            // A packet that finds no room is lost, and does not use up the quota.
            quota.left -= self.encode(within);
            quota.newest = within.iter().map(Frame::timestamp).fold(quota.newest, u64::max);
            frames = rest;
        }
        for frame in frames {
            if frame.timestamp() < quota.newest {
                self.encode(std::slice::from_ref(frame));
            } else if let Some((lane, (strand, _))) = self.lane_of(frame)
                && let Some(counters) = lane.counters_of(strand)
            {
                counters.count_beyond(u64::from(frame.original_len()));
            }
        }
        quota
    }

    /// Encodes frames; returns how many found room.
    fn encode(&mut self, frames: &[Frame]) -> u64 {
        let Self { placing, lossless, .. } = self;
        let lossless = *lossless;
        match self.lanes.as_mut_slice() {
            [] => 0,
            [lane] => lane.encode(frames, lossless, |frame| placing.place_late(frame)),
            _ => {
                let mut encoded = 0;
                for frame in frames {
                    match self.lane_of(frame) {
                        Some((lane, place)) => {
                            encoded +=
                                lane.encode(std::slice::from_ref(frame), lossless, |_| place);
                        }
                        None => self.lose(frame),
                    }
                }
                encoded
            }
        }
    }

    /// There is no file for the interface of this frame.
    #[cold]
    fn lose(&self, frame: &Frame) {
        let (position, _) = self.placing.place_late(frame);
        if let Some(interface) = self.placing.interface(position) {
            interface.counters.count_unstored(1, u64::from(frame.original_len()));
        }
    }

    /// The lane of a frame, and its place there.
    fn lane_of(&mut self, frame: &Frame) -> Option<(&mut Lane, (u32, Direction))> {
        let Self { placing, lanes, .. } = self;
        let (strand, direction) = placing.place_late(frame);
        // One lane for all interfaces, or one for each.
        let (place, strand) = match (strand, lanes.len()) {
            (strand, 1) => (0, strand),
            (place, _) => (place as usize, 0),
        };
        Some((lanes.get_mut(place)?, (strand, direction)))
    }
}

impl Lane {
    /// Copies the frames into chunks, each as a packet of interface `place`, relative to the lane's
    /// first; counts frames for which there is no chunk. Returns the number of copied frames.
    #[inline]
    fn encode(
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
            let (strand, direction) = place(frame);
            let interface = if strand < self.fixed {
                self.interface + strand
            } else {
                let found = self.numbers.as_mut().map(|numbers| numbers.of(strand - self.fixed));
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
    fn lose(&mut self, frames: &[Frame], place: impl Fn(&Frame) -> (u32, Direction)) {
        for frame in frames {
            if let Some(counters) = self.counters_of(place(frame).0) {
                counters.count_unstored(1, u64::from(frame.original_len()));
            }
        }
    }

    /// The counters of the interface at this place.
    fn counters_of(&mut self, strand: u32) -> Option<&Arc<RxCounters>> {
        if strand < self.fixed {
            return self.counters.get(strand as usize);
        }
        let found = self.numbers.as_mut().map(|numbers| numbers.of(strand - self.fixed));
        found.flatten().map(|(_, counters)| counters)
    }

    /// One round of receiving is done, after which nothing older than `time` comes; `idle` says
    /// that it brought nothing.
    fn round(&mut self, time: u64, idle: bool) {
        if idle {
            self.keep_few();
        }
        let is_stale = self.current.as_ref().is_some_and(|chunk| chunk.is_stale(time));
        if is_stale || (idle && self.waits_in_vain()) {
            self.hand_over();
        } else if idle && self.prompt && self.is_due() {
            self.hand_over();
            self.announce();
        }
        let handed_over = self.current.as_ref().map_or(time, |chunk| chunk.oldest().min(time));
        if handed_over > self.watermark.get() {
            self.watermark.set(handed_over);
        }
    }

    /// An empty chunk, waiting for one if the port can wait and the writer is alive.
    fn empty_chunk(&mut self, lossless: bool) -> Option<Chunk> {
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
    fn keep_few(&mut self) {
        self.spent.receive(&mut self.empty, usize::MAX);
        for _ in OWN.min(self.empty.len())..self.empty.len() {
            self.empty.pop();
            self.credit.give_back();
        }
    }

    /// Whether packets have waited long enough by our own clock: the time of a port, such as a
    /// file, may stand still without packets.
    fn waits_in_vain(&mut self) -> bool {
        if self.current.as_ref().is_none_or(Chunk::is_empty) {
            return false;
        }
        let now = clock::monotonic_ns();
        now.saturating_sub(*self.waiting_since.get_or_insert(now)) >= PATIENCE
    }

    /// Whether there are packets, and the writer has taken those before: chunks with few of them
    /// are soon used up.
    fn is_due(&mut self) -> bool {
        let all = self.filled.capacity();
        self.has_packets() && self.filled.room(all) == all
    }

    /// Whether there are packets that were not handed over.
    fn has_packets(&self) -> bool {
        self.current.as_ref().is_some_and(|chunk| !chunk.is_empty())
    }

    /// Gives the current chunk to the writer. There is always room: the ring holds all chunks that
    /// a lane can have.
    fn hand_over(&mut self) {
        self.waiting_since = None;
        let Some(chunk) = self.current.take_if(|chunk| !chunk.is_empty()) else { return };
        self.newest = self.newest.max(chunk.newest());
        let sent = self.filled.send_one(chunk);
        debug_assert!(sent.is_ok());
        self.unannounced += 1;
        if self.unannounced >= WORTH_WAKING || self.bell.is_deep() {
            self.announce();
        }
    }

    fn announce(&mut self) {
        self.unannounced = 0;
        self.bell.ring();
    }
}
