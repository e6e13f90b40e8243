//! What makes a recording with triggers write: packets that match, and whoever asks for it.

use std::sync::Arc;
use std::time::Duration;

use wirelane::clock;
use wirelane::filter::{Engine, Filter};
use wirelane::frame::{Batch, Frame};
use wirelane::port::OpenOptions;
use wirelane::session::interfaces::Interface;
use wirelane::{Error, Result};
use wirelane_store::Gate;

use crate::config::TriggerConfig;

/// Fires, from any thread.
#[derive(Clone, Debug)]
pub struct Trigger {
    gate: Arc<Gate>,
    before: Duration,
    after: Duration,
}

impl Trigger {
    pub(crate) fn new(config: &TriggerConfig) -> Self {
        let TriggerConfig { before, after, .. } = *config;
        Self { gate: Arc::new(Gate::new(before, after)), before, after }
    }

    /// Keeps what came before this moment, and what comes after it. Returns how often something has
    /// fired.
    pub fn fire(&self) -> u64 {
        self.gate.fire(clock::realtime_ns());
        self.gate.fired()
    }

    /// How often something has fired.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.gate.fired()
    }

    /// Whether packets that come now are written.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.gate.is_open(clock::realtime_ns())
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

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

/// Looks for packets of one receiving end that trigger.
pub(crate) struct Lookout {
    gate: Arc<Gate>,
    /// One for all its interfaces, or one for each.
    engines: Vec<Engine>,
}

impl Lookout {
    /// Looks for packets that `filter` accepts.
    ///
    /// # Errors
    /// It does not compile for the link type of an interface.
    pub(crate) fn new(gate: &Arc<Gate>, filter: &Filter, interfaces: &[Interface]) -> Result<Self> {
        let mut links: Vec<_> = interfaces.iter().map(|one| one.source.link_type).collect();
        links.dedup();
        if links.len() > 1 {
            links = interfaces.iter().map(|one| one.source.link_type).collect();
        }
        let engine = |link_type: &u16| {
            let program = filter.program(*link_type, OpenOptions::MAX_SNAPLEN)?;
            Engine::new(&program, 0)
        };
        let engines = links.iter().map(engine).collect::<Result<Vec<_>, Error>>()?;
        Ok(Self { gate: Arc::clone(gate), engines })
    }

    /// Fires at the time of each packet that matches. `interface` says of which one a frame is.
    pub(crate) fn look(&self, batch: &Batch, interface: impl Fn(&Frame) -> u32) {
        let mut verdicts = [0; Batch::DEFAULT];
        if let [engine] = self.engines.as_slice() {
            for frames in batch.chunks(verdicts.len()) {
                engine.verdicts(frames, &mut verdicts);
                self.fire(frames, &verdicts);
            }
            return;
        }
        for frame in batch.iter() {
            let Some(engine) = self.engines.get(interface(frame) as usize) else { continue };
            let frame = std::slice::from_ref(frame);
            engine.verdicts(frame, &mut verdicts[..1]);
            self.fire(frame, &verdicts);
        }
    }

    fn fire(&self, frames: &[Frame], verdicts: &[u32]) {
        let matches = frames.iter().zip(verdicts).filter(|(_, verdict)| **verdict > 0);
        matches.for_each(|(frame, _)| self.gate.fire(frame.timestamp()));
    }
}
