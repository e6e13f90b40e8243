//! Control of running threads, from any thread.

use std::sync::Arc;

use crate::port::Control;

/// Controls ports, and ends the threads that use them, from any thread.
#[derive(Clone)]
pub struct Handle {
    controls: Vec<Arc<dyn Control>>,
    stop: Arc<dyn Fn() + Send + Sync>,
}

impl Handle {
    /// `controls` has one entry per port; `stop` ends the threads.
    #[doc(hidden)]
    pub fn new(controls: Vec<Arc<dyn Control>>, stop: impl Fn() + Send + Sync + 'static) -> Self {
        Self { controls, stop: Arc::new(stop) }
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

    /// Masks, filter and stop of each port.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        &self.controls
    }

    /// Stops accepting or creating packets. Packets already accepted are still handled.
    pub fn stop(&self) {
        (self.stop)();
    }
}
