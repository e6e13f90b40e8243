//! Streams: packets of one kind, with their sizes, rate and count.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::rate::Rate;
use crate::recipe::Recipe;
use crate::schedule::{Burst, Schedule};
use crate::sizes::{Lengths, Sizes};
use crate::template::Template;

/// A stream of packets of one kind. [`Stream::new`] creates one; the fields that limit it in time
/// and number have setters of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stream {
    /// The name of the stream.
    pub name: String,
    /// The template of its packets. Streams may share one.
    pub template: Arc<Template>,
    /// The packet lengths, none below [`Template::min_len`].
    pub lengths: Lengths,
    /// The sending rate.
    pub rate: Rate,
    /// The number of packets; `None` for no limit.
    pub count: Option<u64>,
    /// The stream sends packets due within this many nanoseconds after `start`; `None` for no
    /// limit.
    pub duration: Option<u64>,
    /// The start of the stream, in nanoseconds after the start of sending.
    pub start: u64,
    /// Bursts, if any.
    pub burst: Option<Burst>,
}

wirelane_wire::setters!(Stream:
    name: String,
    rate: Rate,
    count: Option<u64>,
    duration: Option<u64>,
    burst: Option<Burst>;
    start: u64,
);

impl Stream {
    /// A stream of packets of `recipe`, as fast as possible and without limit. Without `sizes`, the
    /// packets have the length of the headers and the given payload, at least 60 bytes. `reserved`
    /// bytes at the end are left for a signature.
    ///
    /// # Errors
    /// The errors of [`Recipe::compile`] and [`Sizes::lengths`].
    pub fn new(
        name: impl Into<String>,
        recipe: &Recipe,
        sizes: Option<&Sizes>,
        reserved: usize,
    ) -> Result<Self> {
        let template = recipe.compile(reserved)?;
        let natural = Sizes::fixed(template.min_len() as u16);
        let lengths = sizes.unwrap_or(&natural).lengths(template.min_len())?;
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

    /// Replaces a rate that is a share of the link speed by packets per second, for a link of
    /// `link` bits per second.
    ///
    /// # Errors
    /// The rate is a share, and the link speed is unknown.
    pub fn resolve(&mut self, link: Option<u64>) -> Result<()> {
        let Rate::Share(share) = self.rate else {
            return Ok(());
        };
        let Some(link) = link else {
            let name = &self.name;
            return Err(Error::new(format!(
                "stream '{name}': {} of an unknown speed; give a rate in pps or bit",
                self.rate
            )));
        };
        let bits = (self.lengths.mean() + Rate::WIRE_OVERHEAD as f64) * 8.0;
        self.rate = Rate::Packets(share * link as f64 / bits);
        Ok(())
    }

    /// The due times of its packets, independently of other streams.
    ///
    /// # Errors
    /// The errors of [`Schedule::new`].
    pub fn schedule(&self) -> Result<Schedule> {
        let schedule = Schedule::new(self.rate, &self.lengths)?;
        Ok(schedule.bursts(self.burst).starting(self.start))
    }

    /// The mean rate in packets per second, ignoring gaps between bursts; `None` for as fast as
    /// possible or a share.
    pub fn packets_per_second(&self) -> Option<f64> {
        match self.rate {
            Rate::Packets(rate) => Some(rate),
            Rate::Bits(rate) => Some(rate / (self.lengths.mean() * 8.0)),
            Rate::Max | Rate::Share(_) => None,
        }
    }
}
