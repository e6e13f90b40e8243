//! Which extents can hold a packet that a filter accepts.
//!
//! A filter is a program of classic BPF, a graph without circles. What it asks of an extent is
//! found on the program, never on the text of an expression: for the ways from an instruction on,
//!
//! * accepting asks nothing, rejecting cannot be fulfilled;
//! * a comparison of bytes that make a key asks for *(the keys that compare so, and what the true
//!   branch asks) or (the keys that do not, and what the false branch asks)*;
//! * any other comparison asks for what one of its branches does.
//!
//! Which bytes make a key depends on what stands before them ([`index`](crate::index)); the
//! analysis follows what the program knows of that on each way. A packet that the program accepts
//! comes one of the ways, so it has all keys of that way: no extent with such a packet is missed.
//! Where the analysis loses its way, it asks for less, never for more.

mod condition;
mod keys;
mod range;
mod show;
mod state;
mod walk;

use std::fmt;

use wirelane_filter::Program;

use self::condition::{Condition, Conditions, Form};

pub use self::keys::Keys;
use self::state::State;
use crate::extent_set::ExtentSet;
use crate::index::Layout;
use crate::key::Term;

/// What a filter asks of an extent.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The last one is the condition.
    forms: Vec<Form>,
}

impl Plan {
    /// What `program` asks of an extent of packets of its link type.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let mut conditions = Conditions::new();
        let condition = match Layout::of(program.link_type()) {
            Some(layout) => walk::walk(program.ops(), &State::new(layout), &mut conditions),
            None => Condition::ALL,
        };
        Self { forms: conditions.extract(condition) }
    }

    /// What somebody asks of an extent who knows which keys the packets have.
    #[must_use]
    pub fn of_keys(keys: &Keys) -> Self {
        let mut conditions = Conditions::new();
        let condition = keys.condition(&mut conditions);
        Self { forms: conditions.extract(condition) }
    }

    /// Whether it asks nothing: every extent has to be read.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self.forms.last(), Some(Form::All))
    }

    /// Those of `universe` extents of a segment that may hold a packet that the program accepts.
    /// `lookup` finds those that hold a key of a range.
    ///
    /// # Errors
    /// That of `lookup`.
    pub fn candidates<E>(
        &self,
        universe: usize,
        lookup: impl FnMut(&Term) -> Result<ExtentSet, E>,
    ) -> Result<ExtentSet, E> {
        condition::evaluate(&self.forms, universe, lookup)
    }
}

/// The condition in words.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show::show(&self.forms, f)
    }
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
