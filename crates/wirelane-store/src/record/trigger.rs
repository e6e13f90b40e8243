//! Triggers of a recording: packets that match, and calls of [`Trigger::fire`].

use std::sync::Arc;
use std::time::Duration;

use wirelane::filter::{Engine, Filter};
use wirelane::frame::{Batch, Frame};
use wirelane::internal::clock;
use wirelane::internal::session::{Interface, Placing};
use wirelane::port::OpenOptions;
use wirelane::{Error, Result};

use super::config::TriggerConfig;
use crate::PreTrigger;

/// Fires, from any thread.
#[derive(Clone, Debug)]
pub struct Trigger {
    pre_trigger: Arc<PreTrigger>,
    before: Duration,
    after: Duration,
}

impl Trigger {
    pub(super) fn new(config: &TriggerConfig) -> Self {
        let TriggerConfig { before, after, .. } = *config;
        Self { pre_trigger: Arc::new(PreTrigger::new(before, after)), before, after }
    }

    /// Keeps the packets before and after this moment. Returns the number of triggers so far.
    pub fn fire(&self) -> u64 {
        self.pre_trigger.fire(clock::realtime_ns());
        self.pre_trigger.fired()
    }

    /// The number of triggers so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.pre_trigger.fired()
    }

    /// Whether packets received now are written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.pre_trigger.is_open(clock::realtime_ns())
    }

    /// How much before a trigger is kept.
    #[must_use]
    pub fn before(&self) -> Duration {
        self.before
    }

    /// How much after it.
    #[must_use]
    pub fn after(&self) -> Duration {
        self.after
    }

    pub(super) fn pre_trigger(&self) -> &Arc<PreTrigger> {
        &self.pre_trigger
    }
}

/// Looks for packets of one receiving end that trigger.
pub(super) struct Lookout {
    pre_trigger: Arc<PreTrigger>,
    filter: Filter,
    /// By link type; `None` if the filter means nothing there.
    engines: Vec<(u16, Option<Engine>)>,
    /// The engine of each interface, as far as they had packets.
    places: Vec<usize>,
}

impl Lookout {
    /// Looks for packets that `filter` accepts.
    ///
    /// # Errors
    /// It does not compile for the link type of an interface.
    pub(super) fn new(
        pre_trigger: &Arc<PreTrigger>,
        filter: &Filter,
        interfaces: &[Interface],
    ) -> Result<Self> {
        let mut links: Vec<_> = interfaces.iter().map(|one| one.source.link_type).collect();
        links.sort_unstable();
        links.dedup();
        let engines = links.into_iter().map(|link| Ok((link, Some(engine(filter, link)?))));
        let engines = engines.collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            pre_trigger: Arc::clone(pre_trigger),
            filter: filter.clone(),
            engines,
            places: Vec::new(),
        })
    }

    /// Fires at the time of each packet that matches.
    pub(super) fn look(&mut self, batch: &Batch, placing: &Placing) {
        let mut verdicts = [0; Batch::DEFAULT];
        if let [(_, Some(engine))] = self.engines.as_slice()
            && !placing.has_late()
        {
            for frames in batch.chunks(verdicts.len()) {
                engine.verdicts(frames, &mut verdicts);
                fire(&self.pre_trigger, frames, &verdicts);
            }
            return;
        }
        for frame in batch.iter() {
            let place = self.place(placing.place_late(frame).0, placing);
            let Some((_, Some(engine))) = self.engines.get(place) else { continue };
            let frame = std::slice::from_ref(frame);
            engine.verdicts(frame, &mut verdicts[..1]);
            fire(&self.pre_trigger, frame, &verdicts);
        }
    }

    /// The engine for the interface at a position.
    #[inline]
    fn place(&mut self, position: u32, placing: &Placing) -> usize {
        while self.places.len() <= position as usize {
            self.find(placing);
        }
        self.places.get(position as usize).copied().unwrap_or(usize::MAX)
    }

    /// Finds or makes the engine of the next interface.
    #[cold]
    fn find(&mut self, placing: &Placing) {
        let position = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let source = placing.found(position);
        let link_type = source.map_or(u16::MAX, |source| source.link_type);
        let known = self.engines.iter().position(|(link, _)| *link == link_type);
        let place = known.unwrap_or(self.engines.len());
        if known.is_none() {
            self.engines.push((link_type, engine(&self.filter, link_type).ok()));
        }
        self.places.push(place);
    }
}

/// The filter for packets of one link type.
///
/// # Errors
/// It does not compile for that.
fn engine(filter: &Filter, link_type: u16) -> Result<Engine> {
    let program = filter.program(link_type, OpenOptions::MAX_SNAPLEN)?;
    Engine::new(&program, 0)
}

fn fire(pre_trigger: &PreTrigger, frames: &[Frame], verdicts: &[u32]) {
    let matches = frames.iter().zip(verdicts).filter(|(_, verdict)| **verdict > 0);
    matches.for_each(|(frame, _)| pre_trigger.fire(frame.timestamp()));
}
