//! A bounded queue of messages for the collector.

use std::collections::VecDeque;

use super::encoder::Message;

/// A queue of messages with a limit in bytes.
#[derive(Debug)]
pub(super) struct Spool {
    messages: VecDeque<Message>,
    bytes: usize,
    limit: usize,
    /// Counts of flows that did not fit, or were given up.
    pub(super) lost: LostFlows,
}

/// Counts of lost flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LostFlows {
    pub(super) flows: u64,
    pub(super) packets: u64,
    pub(super) octets: u64,
}

impl Spool {
    pub(super) fn new(limit: usize) -> Self {
        Self { messages: VecDeque::new(), bytes: 0, limit, lost: LostFlows::default() }
    }

    /// Appends a message. Without room, the new message is lost, so that a returning collector
    /// first receives flows without a gap.
    pub(super) fn push(&mut self, message: Message) {
        if self.bytes + message.bytes.len() > self.limit {
            return self.lose(&message);
        }
        self.bytes += message.bytes.len();
        self.messages.push_back(message);
    }

    /// Returns a message from [`pop`](Self::pop) to the front.
    pub(super) fn put_back(&mut self, message: Message) {
        self.bytes += message.bytes.len();
        self.messages.push_front(message);
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.bytes.len();
        Some(message)
    }

    /// Whether another message might not fit.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > 0 && self.bytes + usize::from(u16::MAX) > self.limit
    }

    pub(super) fn give_up(&mut self) {
        while let Some(message) = self.pop() {
            self.lose(&message);
        }
    }

    fn lose(&mut self, message: &Message) {
        self.lost.flows += u64::from(message.records);
        self.lost.packets += message.packets;
        self.lost.octets += message.octets;
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Shapes;
    use super::*;

    fn message(records: u32) -> Message {
        Message {
            bytes: vec![0; 100],
            shapes: Shapes::default(),
            records,
            packets: u64::from(records) * 10,
            octets: 5,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut spool = Spool::new(250);
        for records in 1..=4 {
            spool.push(message(records));
        }
        assert_eq!(spool.lost, LostFlows { flows: 7, packets: 70, octets: 10 });
        let first = spool.pop().unwrap();
        assert_eq!(first.records, 1);
        spool.put_back(first);
        assert_eq!(spool.pop().unwrap().records, 1);
        spool.give_up();
        assert_eq!(spool.bytes, 0);
        assert_eq!(spool.lost.flows, 9);
    }
}
