//! The initial sequence numbers of TCP connections.

use std::collections::HashMap;

use crate::layer::IpAddresses;

/// At least this many recent connections are kept, and at most twice as many.
const KEPT: usize = 1 << 15;

/// The most recent connections.
#[derive(Default)]
pub(crate) struct Conversations {
    young: HashMap<ConversationKey, InitialSequences>,
    old: HashMap<ConversationKey, InitialSequences>,
}

/// The key of a connection, equal for both directions, and the direction.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionDirection {
    key: ConversationKey,
    reverse: bool,
}

/// The initial sequence numbers of both sides.
#[derive(Clone, Copy, Default)]
pub(crate) struct InitialSequences {
    forward: u32,
    backward: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ConversationKey {
    ends: IpAddresses,
    ports: (u16, u16),
}

impl ConnectionDirection {
    pub(crate) fn of(ends: IpAddresses, source: u16, destination: u16) -> Self {
        let (other, larger) = match ends {
            IpAddresses::V4 { source, destination } => {
                (IpAddresses::V4 { source: destination, destination: source }, source > destination)
            }
            IpAddresses::V6 { source, destination } => {
                (IpAddresses::V6 { source: destination, destination: source }, source > destination)
            }
        };
        let reverse = source > destination || source == destination && larger;
        let key = if reverse {
            ConversationKey { ends: other, ports: (destination, source) }
        } else {
            ConversationKey { ends, ports: (source, destination) }
        };
        Self { key, reverse }
    }
}

impl InitialSequences {
    /// The initial numbers of this side and of the other side.
    pub(crate) fn sides(&self, direction: ConnectionDirection) -> (u32, u32) {
        if direction.reverse {
            (self.backward, self.forward)
        } else {
            (self.forward, self.backward)
        }
    }
}

impl Conversations {
    /// The initial numbers for a segment with an acknowledgment, and whether an earlier segment
    /// determined them.
    pub(crate) fn start(
        &mut self,
        direction: ConnectionDirection,
        sequence: u32,
        acknowledgment: u32,
        begins: bool,
    ) -> (InitialSequences, bool) {
        if !begins {
            if let Some(start) = self.young.get(&direction.key) {
                return (*start, true);
            }
            if let Some(start) = self.old.get(&direction.key).copied() {
                self.insert(direction.key, start);
                return (start, true);
            }
        }
        let other = acknowledgment.wrapping_sub(1);
        let start = if direction.reverse {
            InitialSequences { forward: other, backward: sequence }
        } else {
            InitialSequences { forward: sequence, backward: other }
        };
        self.insert(direction.key, start);
        (start, false)
    }

    fn insert(&mut self, key: ConversationKey, start: InitialSequences) {
        if self.young.len() >= KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, start);
    }
}

impl std::fmt::Debug for Conversations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} connections", self.young.len() + self.old.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_latest_are_known() {
        let ends =
            |number: u32| IpAddresses::V4 { source: number.to_be_bytes(), destination: [9; 4] };
        let mut conversations = Conversations::default();
        let mut known = |number: u32| {
            let direction = ConnectionDirection::of(ends(number), 1, 2);
            let known = conversations.start(direction, 1, 1, false).1;
            assert!(conversations.young.len() + conversations.old.len() <= 2 * KEPT);
            known
        };
        let many = 5 * KEPT as u32;
        assert!((0..many).all(|number| !known(number)));
        assert!((many - KEPT as u32..many).all(&mut known));
        assert!(!known(0));
    }
}
