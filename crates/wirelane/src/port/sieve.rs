//! A filter for the packets of a port: a program for each link type that they have.

use std::slice;
use std::sync::Arc;

use super::bundle::Bundle;
use crate::error::{Error, Result};
use crate::filter::{Engine, Filter, retain_by};
use crate::frame::Batch;

/// A filter, compiled for every link type.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    filter: Filter,
    snaplen: u32,
    /// By link type.
    engines: Vec<(u16, Arc<Engine>)>,
    /// By number of a strand: the place of its engine.
    places: Vec<usize>,
    /// Why it is not machine code, or does not mean what it should.
    note: Option<String>,
}

impl Sieve {
    /// # Errors
    /// The filter means nothing for packets of one of these link types, or cannot run in user
    /// space.
    pub(super) fn new(filter: &Filter, snaplen: u32, link_types: &[u16]) -> Result<Self> {
        let filter = filter.clone();
        let mut sieve =
            Self { filter, snaplen, engines: Vec::new(), places: Vec::new(), note: None };
        link_types.iter().try_for_each(|link_type| sieve.place(*link_type).map(drop))?;
        Ok(sieve)
    }

    /// What a user should know of it.
    pub(super) fn note(&self) -> Option<&String> {
        self.note.as_ref()
    }

    /// Takes note of strands that were described since the last call.
    ///
    /// # Errors
    /// The filter means nothing for packets of their link type.
    #[inline]
    pub(super) fn learn(&mut self, bundle: &Bundle) -> Result<()> {
        while self.places.len() < bundle.len() {
            let strand = bundle.strand(self.places.len());
            let place = self.place(strand.map_or(1, |(source, _)| source.link_type))?;
            self.places.push(place);
        }
        Ok(())
    }

    /// Keeps the frames from the one at `first` on that match; returns how many did not. Those of
    /// strands that could not be learnt do not.
    #[inline]
    pub(super) fn retain(&self, bundle: Option<&Bundle>, batch: &mut Batch, first: usize) -> usize {
        match (bundle, &self.engines[..]) {
            (None, [(_, engine), ..]) => engine.retain(batch, first),
            (Some(bundle), [(_, engine)]) if self.places.len() >= bundle.len() => {
                engine.retain(batch, first)
            }
            (Some(bundle), _) => self.retain_each(bundle, batch, first),
            (None, []) => 0,
        }
    }

    #[cold]
    fn retain_each(&self, bundle: &Bundle, batch: &mut Batch, first: usize) -> usize {
        retain_by(batch, first, |frames, verdicts| {
            for (frame, verdict) in frames.iter().zip(verdicts) {
                let place = self.places.get(bundle.strand_of(frame));
                match place.and_then(|place| self.engines.get(*place)) {
                    Some((_, engine)) => {
                        engine.verdicts(slice::from_ref(frame), slice::from_mut(verdict));
                    }
                    None => *verdict = 0,
                }
            }
        })
    }

    /// The place of the engine for a link type.
    #[cold]
    fn place(&mut self, link_type: u16) -> Result<usize> {
        if let Some(place) = self.engines.iter().position(|(known, _)| *known == link_type) {
            return Ok(place);
        }
        let program = self.filter.program(link_type, self.snaplen);
        let program = program.map_err(|error| {
            let error = Error::from(error);
            if self.engines.is_empty() {
                return error;
            }
            error.help(format!(
                "some packets of the file are of link type {link_type}, others not; a \
                 split capture makes a file of each interface"
            ))
        })?;
        let engine = Engine::new(&program, 0)?;
        let slow = || engine.note().map(|cause| format!("the filter is interpreted: {cause}"));
        let note = program.note().map(str::to_owned).or_else(slow);
        self.note = self.note.take().or(note);
        self.engines.push((link_type, Arc::new(engine)));
        Ok(self.engines.len() - 1)
    }
}
