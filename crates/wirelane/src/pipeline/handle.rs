//! Control of running threads, from any thread.

use std::sync::Arc;

use super::progress::LoopRounds;
use crate::port::Control;

/// Controls ports, and ends the threads that use them, from any thread.
#[derive(Clone)]
pub struct Handle {
    controls: Vec<Arc<dyn Control>>,
    stop: Arc<dyn Fn() + Send + Sync>,
    /// Of each receiving thread.
    progress: Arc<[Arc<LoopRounds>]>,
}

impl Handle {
    /// `controls` has one entry per port; `stop` ends the threads.
    #[doc(hidden)]
    pub fn new(controls: Vec<Arc<dyn Control>>, stop: impl Fn() + Send + Sync + 'static) -> Self {
        Self { controls, stop: Arc::new(stop), progress: Arc::default() }
    }

    /// Makes stopping also call `stop`.
    #[doc(hidden)]
    #[must_use]
    pub fn stopping(self, stop: impl Fn() + Send + Sync + 'static) -> Self {
        let first = self.stop;
        let both = move || {
            first();
            stop();
        };
        Self { stop: Arc::new(both), ..self }
    }

    /// The same handle, with the progress of these receiving threads.
    #[must_use]
    pub(super) fn of_threads(self, progress: &Arc<[Arc<LoopRounds>]>) -> Self {
        Self { progress: Arc::clone(progress), ..self }
    }

    /// The same handle, with the progress of the receiving threads of `other`.
    #[must_use]
    pub(crate) fn watching(self, other: &Self) -> Self {
        self.of_threads(&other.progress)
    }

    /// The number of rounds that each receiving thread has made; `None` after its end. A thread
    /// makes a round at least twice per second, also without packets: if the number does not change
    /// for longer, the thread is stuck. Empty for threads that do not receive.
    #[doc(hidden)]
    pub fn rounds(&self) -> Vec<Option<u64>> {
        self.progress.iter().map(|progress| progress.rounds()).collect()
    }

    /// Masks, filter and stop of each port.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        &self.controls
    }

    /// Stops accepting or creating packets. Packets already accepted are still handled.
    pub fn stop(&self) {
        (self.stop)();
    }
}
