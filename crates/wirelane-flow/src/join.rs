//! Joins the parts of a conversation that different queues received.
//!
//! Each table reports the begin and the end of its parts, and its own time. A record is complete
//! once no table has an open part of it and the time of every table is past the last moment at
//! which another part could begin.
//!
//! Tables report their time even when they are quiet, and number a conversation equally. The
//! joining thread sends each table the begin of the record that a part belongs to, so an active
//! timeout cuts all parts at the same time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

use wirelane_wire::TcpFlags;

use crate::flow::{EndReason, Flow};
use crate::meter::{LINGER, MeterConfig};
use crate::parts::{Begun, PartOrigin, TableReport};
use crate::trace::{DirectionState, Trace, replay};

/// Interval, in ns, at which a record that waits for an open part is checked again.
const RECHECK: u64 = 1_000_000_000;
/// Longest delay, in ns, until a table notices that a flow is silent: more than a tick of its
/// wheel.
const LAG: u64 = 300_000_000;
/// The most records of one conversation to hold. Connections that use one pair of ports again and
/// again would otherwise make each new record cost more than the one before.
const MOST_OF_ONE: usize = 64;

/// A part that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenPart {
    table: usize,
    slot: u32,
    start: u64,
    /// Begin of the record that the part belongs to.
    origin: u64,
    /// Whether `origin` is final: parts that were silent when this one began have ended since.
    is_settled: bool,
}

/// The previous record of a conversation.
#[derive(Debug)]
struct Before {
    /// The end that began.
    source: (IpAddr, u16),
    /// A record that begins until this time continues the flow; a later one is another flow.
    until: u64,
    /// Whether it had a FIN: a record with SYN is another connection.
    has_fin: bool,
    /// Its sequence numbers: from the first end of the key, and back.
    lanes: [Option<DirectionState>; 2],
}

impl Before {
    fn is_continued_by(&self, next: &Flow) -> bool {
        let is_next = self.has_fin && flags(next).contains(TcpFlags::SYN);
        next.start() <= self.until && !is_next
    }
}

/// A record that is not complete yet.
#[derive(Debug)]
struct PendingRecord {
    flow: Flow,
    /// Its begin, even if the part that began it has not ended yet.
    origin: u64,
    /// The sequence numbers of its parts, each with the number of its table.
    traces: Vec<(usize, Trace)>,
}

/// The open parts and the records of a conversation.
#[derive(Debug)]
struct Conversation {
    open: VecDeque<OpenPart>,
    /// In order of time.
    records: VecDeque<PendingRecord>,
    before: Option<Before>,
    /// The time of the next check; `u64::MAX` for none.
    scheduled: u64,
    /// Its share of `Joiner::held`.
    weight: usize,
    /// Its time in `Joiner::waiting`.
    waits: Option<u64>,
}

/// The timeouts of records, in ns.
#[derive(Clone, Copy)]
struct JoinTimeouts {
    idle: u64,
    active: u64,
    linger: u64,
}

impl JoinTimeouts {
    /// The time until which another part of a record may begin.
    fn until(&self, record: &PendingRecord) -> u64 {
        let quiet = if record.flow.is_closed() { self.linger } else { self.idle };
        let silent = record.flow.last().saturating_add(quiet);
        silent.min(record.origin.saturating_add(self.active - 1))
    }

    /// Whether two parts belong to one record.
    fn are_one(&self, one: &PendingRecord, other: &PendingRecord) -> bool {
        let is_later = other.flow.start() < one.flow.start();
        let (earlier, later) = if is_later { (other, one) } else { (one, other) };
        let (first, second) = (&earlier.flow, &later.flow);
        let has_ended = flags(first).contains(TcpFlags::FIN) || first.is_closed();
        let is_next =
            has_ended && second.start() > first.last() && flags(second).contains(TcpFlags::SYN);
        second.start() <= self.until(earlier) && !is_next && first.community == second.community
    }
}

/// The flags of both directions.
fn flags(flow: &Flow) -> TcpFlags {
    flow.forward.tcp_flags.with(flow.reverse.tcp_flags)
}

/// Counts retransmitted and late segments in each direction whose packets several tables received.
/// `before` is the state after the previous record; returns the state after this record.
fn in_order(
    flow: &mut Flow,
    traces: &[(usize, Trace)],
    before: [Option<DirectionState>; 2],
) -> [Option<DirectionState>; 2] {
    if traces.is_empty() {
        return before;
    }
    let key = &flow.key;
    let is_turned = (key.source, key.source_port) > (key.destination, key.destination_port);
    let [first, second] = before;
    [(false, first), (true, second)].map(|(is_reversed, before)| {
        let of_direction = traces.iter().filter(|(_, trace)| trace.is_reversed == is_reversed);
        let (counts, lane) = replay(of_direction.clone(), before);
        let is_split = lane.as_ref().map_or(of_direction.count() > 1, |lane| lane.is_split);
        if is_split {
            let half = if is_reversed == is_turned { &mut flow.forward } else { &mut flow.reverse };
            (half.retransmissions, half.out_of_order) =
                (counts.retransmissions, counts.out_of_order);
        }
        lane
    })
}

/// Takes memory for one item: most conversations have one part and one record.
fn reserve<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.reserve_exact(1);
    }
}

/// Gives memory back that a queue needed when it was longer.
fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > 8 && queue.len() <= queue.capacity() / 4 {
        queue.shrink_to(queue.len() * 2);
    }
}

/// Holds records until all of their parts have arrived.
pub(crate) struct Joiner {
    limits: JoinTimeouts,
    /// The most records to hold.
    most: usize,
    /// The weight of all conversations: records, and conversations of which only the previous
    /// record is known. The tables bound the number of open parts.
    held: usize,
    /// The time of each table.
    times: Vec<u64>,
    /// The time of the newest packet of all tables.
    newest: u64,
    conversations: HashMap<u64, Conversation>,
    /// Time and number of each conversation to check.
    due: BTreeSet<(u64, u64)>,
    /// Each conversation that has a weight, with a time that is not later than
    /// [`Conversation::until`]: the first gives up a record if too many are held.
    waiting: BTreeSet<(u64, u64)>,
    /// Messages for the tables: the begin of the records that their parts belong to.
    origins: Vec<(usize, PartOrigin)>,
}

impl Joiner {
    pub(crate) fn new(config: MeterConfig, tables: usize, most: usize) -> Self {
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (idle, active) = (ns(config.idle).max(1), ns(config.active).max(1));
        Self {
            limits: JoinTimeouts { idle, active, linger: ns(LINGER).min(idle) },
            most,
            held: 0,
            times: vec![0; tables],
            newest: 0,
            conversations: HashMap::new(),
            due: BTreeSet::new(),
            waiting: BTreeSet::new(),
            origins: Vec::new(),
        }
    }

    /// Takes a report of a table; appends the complete records to `out`.
    pub(crate) fn take(&mut self, table: usize, parts: TableReport, out: &mut Vec<Flow>) {
        let TableReport { begun, lost, flows, conversations, traces, begins_anew, time, newest } =
            parts;
        self.newest = self.newest.max(newest);
        if begins_anew {
            self.forget(table);
        }
        for begun in begun {
            self.begin(table, &begun);
        }
        for conversation in lost {
            self.lose(table, conversation);
        }
        let mut traces = traces.into_iter();
        for (flow, conversation) in flows.into_iter().zip(conversations) {
            let traces = traces.next().unwrap_or_default();
            let traces = traces.into_iter().map(|trace| (table, trace)).collect();
            self.add(
                table,
                conversation,
                PendingRecord { origin: flow.start(), flow, traces },
                out,
            );
        }
        if let Some(known) = self.times.get_mut(table) {
            *known = time.max(*known);
        }
        let begun = out.len();
        self.release(out);
        self.make_room(out);
        self.tell_idle(out, begun);
    }

    /// A table that ends does not know the packets of the others: flows that it ended may have been
    /// idle.
    fn tell_idle(&self, flows: &mut [Flow], begun: usize) {
        for flow in flows.iter_mut().skip(begun).filter(|flow| flow.end == EndReason::Forced) {
            if self.newest.saturating_sub(flow.last()) > self.limits.idle {
                flow.end = EndReason::Idle;
            }
        }
    }

    /// Whether it waits for parts, or for the time of a table.
    pub(crate) fn holds_some(&self) -> bool {
        !self.conversations.is_empty()
    }

    /// The messages for the tables, each with the number of its table.
    pub(crate) fn origins(&mut self) -> impl Iterator<Item = (usize, PartOrigin)> + '_ {
        self.origins.drain(..)
    }

    /// Appends all records to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<Flow>) {
        let begun = out.len();
        for conversation in self.conversations.values_mut() {
            while conversation.give(&self.limits, out) {}
        }
        self.conversations.clear();
        self.due.clear();
        self.waiting.clear();
        self.held = 0;
        self.tell_idle(out, begun);
        if let Some(new) = out.get_mut(begun..) {
            new.sort_by_key(Flow::last);
        }
    }

    fn begin(&mut self, table: usize, begun: &Begun) {
        let Begun { conversation, slot, start } = *begun;
        let known = self.conversations.entry(conversation).or_insert_with(Conversation::new);
        let is_settled = known.open.is_empty() && known.records.is_empty();
        reserve(&mut known.open);
        known.open.push_back(OpenPart { table, slot, start, origin: start, is_settled });
        let time = if is_settled { u64::MAX } else { start.saturating_add(LAG) };
        self.update(conversation, time);
    }

    /// Notes that a part in a table has ended and was lost.
    fn lose(&mut self, table: usize, conversation: u64) {
        let known = self.conversations.get_mut(&conversation);
        if known.is_some_and(|known| known.close(table).is_some()) {
            self.update(conversation, 0);
        }
    }

    /// Adds a part that has ended in a table.
    fn add(
        &mut self,
        table: usize,
        conversation: u64,
        mut record: PendingRecord,
        out: &mut Vec<Flow>,
    ) {
        let limits = &self.limits;
        let known = self.conversations.entry(conversation).or_insert_with(Conversation::new);
        let closed = known.close(table);
        record.origin = closed.unwrap_or(u64::MAX).min(record.origin);
        let records = &mut known.records;
        while let Some(at) = records.iter().position(|one| limits.are_one(one, &record))
            && let Some(mut whole) = records.remove(at)
        {
            whole.flow.join(record.flow);
            whole.origin = whole.origin.min(record.origin);
            whole.traces.append(&mut record.traces);
            record = whole;
        }
        let at = records.partition_point(|one| one.flow.start() <= record.flow.start());
        let until = limits.until(&record);
        reserve(records);
        records.insert(at, record);
        if records.len() > MOST_OF_ONE {
            known.give(limits, out);
        }
        self.update(conversation, if closed.is_some() { 0 } else { until });
    }

    /// Notes a change of a conversation: it is checked as soon as all tables are past `time`, or
    /// earlier if that was planned before. Forgets one of which nothing is left.
    fn update(&mut self, conversation: u64, time: u64) {
        let Self { limits, conversations, due, waiting, held, .. } = self;
        let Some(known) = conversations.get_mut(&conversation) else { return };
        let weight = known.weight();
        *held = *held + weight - known.weight;
        known.weight = weight;
        let until = (weight > 0).then(|| known.until(limits));
        // A time that became later is corrected when it is the first.
        if until.is_none_or(|until| known.waits.is_none_or(|waits| until < waits)) {
            if let Some(waits) = known.waits.take() {
                waiting.remove(&(waits, conversation));
            }
            if let Some(until) = until {
                waiting.insert((until, conversation));
                known.waits = Some(until);
            }
        }
        let is_empty = known.is_idle() && known.before.is_none();
        if is_empty || time < known.scheduled {
            if known.scheduled < u64::MAX {
                due.remove(&(known.scheduled, conversation));
            }
            if is_empty {
                conversations.remove(&conversation);
            } else {
                known.scheduled = time;
                due.insert((time, conversation));
            }
        }
    }

    /// Forgets the open parts of a table.
    fn forget(&mut self, table: usize) {
        let mut changed = Vec::new();
        for (conversation, known) in &mut self.conversations {
            let open = known.open.len();
            known.open.retain(|open| open.table != table);
            if known.open.len() < open {
                shrink(&mut known.open);
                changed.push(*conversation);
            }
        }
        changed.into_iter().for_each(|conversation| self.update(conversation, 0));
    }

    /// Releases the complete records.
    fn release(&mut self, out: &mut Vec<Flow>) {
        let now = self.times.iter().copied().min().unwrap_or(u64::MAX);
        // A look plans no check before `now`, so this ends.
        while let Some(&(time, conversation)) = self.due.first()
            && time < now
        {
            self.due.pop_first();
            self.look(conversation, now, out);
        }
    }

    /// Releases the complete records of a conversation.
    fn look(&mut self, conversation: u64, now: u64, out: &mut Vec<Flow>) {
        let Self { limits, conversations, origins, .. } = self;
        let Some(known) = conversations.get_mut(&conversation) else { return };
        known.scheduled = u64::MAX;
        let mut next = known.settle(limits, now, |table, slot, start| {
            origins.push((table, PartOrigin { conversation, slot, start }));
        });
        while let Some(record) = known.records.front() {
            let until = limits.until(record);
            if until >= now || known.open.iter().any(|open| open.start <= until) {
                next = next.min(if until < now { now.saturating_add(RECHECK) } else { until });
                break;
            }
            known.give(limits, out);
        }
        match &known.before {
            Some(before) if before.until >= now => next = next.min(before.until),
            // A part that is open may still continue the flow.
            Some(_) if known.is_idle() => known.before = None,
            _ => {}
        }
        self.update(conversation, next);
    }

    /// Releases incomplete records if too many are held: those first that would be complete first.
    fn make_room(&mut self, out: &mut Vec<Flow>) {
        let Self { limits, most, .. } = *self;
        // Each turn takes weight from a conversation, or corrects a time that became later.
        while self.held > most
            && let Some((waits, conversation)) = self.waiting.pop_first()
        {
            let Some(known) = self.conversations.get_mut(&conversation) else { continue };
            known.waits = None;
            if known.until(&limits) <= waits {
                known.give(&limits, out);
                if known.is_idle() {
                    known.before = None;
                }
            }
            self.update(conversation, u64::MAX);
        }
    }
}

impl Conversation {
    fn new() -> Self {
        Self {
            open: VecDeque::new(),
            records: VecDeque::new(),
            before: None,
            scheduled: u64::MAX,
            weight: 0,
            waits: None,
        }
    }

    /// Whether it has neither an open part nor a record.
    fn is_idle(&self) -> bool {
        self.open.is_empty() && self.records.is_empty()
    }

    /// Its records; 1 if only the previous record is known.
    fn weight(&self) -> usize {
        let is_past = self.is_idle() && self.before.is_some();
        self.records.len() + usize::from(is_past)
    }

    /// The time until which the first record waits for parts, or the previous one for the next.
    fn until(&self, limits: &JoinTimeouts) -> u64 {
        let before = || self.before.as_ref().map_or(0, |before| before.until);
        self.records.front().map_or_else(before, |record| limits.until(record))
    }

    /// Removes the earliest open part of a table; returns the begin of its record.
    fn close(&mut self, table: usize) -> Option<u64> {
        let at = self.open.iter().position(|open| open.table == table)?;
        let closed = self.open.remove(at)?;
        shrink(&mut self.open);
        Some(closed.origin)
    }

    /// Finds the begin of the record of each open part, and calls `tell` for each part that began
    /// later than its record. Returns the time of the next check; `u64::MAX` for none.
    fn settle(
        &mut self,
        limits: &JoinTimeouts,
        now: u64,
        mut tell: impl FnMut(usize, u32, u64),
    ) -> u64 {
        let mut next = u64::MAX;
        let is_within = |begin: u64, time: u64| begin <= time && time - begin < limits.active;
        for at in 0..self.open.len() {
            let Some(&OpenPart { start, origin: known, is_settled, .. }) = self.open.get(at) else {
                break;
            };
            let due = start.saturating_add(LAG);
            if is_settled || due >= now {
                next = if is_settled { next } else { next.min(due) };
                continue;
            }
            let open = self.open.iter().filter(|open| open.start <= start);
            let open = open.map(|open| open.origin).filter(|origin| is_within(*origin, start));
            let records = self.records.iter().filter(|record| start <= limits.until(record));
            let records = records.map(|record| record.origin).filter(|origin| *origin <= start);
            let origin = open.chain(records).fold(known, u64::min);
            for (place, other) in self.open.iter_mut().enumerate() {
                other.is_settled |= place == at;
                let is_part = other.is_settled && other.start >= start;
                if is_part && origin < other.origin && is_within(origin, other.start) {
                    other.origin = origin;
                    tell(other.table, other.slot, origin);
                }
            }
        }
        next
    }

    /// Releases the first record, if there is one.
    fn give(&mut self, limits: &JoinTimeouts, out: &mut Vec<Flow>) -> bool {
        let Some(PendingRecord { flow: mut record, traces, .. }) = self.records.pop_front() else {
            return false;
        };
        shrink(&mut self.records);
        let mut lanes = [None, None];
        let source = |flow: &Flow| (flow.key.source, flow.key.source_port);
        // The next record of a flow has the same source, even if the other end sent its first
        // packet.
        if let Some(before) = self.before.take()
            && before.is_continued_by(&record)
        {
            lanes = before.lanes;
            if source(&record) != before.source {
                record.turn();
            }
        }
        let lanes = in_order(&mut record, &traces, lanes);
        if !record.is_closed() {
            let before = Before {
                source: source(&record),
                until: record.last().saturating_add(limits.idle),
                has_fin: flags(&record).contains(TcpFlags::FIN),
                lanes,
            };
            // The next record begins within the idle timeout, so only the active timeout divides
            // the two.
            if self.records.front().is_some_and(|next| before.is_continued_by(&next.flow)) {
                record.end = EndReason::Active;
            }
            self.before = Some(before);
        }
        out.push(record);
        true
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
