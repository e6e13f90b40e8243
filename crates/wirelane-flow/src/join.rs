//! Joins the parts of a conversation that different queues received.
//!
//! Each table reports the begin and the end of its parts, and its own time. A record is complete
//! once no table has an open part of it and the time of every table is past the last moment at
//! which another part could begin.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use wirelane_wire::TcpFlags;

use crate::flow::{EndReason, Flow};
use crate::meter::{LINGER, MeterConfig};
use crate::parts::{Begun, Origin, Parts};

/// Interval, in ns, at which a record that waits for an open part is checked again.
const RECHECK: u64 = 1_000_000_000;
/// Longest delay, in ns, until a table notices that a flow is silent: more than a tick of its
/// wheel.
const LAG: u64 = 300_000_000;

/// A part that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
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
}

/// A record that is not complete yet.
#[derive(Debug)]
struct Record {
    flow: Flow,
    /// Its begin, even if the part that began it has not ended yet.
    origin: u64,
}

/// The open parts and the records of a conversation.
#[derive(Debug)]
struct Conversation {
    open: Vec<Open>,
    /// In order of time.
    records: Vec<Record>,
    before: Option<Before>,
    /// The time of the next check; `u64::MAX` for none.
    scheduled: u64,
}

/// The timeouts of records, in ns.
#[derive(Clone, Copy)]
struct Limits {
    idle: u64,
    active: u64,
    linger: u64,
}

impl Limits {
    /// The time until which another part of a record may begin.
    fn until(&self, record: &Record) -> u64 {
        let quiet = if record.flow.is_closed() { self.linger } else { self.idle };
        let silent = record.flow.last().saturating_add(quiet);
        silent.min(record.origin.saturating_add(self.active - 1))
    }

    /// Whether two parts belong to one record.
    fn are_one(&self, one: &Record, other: &Record) -> bool {
        let is_later = other.flow.start() < one.flow.start();
        let (earlier, later) = if is_later { (other, one) } else { (one, other) };
        let (first, second) = (&earlier.flow, &later.flow);
        let flags = |flow: &Flow| flow.forward.tcp_flags.with(flow.reverse.tcp_flags);
        let has_ended = flags(first).contains(TcpFlags::FIN) || first.is_closed();
        let is_next =
            has_ended && second.start() > first.last() && flags(second).contains(TcpFlags::SYN);
        second.start() <= self.until(earlier) && !is_next && first.community == second.community
    }
}

/// Holds records until all of their parts have arrived.
pub(crate) struct Joiner {
    limits: Limits,
    /// The most records to hold.
    most: usize,
    held: usize,
    /// The time of each table.
    times: Vec<u64>,
    conversations: HashMap<u64, Conversation>,
    /// Time and number of each conversation to check.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// Messages for the tables: the begin of the records that their parts belong to.
    origins: Vec<(usize, Origin)>,
}

impl Joiner {
    pub(crate) fn new(config: MeterConfig, tables: usize, most: usize) -> Self {
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (idle, active) = (ns(config.idle).max(1), ns(config.active).max(1));
        Self {
            limits: Limits { idle, active, linger: ns(LINGER).min(idle) },
            most,
            held: 0,
            times: vec![0; tables],
            conversations: HashMap::new(),
            due: BinaryHeap::new(),
            origins: Vec::new(),
        }
    }

    /// Takes a report of a table; appends the complete records to `out`.
    pub(crate) fn take(&mut self, table: usize, parts: Parts, out: &mut Vec<Flow>) {
        let Parts { begun, lost, flows, conversations, begins_anew, time } = parts;
        if begins_anew {
            self.forget(table);
        }
        for begun in begun {
            self.begin(table, &begun);
        }
        for conversation in lost {
            self.close(table, conversation);
        }
        for (flow, conversation) in flows.into_iter().zip(conversations) {
            self.add(table, conversation, flow);
        }
        if let Some(known) = self.times.get_mut(table) {
            *known = time.max(*known);
        }
        self.release(out);
    }

    /// The messages for the tables, each with the number of its table.
    pub(crate) fn origins(&mut self) -> impl Iterator<Item = (usize, Origin)> + '_ {
        self.origins.drain(..)
    }

    /// Appends all records to `out`.
    pub(crate) fn finish(&mut self, out: &mut Vec<Flow>) {
        let begun = out.len();
        for conversation in self.conversations.values_mut() {
            while conversation.give(&self.limits, out) {}
        }
        self.conversations.clear();
        self.held = 0;
        if let Some(new) = out.get_mut(begun..) {
            new.sort_by_key(Flow::last);
        }
    }

    fn begin(&mut self, table: usize, begun: &Begun) {
        let Begun { conversation, slot, start } = *begun;
        let known = self.conversations.entry(conversation).or_insert_with(Conversation::new);
        let is_settled = known.open.is_empty() && known.records.is_empty();
        known.open.push(Open { table, slot, start, origin: start, is_settled });
        if !is_settled {
            self.schedule(conversation, start.saturating_add(LAG));
        }
    }

    /// Notes that a part in a table has ended; returns the begin of its record, if known.
    fn close(&mut self, table: usize, conversation: u64) -> Option<u64> {
        let known = self.conversations.get_mut(&conversation)?;
        let at = known.open.iter().position(|open| open.table == table)?;
        let origin = known.open.remove(at).origin;
        self.schedule(conversation, 0);
        Some(origin)
    }

    /// Adds a part that has ended in a table.
    fn add(&mut self, table: usize, conversation: u64, flow: Flow) {
        let origin = self.close(table, conversation).unwrap_or(u64::MAX).min(flow.start());
        let mut record = Record { flow, origin };
        let known = self.conversations.entry(conversation).or_insert_with(Conversation::new);
        let records = &mut known.records;
        while let Some(at) = records.iter().position(|one| self.limits.are_one(one, &record)) {
            let mut whole = records.remove(at);
            self.held -= 1;
            whole.flow.join(record.flow);
            whole.origin = whole.origin.min(record.origin);
            record = whole;
        }
        let at = records.partition_point(|one| one.flow.start() <= record.flow.start());
        let until = self.limits.until(&record);
        records.insert(at, record);
        self.held += 1;
        self.schedule(conversation, until);
    }

    /// Has a conversation checked as soon as all tables are past a time.
    fn schedule(&mut self, conversation: u64, time: u64) {
        let Some(known) = self.conversations.get_mut(&conversation) else { return };
        if time < known.scheduled {
            known.scheduled = time;
            self.due.push(Reverse((time, conversation)));
        }
    }

    /// Forgets the open parts of a table.
    fn forget(&mut self, table: usize) {
        for conversation in self.conversations.values_mut() {
            conversation.open.retain(|open| open.table != table);
        }
        let all: Vec<_> = self.conversations.keys().copied().collect();
        all.into_iter().for_each(|conversation| self.schedule(conversation, 0));
    }

    /// Releases the complete records, and more if too many are held.
    fn release(&mut self, out: &mut Vec<Flow>) {
        let now = self.times.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(&Reverse((time, conversation))) = self.due.peek()
            && (time < now || self.held > self.most)
        {
            self.due.pop();
            self.look(conversation, now, out);
        }
    }

    /// Releases the complete records of a conversation.
    fn look(&mut self, conversation: u64, now: u64, out: &mut Vec<Flow>) {
        let Self { limits, conversations, origins, .. } = self;
        let Some(known) = conversations.get_mut(&conversation) else { return };
        known.scheduled = u64::MAX;
        let mut next = known.settle(limits, now, |table, slot, start| {
            origins.push((table, Origin { conversation, slot, start }));
        });
        while let Some(record) = known.records.first() {
            let until = limits.until(record);
            let is_whole = until < now && known.open.iter().all(|open| open.start > until);
            if !is_whole && self.held <= self.most {
                next = next.min(if until < now { now.saturating_add(RECHECK) } else { until });
                break;
            }
            self.held -= usize::from(known.give(limits, out));
        }
        if let Some(before) = &known.before
            && before.until >= now
        {
            next = next.min(before.until);
        }
        if next < u64::MAX {
            self.schedule(conversation, next);
        } else if known.open.is_empty() && known.records.is_empty() {
            conversations.remove(&conversation);
        }
    }
}

impl Conversation {
    fn new() -> Self {
        Self { open: Vec::new(), records: Vec::new(), before: None, scheduled: u64::MAX }
    }

    /// Finds the begin of the record of each open part, and calls `tell` for each part that began
    /// later than its record. Returns the time of the next check; `u64::MAX` for none.
    fn settle(&mut self, limits: &Limits, now: u64, mut tell: impl FnMut(usize, u32, u64)) -> u64 {
        let mut next = u64::MAX;
        let is_within = |begin: u64, time: u64| begin <= time && time - begin < limits.active;
        for at in 0..self.open.len() {
            let Some(&Open { start, origin: known, is_settled, .. }) = self.open.get(at) else {
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
    fn give(&mut self, limits: &Limits, out: &mut Vec<Flow>) -> bool {
        if self.records.is_empty() {
            return false;
        }
        let Record { flow: mut record, .. } = self.records.remove(0);
        let source = |flow: &Flow| (flow.key.source, flow.key.source_port);
        // The next record of a flow has the same source, even if the other end sent its first
        // packet.
        if let Some(before) = self.before.take()
            && record.start() <= before.until
            && source(&record) != before.source
        {
            record.turn();
        }
        if !record.is_closed() {
            let until = record.last().saturating_add(limits.idle);
            // The next record begins within the idle timeout, so only the active timeout divides
            // the two.
            if self.records.first().is_some_and(|next| next.flow.start() <= until) {
                record.end = EndReason::Active;
            }
            self.before = Some(Before { source: source(&record), until });
        }
        out.push(record);
        true
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
