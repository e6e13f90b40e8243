//! Conditions on keys that a caller builds by hand.

use super::condition::{Conditions, ExtentCondition};
use crate::key::Term;

/// The keys that an extent must have to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// There is a key in the range.
    Term(Term),
    /// All of these hold. An empty list includes every extent.
    All(Vec<Self>),
    /// One of these holds. An empty list excludes every extent.
    Any(Vec<Self>),
}

impl Keys {
    pub(super) fn condition(&self, conditions: &mut Conditions) -> ExtentCondition {
        match self {
            Self::Term(term) => conditions.term(*term),
            Self::All(all) => all.iter().fold(ExtentCondition::ALL, |condition, keys| {
                let next = keys.condition(conditions);
                conditions.both(condition, next)
            }),
            Self::Any(any) => any.iter().fold(ExtentCondition::NONE, |condition, keys| {
                let next = keys.condition(conditions);
                conditions.either(condition, next)
            }),
        }
    }
}
