//! Finds the extents that may hold packets that a filter accepts.
//!
//! A filter is a program of classic BPF, a graph without cycles. The conditions on an extent are
//! derived from the program, never from the text of an expression. For the paths from an
//! instruction on:
//!
//! * accepting has no condition, rejecting cannot be satisfied;
//! * a comparison of bytes that make a key requires *(the keys that compare so, and the condition
//!   of the true branch) or (the keys that do not, and the condition of the false branch)*;
//! * any other comparison requires the condition of one of its branches.
//!
//! Which bytes make a key depends on the bytes before them ([`index`](crate::index)); the analysis
//! follows what the program has tested on each path. An accepted packet takes one of the paths, so
//! it has all keys of that path: no extent with such a packet is missed. Where the analysis loses
//! track, its condition is weaker, never stronger.

mod condition;
mod keys;
mod range;
mod show;
mod state;
mod walk;

use std::fmt;

use wirelane_filter::Program;

use self::condition::{ConditionForm, Conditions, ExtentCondition};

pub use self::keys::Keys;
use self::state::PathState;
use crate::extent_set::ExtentSet;
use crate::index::Layout;
use crate::key::Term;

/// The condition of a filter on extents.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The last form is the condition.
    forms: Vec<ConditionForm>,
}

impl Plan {
    /// The condition of `program` on an extent with packets of its link type.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let mut conditions = Conditions::new();
        let condition = match Layout::of(program.link_type()) {
            Some(layout) => walk::walk(program.ops(), &PathState::new(layout), &mut conditions),
            None => ExtentCondition::ALL,
        };
        Self { forms: conditions.extract(condition) }
    }

    /// The condition that packets have these keys.
    #[must_use]
    pub fn of_keys(keys: &Keys) -> Self {
        let mut conditions = Conditions::new();
        let condition = keys.condition(&mut conditions);
        Self { forms: conditions.extract(condition) }
    }

    /// Whether it has no condition, so that every extent must be read.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self.forms.last(), Some(ConditionForm::All))
    }

    /// The extents, among `universe` extents of a segment, that may hold a packet that the program
    /// accepts. `lookup` finds the extents with a key in a range.
    ///
    /// # Errors
    /// The errors of `lookup`.
    pub fn candidates<E>(
        &self,
        universe: usize,
        lookup: impl FnMut(&Term) -> Result<ExtentSet, E>,
    ) -> Result<ExtentSet, E> {
        condition::evaluate(&self.forms, universe, lookup)
    }
}

/// The condition as text.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show::show(&self.forms, f)
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
