//! TCP sequence numbers of a table, stored outside the entries that each packet touches.

use std::collections::HashMap;

use wirelane_wire::TcpFlags;

use crate::holes::AllHoles;
use crate::packet::DecodedPacket;
use crate::table::{FlowEntry, SegmentOrder, SequenceProgress, time_before};
use crate::trace::{LateSegments, RunLog, SegmentRun, Trace};

/// A run that has not ended.
#[derive(Clone, Copy, Default)]
struct OpenRun {
    /// The time of its first segment; 0 if that was in an earlier record.
    time: u64,
    begin: u32,
    /// The number of segments before it.
    before: u32,
    place: u16,
    is_probe: bool,
}

impl OpenRun {
    fn until(&self, progress: &SequenceProgress) -> SegmentRun {
        let Self { time, begin, before, place, is_probe } = *self;
        let time = if time == 0 { progress.start } else { time };
        let SequenceProgress { next: end, last, .. } = *progress;
        let segments = progress.segments.saturating_sub(before);
        let last = if segments < 2 { time } else { last };
        SegmentRun { time, last, begin, end, segments, place, is_probe }
    }
}

/// Indexed by the slots of flows.
#[derive(Default)]
pub(crate) struct Sequences {
    holes: AllHoles,
    counts: Vec<[LateSegments; 2]>,
    /// `Some` if other tables have parts of the same conversations.
    open: Option<Vec<[OpenRun; 2]>>,
    logs: HashMap<(u32, bool), RunLog>,
}

impl Sequences {
    /// Starts to note the runs that the join of several tables needs.
    pub(crate) fn track(&mut self) {
        self.open = Some(Vec::new());
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, |open| open.capacity() * size_of::<[OpenRun; 2]>());
        self.counts.capacity() * size_of::<[LateSegments; 2]>() + open
    }

    /// Begins a flow in a slot.
    pub(crate) fn begin(&mut self, slot: u32) {
        let at = slot as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, <[LateSegments; 2]>::default());
        }
        if let Some(counts) = self.counts.get_mut(at) {
            *counts = <[LateSegments; 2]>::default();
        }
    }

    /// Begins the next record of a flow.
    pub(crate) fn go_on(&mut self, slot: u32, entry: &FlowEntry) {
        self.begin(slot);
        let open = self.open.as_mut().and_then(|open| open.get_mut(slot as usize));
        for (at, open) in open.into_iter().flatten().enumerate() {
            *open = OpenRun { begin: entry.next_sequence(at == 1), ..OpenRun::default() };
        }
    }

    /// Forgets a flow.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.holes.forget(slot);
        // Usually empty: saves hashing the keys.
        if !self.logs.is_empty() {
            self.logs.remove(&(slot, false));
            self.logs.remove(&(slot, true));
        }
    }

    /// Notes a segment that does not follow its predecessor.
    pub(crate) fn note(
        &mut self,
        slot: u32,
        seen: &DecodedPacket,
        order: SegmentOrder,
        entry: &mut FlowEntry,
    ) {
        self.trace(slot, seen, order, entry);
        let is_reversed = seen.is_reversed;
        match order {
            SegmentOrder::Follows | SegmentOrder::Begins | SegmentOrder::Probes(..) => {}
            SegmentOrder::Ahead(begin, end, _) => {
                entry.set_holes(is_reversed, self.holes.add(slot, is_reversed, begin, end));
            }
            SegmentOrder::Behind(begin, end, _) => {
                let (fills, has_more) = match entry.has_holes(is_reversed) {
                    true => self.holes.fill(slot, is_reversed, begin, end),
                    false => (false, false),
                };
                entry.set_holes(is_reversed, has_more);
                let counts = self.counts.get_mut(slot as usize);
                if let Some(counts) = counts.and_then(|it| it.get_mut(usize::from(is_reversed))) {
                    match fills {
                        true => counts.out_of_order += 1,
                        false => counts.retransmissions += 1,
                    }
                }
            }
        }
    }

    /// The counts of a flow in both directions, from the first end of its key first.
    pub(crate) fn counts(&self, slot: u32) -> [LateSegments; 2] {
        self.counts.get(slot as usize).copied().unwrap_or_default()
    }

    /// The runs of a packet without a slot.
    pub(crate) fn of_one(&self, seen: &DecodedPacket, entry: &FlowEntry) -> Vec<Trace> {
        let is_reversed = seen.is_reversed;
        let (Some(_), Some(segment)) = (&self.open, &seen.tcp) else { return Vec::new() };
        let Some(progress) = entry.progress(is_reversed) else { return Vec::new() };
        let open = OpenRun { time: seen.time, begin: segment.sequence, ..OpenRun::default() };
        let (log, counts) = (RunLog::default(), LateSegments::default());
        vec![Trace::new(is_reversed, log, open.until(&progress), counts)]
    }

    /// The runs of a flow that ends or continues, for the join with other tables.
    pub(crate) fn traces(&mut self, slot: u32, entry: &FlowEntry) -> Vec<Trace> {
        let counts = self.counts(slot);
        let Some(open) = &self.open else { return Vec::new() };
        let Some(open) = open.get(slot as usize) else { return Vec::new() };
        let mut traces = Vec::new();
        for ((is_reversed, open), counts) in [false, true].into_iter().zip(open).zip(counts) {
            if let Some(progress) = entry.progress(is_reversed) {
                let log = self.logs.remove(&(slot, is_reversed)).unwrap_or_default();
                let last = open.until(&progress);
                traces.push(Trace::new(is_reversed, log, last, counts));
            }
        }
        traces
    }

    /// Notes where a run ends and the next one begins.
    fn trace(&mut self, slot: u32, seen: &DecodedPacket, order: SegmentOrder, entry: &FlowEntry) {
        let (Some(open), Some(segment)) = (&mut self.open, &seen.tcp) else { return };
        let (at, is_reversed, time) = (slot as usize, seen.is_reversed, seen.time);
        let Some(progress) = entry.progress(is_reversed) else { return };
        if open.len() <= at {
            open.resize(at + 1, <[OpenRun; 2]>::default());
        }
        let open = open.get_mut(at).and_then(|open| open.get_mut(usize::from(is_reversed)));
        let Some(open) = open else { return };
        let is_probe = seen.payload <= 1
            && !segment.flags.contains(TcpFlags::SYN)
            && !segment.flags.contains(TcpFlags::FIN);
        if order == SegmentOrder::Begins {
            let begin = segment.sequence;
            *open = OpenRun { time, begin, before: 0, place: 0, is_probe };
            return;
        }
        let log = self.logs.entry((slot, is_reversed)).or_default();
        let counts = self.counts.get(at).and_then(|it| it.get(usize::from(is_reversed)));
        let counts = counts.copied().unwrap_or_default();
        let next = progress.next;
        // `progress` already includes an ahead segment, which begins the next run.
        let progress = match order {
            SegmentOrder::Ahead(next, _, last) => {
                let segments = progress.segments.saturating_sub(1);
                SequenceProgress { next, segments, last: time_before(time, last), ..progress }
            }
            SegmentOrder::Behind(_, _, next) | SegmentOrder::Probes(_, _, next) => {
                SequenceProgress { next, ..progress }
            }
            SegmentOrder::Follows | SegmentOrder::Begins => return,
        };
        let over = open.until(&progress);
        if log.is_cut() {
            return;
        }
        if !log.reserve(2) {
            log.cut(over, counts);
            return;
        }
        if let SegmentOrder::Behind(begin, end, _) | SegmentOrder::Probes(begin, end, _) = order {
            let place = log.next_place();
            log.push(SegmentRun { time, last: time, begin, end, segments: 1, place, is_probe });
            if end.wrapping_sub(progress.next) as i32 <= 0 {
                return;
            }
        }
        log.push(over);
        let (begin, is_probe) = match order {
            SegmentOrder::Ahead(_, begin, _) => (begin, is_probe),
            _ => (next, false),
        };
        let before = progress.segments;
        *open = OpenRun { time, begin, before, place: log.next_place(), is_probe };
    }
}
