//! Reports about flows between tables that have parts of the same conversations.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::compact::Compact;
use crate::flow::Flow;
use crate::packet::Outer;
use crate::trace::Trace;

/// A part that began in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The number of its conversation, the same in all tables.
    pub(crate) conversation: u64,
    /// Its slot in the table.
    pub(crate) slot: u32,
    /// The time of its first packet.
    pub(crate) start: u64,
}

/// The begin of the record of a part, for the table that has the part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOrigin {
    pub(crate) conversation: u64,
    pub(crate) slot: u32,
    pub(crate) start: u64,
}

/// A report of a table.
#[derive(Debug, Default)]
pub(crate) struct TableReport {
    /// In the order in which they began.
    pub(crate) begun: Vec<Begun>,
    /// Conversations of parts that ended before `flows` and were lost on their way.
    pub(crate) lost: Vec<u64>,
    /// In the order in which they ended.
    pub(crate) flows: Vec<Flow>,
    /// Their conversations.
    pub(crate) conversations: Vec<u64>,
    /// Their sequence numbers.
    pub(crate) traces: Vec<Vec<Trace>>,
    /// Earlier reports of open parts are incomplete: the receiver must forget them first.
    pub(crate) begins_anew: bool,
    /// The table will receive no older packet.
    pub(crate) time: u64,
    /// The time of the table's newest packet.
    pub(crate) newest: u64,
}

/// The most unsent reports of parts.
const MOST: usize = 1 << 18;

impl TableReport {
    /// Whether it contains the time only.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.lost.is_empty() && self.flows.is_empty() && !self.begins_anew
    }

    /// Drops the flows, for which there is no room; the rest of the report is sent later.
    pub(crate) fn lose_flows(&mut self) {
        self.flows.clear();
        self.traces.clear();
        self.lost.append(&mut self.conversations);
        if self.begun.len() + self.lost.len() > MOST {
            (self.begun, self.lost) = (Vec::new(), Vec::new());
            self.begins_anew = true;
        }
    }
}

/// Notes the begin and the end of parts in a table.
pub(crate) struct Tracker {
    seed: [u64; 4],
    pub(crate) begun: Vec<Begun>,
    pub(crate) ended: Vec<u64>,
    pub(crate) traces: Vec<Vec<Trace>>,
}

impl Tracker {
    pub(crate) fn new(seed: u64) -> Self {
        let number = |place: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, place).hash(&mut hasher);
            hasher.finish()
        };
        let seed = [number(0), number(1), number(2), number(3)];
        Self { seed, begun: Vec::new(), ended: Vec::new(), traces: Vec::new() }
    }

    /// The number of a conversation.
    pub(crate) fn conversation(&self, key: &Compact, name: &str, outer: Option<&Outer>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (name, outer).hash(&mut hasher);
        key.conversation(&self.seed, hasher.finish())
    }

    /// Moves the notes into `parts`.
    pub(crate) fn take(&mut self, parts: &mut TableReport) {
        parts.begun.append(&mut self.begun);
        parts.conversations.append(&mut self.ended);
        parts.traces.append(&mut self.traces);
    }
}
