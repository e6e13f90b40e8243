//! Packets of one kind: what they are, how long, how fast and how many.

use std::sync::Arc;

use crate::rate::Rate;
use crate::recipe::{Recipe, RecipeError};
use crate::schedule::{Burst, Schedule};
use crate::sizes::{Lengths, Sizes};
use crate::template::Template;

/// Packets of one kind.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How people name it.
    pub name: String,
    /// What its packets are. Streams may share one.
    pub template: Arc<Template>,
    /// How long they are, none below [`Template::min_len`].
    pub lengths: Lengths,
    /// How fast they are sent.
    pub rate: Rate,
    /// How many are sent; `None` for no limit.
    pub count: Option<u64>,
    /// Packets are sent that are due within this many nanoseconds after `start`; `None` for no
    /// limit.
    pub duration: Option<u64>,
    /// Nanoseconds after the start of everything.
    pub start: u64,
    /// In bursts, if at all.
    pub burst: Option<Burst>,
}

impl Stream {
    /// Packets of `recipe`, as fast as possible and without end. `sizes` of `None` are the length
    /// of the headers and the given payload, at least 60. `reserved` bytes are left for a
    /// signature.
    ///
    /// # Errors
    /// As [`Recipe::compile`] and [`Sizes::lengths`].
    pub fn new(
        name: impl Into<String>,
        recipe: &Recipe,
        sizes: Option<&Sizes>,
        reserved: usize,
    ) -> Result<Self, RecipeError> {
        let template = recipe.compile(reserved)?;
        let natural = Sizes::fixed(template.min_len() as u16);
        let lengths = sizes.unwrap_or(&natural).lengths(template.min_len());
        let lengths = lengths.map_err(|error| RecipeError::new(error.to_string()))?;
        Ok(Self {
            name: name.into(),
            template: Arc::new(template),
            lengths,
            rate: Rate::Max,
            count: None,
            duration: None,
            start: 0,
            burst: None,
        })
    }

    /// Replaces a share of the link's speed by packets per second, on a link of `link` bits per
    /// second.
    ///
    /// # Errors
    /// The rate is a share, and the speed is unknown.
    pub fn resolve(&mut self, link: Option<u64>) -> Result<(), RecipeError> {
        let Rate::Share(share) = self.rate else {
            return Ok(());
        };
        let Some(link) = link else {
            let name = &self.name;
            return Err(RecipeError::new(format!(
                "stream '{name}': {} of an unknown speed; give a rate in pps or bit",
                self.rate
            )));
        };
        let bits = (self.lengths.mean() + Rate::WIRE_OVERHEAD as f64) * 8.0;
        self.rate = Rate::Packets(share * link as f64 / bits);
        Ok(())
    }

    /// When its packets are due, without regard to other streams.
    ///
    /// # Errors
    /// As [`Schedule::new`].
    pub fn schedule(&self) -> Result<Schedule, String> {
        let schedule = Schedule::new(self.rate, &self.lengths)?;
        Ok(schedule.bursts(self.burst).starting(self.start))
    }

    /// The mean rate in packets per second, without gaps between bursts; `None` for as fast as
    /// possible or a share.
    pub fn packets_per_second(&self) -> Option<f64> {
        match self.rate {
            Rate::Packets(rate) => Some(rate),
            Rate::Bits(rate) => Some(rate / (self.lengths.mean() * 8.0)),
            Rate::Max | Rate::Share(_) => None,
        }
    }
}
