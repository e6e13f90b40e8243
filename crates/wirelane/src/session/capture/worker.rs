//! The receiving side of a capture: encodes frames as blocks in chunks, and passes chunks to the
//! writer.

use std::sync::Arc;
use std::time::Duration;

use super::lane::WriterPath;
use super::limit::PacketLimit;
use super::opener::Splitter;
use super::promise::Promise;
use super::writing::Writing;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pcap::Direction;
use crate::pipeline::Consumer;
use crate::port::Rx;
use crate::session::interfaces::Placing;
use crate::sync::Doorbell;

/// The longest sleep; the receiving ends may require shorter ones.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The same while a merge determines the first packets: other ends wait for the watermark of this
/// end.
const LIMITED_SLEEP: Duration = Duration::from_millis(50);

/// One receiving end's route to the writer, or to the writers of its interfaces.
#[derive(Default)]
pub(super) struct Route {
    /// One, or one for each interface; none without a writer.
    pub(super) lanes: Vec<WriterPath>,
    pub(super) placing: Placing,
    /// The port waits for its consumer and loses no packets.
    pub(super) lossless: bool,
    /// The quota if a merge determines the first packets; `None` otherwise.
    pub(super) quota: Option<FirstPacketsQuota>,
    /// Opens files for interfaces that are described later, if each has a separate file.
    pub(super) splitter: Option<Arc<Splitter>>,
}

/// How many more packets of a receiving end may be among the first ones of all ends. It limits the
/// memory for packets beyond the limit.
#[derive(Clone, Copy)]
pub(super) struct FirstPacketsQuota {
    left: u64,
    /// Timestamp of the newest packet so far. When `left` is 0, only older packets are taken.
    newest: u64,
}

impl FirstPacketsQuota {
    pub(super) fn new(packets: u64) -> Self {
        Self { left: packets, newest: 0 }
    }
}

/// The consumer of a receiving thread: encodes frames, or only counts them.
pub(super) struct CaptureWorker {
    /// One per receiving end.
    pub(super) routes: Vec<Route>,
    /// Applied behind the merge.
    pub(super) limit: Option<Arc<PacketLimit>>,
    /// For immediate delivery.
    pub(super) promise: Option<Promise>,
    /// The writing that this thread does itself, unless the writing thread is active.
    pub(super) writing: Option<Arc<Writing>>,
}

impl Consumer for CaptureWorker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        if let Some(route) = self.routes.get_mut(input) {
            route.take(batch)?;
        }
        Ok(())
    }

    fn capacity(&mut self) -> usize {
        if self.limit.as_ref().is_some_and(|limit| limit.is_reached()) {
            return 0;
        }
        Batch::DEFAULT
    }

    fn longest_sleep(&self) -> Option<Duration> {
        let soon = self.promise.as_ref().and_then(Promise::longest_sleep);
        soon.or(self.limit.as_ref().map(|_| LIMITED_SLEEP)).or(Some(LONGEST_SLEEP))
    }

    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        for (route, rx) in self.routes.iter_mut().zip(inputs) {
            let time = rx.watermark();
            route.lanes.iter_mut().for_each(|lane| lane.round(time, idle));
        }
        let lanes = || self.routes.iter().flat_map(|route| &route.lanes);
        if let Some(promise) = self.promise.as_mut().filter(|_| idle) {
            let horizon = inputs.iter().map(Rx::watermark).min().unwrap_or(u64::MAX);
            let newest = lanes().map(|lane| lane.newest).max().unwrap_or(0);
            let has_more = lanes().any(WriterPath::has_packets);
            if promise.follow(horizon, newest, has_more) {
                let is_done = self.writing.as_ref().is_some_and(|writing| writing.help());
                let lanes = self.routes.iter_mut().flat_map(|route| &mut route.lanes);
                lanes.for_each(if is_done { WriterPath::forget } else { WriterPath::announce });
            }
        }
        Ok(())
    }

    /// Hands over the rest and ends the lanes.
    fn finish(&mut self) -> Result<()> {
        let mut bells: Vec<Arc<Doorbell>> = Vec::new();
        for mut lane in self.routes.drain(..).flat_map(|route| route.lanes) {
            lane.hand_over();
            let WriterPath { filled, bell, .. } = lane;
            drop(filled);
            if !bells.iter().any(|one| Arc::ptr_eq(one, &bell)) {
                bells.push(bell);
            }
        }
        // The woken threads see that all lanes have ended.
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
    fn take_within(
        &mut self,
        mut quota: FirstPacketsQuota,
        mut frames: &[Frame],
    ) -> FirstPacketsQuota {
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
            } else if let Some((lane, (interface, _))) = self.lane_of(frame)
                && let Some(counters) = lane.counters_of(interface)
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

    /// Counts a frame whose interface has no file.
    #[cold]
    fn lose(&self, frame: &Frame) {
        let (position, _) = self.placing.place_late(frame);
        if let Some(interface) = self.placing.interface(position) {
            interface.counters.count_unstored(1, u64::from(frame.original_len()));
        }
    }

    /// The lane of a frame, and its interface there.
    fn lane_of(&mut self, frame: &Frame) -> Option<(&mut WriterPath, (u32, Direction))> {
        let Self { placing, lanes, .. } = self;
        let (interface, direction) = placing.place_late(frame);
        // One lane for all interfaces, or one for each.
        let (place, interface) = match (interface, lanes.len()) {
            (interface, 1) => (0, interface),
            (place, _) => (place as usize, 0),
        };
        Some((lanes.get_mut(place)?, (interface, direction)))
    }
}
