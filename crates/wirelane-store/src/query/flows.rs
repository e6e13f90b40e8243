//! Conversations to be found as a whole.

use std::collections::HashSet;

use crate::index::FlowId;

/// A set of conversations, and their keys in an index.
#[derive(Debug)]
pub(super) struct ConversationSet {
    flows: HashSet<FlowId>,
    keys: Vec<u128>,
}

impl ConversationSet {
    pub(super) fn new(flows: HashSet<FlowId>) -> Self {
        let mut keys: Vec<_> = flows.iter().map(|flow| flow.key().into()).collect();
        keys.sort_unstable();
        keys.dedup();
        Self { flows, keys }
    }

    /// Whether a packet of this link type belongs to one of the conversations.
    #[inline]
    pub(super) fn have(&self, link_type: u16, data: &[u8]) -> bool {
        FlowId::of(link_type, data).is_some_and(|flow| self.flows.contains(&flow))
    }

    /// Their keys, in ascending order.
    pub(super) fn keys(&self) -> &[u128] {
        &self.keys
    }
}
