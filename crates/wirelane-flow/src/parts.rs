//! What tables tell each other of their flows: each has parts of the same conversations.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::compact::Compact;
use crate::flow::Flow;
use crate::packet::Outer;

/// A part that began in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The number of its conversation, the same in all tables.
    pub(crate) conversation: u64,
    /// Where the table has it.
    pub(crate) slot: u32,
    /// The time of its first packet.
    pub(crate) start: u64,
}

/// When the record began that a part belongs to, for the table that has the part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) conversation: u64,
    pub(crate) slot: u32,
    pub(crate) start: u64,
}

/// What a table tells at one time.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// In the order in which they began.
    pub(crate) begun: Vec<Begun>,
    /// Conversations of parts that ended before `flows` and were lost on their way.
    pub(crate) lost: Vec<u64>,
    /// In the order in which they ended.
    pub(crate) flows: Vec<Flow>,
    /// Their conversations.
    pub(crate) conversations: Vec<u64>,
    /// What was told of parts that go on is incomplete: it is to be forgotten first.
    pub(crate) begins_anew: bool,
    /// No packet that is older will come to this table.
    pub(crate) time: u64,
}

/// Parts that nobody was told of, at most.
const MOST: usize = 1 << 18;

impl Parts {
    /// Takes the flows out, as nobody takes them; what else was told is to be told later.
    pub(crate) fn lose_flows(&mut self) {
        self.flows.clear();
        self.lost.append(&mut self.conversations);
        if self.begun.len() + self.lost.len() > MOST {
            (self.begun, self.lost) = (Vec::new(), Vec::new());
            self.begins_anew = true;
        }
    }
}

/// Notes what begins and ends in a table.
pub(crate) struct Tracker {
    seed: [u64; 4],
    pub(crate) begun: Vec<Begun>,
    pub(crate) ended: Vec<u64>,
}

impl Tracker {
    pub(crate) fn new(seed: u64) -> Self {
        let number = |place: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, place).hash(&mut hasher);
            hasher.finish()
        };
        let seed = [number(0), number(1), number(2), number(3)];
        Self { seed, begun: Vec::new(), ended: Vec::new() }
    }

    /// The number of a conversation.
    pub(crate) fn conversation(&self, key: &Compact, name: &str, outer: Option<&Outer>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (name, outer).hash(&mut hasher);
        key.conversation(&self.seed, hasher.finish())
    }

    /// Adds what was noted to `parts`.
    pub(crate) fn take(&mut self, parts: &mut Parts) {
        parts.begun.append(&mut self.begun);
        parts.conversations.append(&mut self.ended);
    }
}
