//! A condition on keys that somebody makes by hand, for questions that are no filter.

use super::condition::{Condition, Conditions};
use crate::key::Term;

/// What the keys of an extent have to fulfil, so that it may hold a packet that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// There is a key in the range.
    Term(Term),
    /// All of these hold; nothing is asked if there are none.
    All(Vec<Self>),
    /// One of these holds; no extent is asked for if there are none.
    Any(Vec<Self>),
}

impl Keys {
    pub(super) fn condition(&self, conditions: &mut Conditions) -> Condition {
        match self {
            Self::Term(term) => conditions.term(*term),
            Self::All(all) => all.iter().fold(Condition::ALL, |condition, keys| {
                let next = keys.condition(conditions);
                conditions.both(condition, next)
            }),
            Self::Any(any) => any.iter().fold(Condition::NONE, |condition, keys| {
                let next = keys.condition(conditions);
                conditions.either(condition, next)
            }),
        }
    }
}
