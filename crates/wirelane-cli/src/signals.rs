//! Signals that end a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wirelane::internal::process;
use wirelane::{Error, Result};

/// The first ^C, SIGTERM or SIGHUP sets a flag, for a command that loses nothing by its end. The
/// second one ends the process at once. Under nohup(1), SIGHUP is ignored.
#[derive(Debug)]
pub struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Handles the signals from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn register() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let hangup = (!process::is_hangup_ignored()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            let failed = |error| Error::io("signals", "sigaction", error);
            // The order makes the second signal fatal: it finds the flag that the first one set.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
                .map_err(failed)?;
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
        }
        Ok(Self(stop))
    }

    /// Set once one of them has come.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }

    /// Whether one of them has come.
    pub fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
