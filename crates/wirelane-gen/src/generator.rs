//! Generates the packets of many streams in order of departure.
//!
//! Streams with the same schedule form a group. The packets of a group are evenly spread: each
//! stream has a separate phase, so that N streams do not send bursts of N packets. The streams of a
//! group take turns, so the cost per packet does not depend on their number. A heap orders only the
//! groups by time. Streams without a rate also form groups and take turns.
//!
//! # Which thread sends what
//!
//! With n lanes, either lane i sends packets i, i + n, i + 2n … of a stream, or one lane sends the
//! whole stream. The first way spreads the load evenly. It keeps the packets of a flow on one lane
//! and in order if the fields of the template repeat after a multiple of n packets
//! ([`Template::cycle`](crate::Template::cycle)), as with 256 addresses on two lanes. Other streams
//! belong to one lane each, if there are at least as many equal streams as lanes. Otherwise, as for
//! a single flow on two lanes, several threads send packets of one flow, which may overtake each
//! other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::rate::Rate;
use crate::schedule::{Burst, Schedule, TickStep, Ticks};
use crate::signature::{self, Signature, SignatureKey};
use crate::source::{Departure, PacketSource, ThreadShare};
use crate::stream::Stream;
use crate::template::Cursor;

/// The packets of many streams that one thread sends.
#[derive(Debug)]
pub struct Generator {
    streams: Arc<[Stream]>,
    lane: ThreadShare,
    key: Option<SignatureKey>,
    groups: Vec<StreamGroup>,
    /// The next turns of all groups except the current one.
    waiting: BinaryHeap<Reverse<GroupTurn>>,
    current: Option<GroupTurn>,
    /// The positions of the fields of each stream.
    cursors: Vec<Cursor>,
    /// The number of packets written for each stream.
    sequences: Vec<u32>,
}

/// The next packet of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupTurn {
    at: u64,
    /// The packet number in its stream: at equal times, the group with fewer turns is first.
    k: u64,
    group: usize,
}

/// Streams with the same schedule.
#[derive(Debug)]
struct StreamGroup {
    /// The indices of the streams that this lane sends.
    members: Vec<u32>,
    /// The index of the next member.
    turn: usize,
    /// The number of its next packet.
    k: u64,
    /// The distance between two packets of a stream on this lane.
    stride: u64,
    clock: GroupClock,
    /// The number of packets of each stream on all lanes.
    count: u64,
    /// Packets due at this time or later are not sent.
    end: u64,
}

/// The times of a group.
#[derive(Debug)]
enum GroupClock {
    /// Steps from one packet of the lane to the next.
    Even { ticks: Ticks, next: TickStep, around: TickStep },
    /// Computes each time from the schedule. The group has one member.
    Uneven(Schedule),
}

impl Generator {
    /// A generator for the packets of `streams` that `lane` sends. With a `key`, it signs packets
    /// of templates that reserve room for a signature. The flow number is [`signature::flow`] of
    /// the stream index and the lane.
    ///
    /// # Errors
    /// A rate is a share of the link speed; some streams have a rate and others do not; there are
    /// more than 2²⁴ flows to sign.
    pub fn new(
        streams: Arc<[Stream]>,
        lane: ThreadShare,
        key: Option<SignatureKey>,
    ) -> Result<Self> {
        let paced = streams.iter().filter(|stream| stream.rate != Rate::Max).count();
        if paced != 0 && paced != streams.len() {
            return Err(Error::new(
                "some streams have a rate and others are as fast as possible, which would leave \
                 nothing to the first: give all of them a rate, or none",
            ));
        }
        let flows = signature::flow(streams.len() as u32, lane);
        if key.is_some() && (u32::try_from(streams.len()).is_err() || flows.is_none()) {
            return Err(Error::new("more streams than signatures can number"));
        }
        let mut generator = Self {
            cursors: Vec::with_capacity(streams.len()),
            sequences: vec![0; streams.len()],
            streams,
            lane,
            key,
            groups: Vec::new(),
            waiting: BinaryHeap::new(),
            current: None,
        };
        generator.group()?;
        generator.current = generator.waiting.pop().map(|Reverse(turn)| turn);
        Ok(generator)
    }

    /// Groups the streams, and adds their first turns to the heap.
    fn group(&mut self) -> Result<()> {
        let streams = self.streams.clone();
        let lane = ThreadShare { index: self.lane.index, of: self.lane.of.max(1) };
        let mut equal: Vec<Vec<u32>> = Vec::new();
        let mut known = HashMap::new();
        for (position, stream) in streams.iter().enumerate() {
            let group = *known.entry(Alike::new(stream, lane)).or_insert_with(|| {
                equal.push(Vec::new());
                equal.len() - 1
            });
            equal[group].push(position as u32);
        }

        // The packets of each stream that this lane sends: the first number, and the distance.
        let mut shares = vec![(0, 1); streams.len()];
        for (number, all) in equal.iter().enumerate() {
            let stream = &streams[all[0] as usize];
            let schedule = stream
                .schedule()
                .map_err(|error| Error::new(format!("stream '{}': {error}", stream.name)))?;
            // Groups also begin at different times, the first one immediately. The golden ratio
            // spreads any number of groups.
            let schedule = schedule.later((number as u32).wrapping_mul(0x9e37_79b9));
            let whole = !spreads(stream, lane) && all.len() >= lane.of as usize;
            let (first, stride) =
                if whole { (0, 1) } else { (u64::from(lane.index), u64::from(lane.of)) };
            let own = |j: &usize| !whole || *j as u32 % lane.of == lane.index;
            let members: Vec<usize> = (0..all.len()).filter(own).collect();
            for j in &members {
                shares[all[*j] as usize] = (first, stride);
            }
            let of = all.len() as u32;
            if schedule.is_even() {
                self.add_even(stream, schedule.merged(of), &members, all, (first, stride));
                continue;
            }
            for j in members {
                let clock = GroupClock::Uneven(schedule.clone().staggered(j as u32, of));
                self.add(stream, vec![all[j]], clock, (first, stride));
            }
        }
        for (stream, (first, stride)) in streams.iter().zip(shares) {
            self.cursors.push(stream.template.cursor(first, stride));
        }
        Ok(())
    }

    /// Adds a group with even times. `members` are indices into `all`, its streams on all lanes.
    fn add_even(
        &mut self,
        stream: &Stream,
        schedule: Schedule,
        members: &[usize],
        all: &[u32],
        (first, stride): (u64, u64),
    ) {
        let (Some(front), Some(back)) = (members.first(), members.last()) else {
            return;
        };
        let of = all.len() as u64;
        let apart = members.get(1).map_or(0, |second| second - front) as u64;
        let clock = GroupClock::Even {
            ticks: schedule.ticks(first * of + *front as u64),
            next: schedule.step(apart),
            around: schedule.step(stride * of - (back - front) as u64),
        };
        let members = members.iter().map(|j| all[*j]).collect();
        self.add(stream, members, clock, (first, stride));
    }

    fn add(&mut self, stream: &Stream, members: Vec<u32>, clock: GroupClock, share: (u64, u64)) {
        let end = match stream.duration {
            Some(duration) => stream.start.saturating_add(duration),
            None => u64::MAX,
        };
        let group = StreamGroup {
            members,
            turn: 0,
            k: share.0,
            stride: share.1,
            clock,
            count: stream.count.unwrap_or(u64::MAX),
            end,
        };
        if let Some((at, k)) = group.next() {
            self.waiting.push(Reverse(GroupTurn { at, k, group: self.groups.len() }));
        }
        self.groups.push(group);
    }

    /// The index of the stream with the next packet, and its turn.
    #[inline]
    fn peek(&self) -> Option<(usize, GroupTurn)> {
        let turn = self.current?;
        let group = self.groups.get(turn.group)?;
        group.members.get(group.turn).map(|stream| (*stream as usize, turn))
    }

    /// Advances to the next packet.
    #[inline]
    fn advance(&mut self, number: usize) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        group.advance();
        let next = group.next().map(|(at, k)| GroupTurn { at, k, group: number });
        self.current = match (next, self.waiting.peek_mut()) {
            (Some(next), Some(mut first)) if first.0 < next => {
                Some(std::mem::replace(&mut *first, Reverse(next)).0)
            }
            (None, Some(first)) => Some(std::collections::binary_heap::PeekMut::pop(first).0),
            (next, _) => next,
        };
    }
}

impl PacketSource for Generator {
    fn next(&mut self) -> Result<Option<Departure>> {
        Ok(self.peek().map(|(stream, turn)| Departure {
            at: turn.at,
            len: self.streams[stream].lengths.at(turn.k),
            stream: stream as u32,
        }))
    }

    fn write(&mut self, packet: &mut [u8], now: u64) {
        let Some((position, turn)) = self.peek() else {
            return;
        };
        let stream = &self.streams[position];
        let len = stream.lengths.at(turn.k);
        let Some(packet) = packet.get_mut(..len) else {
            // Skips a packet that does not fit.
            self.skip();
            return;
        };
        self.cursors[position].write(&stream.template, packet);
        let sequence = &mut self.sequences[position];
        if let Some(key) = self.key
            && stream.template.reserved() >= signature::LEN
        {
            let flow = signature::flow(position as u32, self.lane).unwrap_or(0);
            Signature { flow, sequence: *sequence, time: now }.write(key, packet);
        }
        *sequence = sequence.wrapping_add(1);
        self.advance(turn.group);
    }

    fn skip(&mut self) {
        if let Some((position, turn)) = self.peek() {
            self.cursors[position].skip();
            self.advance(turn.group);
        }
    }
}

impl StreamGroup {
    /// The due time of the next packet and its number in its stream; `None` after the last.
    #[inline]
    fn next(&self) -> Option<(u64, u64)> {
        if self.k >= self.count {
            return None;
        }
        let at = match &self.clock {
            GroupClock::Even { ticks, .. } => ticks.at,
            GroupClock::Uneven(schedule) => schedule.due(self.k),
        };
        // Without an end, a packet at `u64::MAX` is also valid.
        (at < self.end || self.end == u64::MAX).then_some((at, self.k))
    }

    #[inline]
    fn advance(&mut self) {
        self.turn += 1;
        let around = self.turn >= self.members.len();
        if around {
            self.turn = 0;
            // Saturates after the last number, so the last packet is sent only once.
            self.k = self.k.saturating_add(self.stride);
        }
        if let GroupClock::Even { ticks, next, around: far } = &mut self.clock {
            ticks.advance(if around { far } else { next });
        }
    }
}

/// The common properties of the streams of a group.
#[derive(PartialEq, Eq, Hash)]
struct Alike {
    rate: (u8, u64),
    /// The lengths, if times depend on them.
    lengths: Vec<u16>,
    start: u64,
    count: Option<u64>,
    duration: Option<u64>,
    burst: Option<Burst>,
    spreads: bool,
}

impl Alike {
    fn new(stream: &Stream, lane: ThreadShare) -> Self {
        let (kind, rate) = match stream.rate {
            Rate::Max => (0, 0.0),
            Rate::Packets(rate) => (1, rate),
            Rate::Bits(rate) => (2, rate),
            Rate::Share(rate) => (3, rate),
        };
        let timed = matches!(stream.rate, Rate::Bits(_));
        Self {
            rate: (kind, rate.to_bits()),
            lengths: if timed { stream.lengths.cycle().to_vec() } else { Vec::new() },
            start: stream.start,
            count: stream.count,
            duration: stream.duration,
            burst: stream.burst,
            spreads: spreads(stream, lane),
        }
    }
}

/// Whether the lanes have disjoint flows when each sends every n-th packet.
fn spreads(stream: &Stream, lane: ThreadShare) -> bool {
    let cycle = stream.template.cycle();
    lane.of <= 1 || cycle.is_none_or(|cycle| cycle.is_multiple_of(u64::from(lane.of)))
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
