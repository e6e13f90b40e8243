//! ^C and SIGTERM end a query at once. Operators may compute for long without a pause, on all
//! threads of the runtime, so nothing of it can be trusted to look for signals.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::runtime::Runtime;
use wirelane::{Error, Result};

use super::panics;

/// How late an interrupt may be seen.
const TICK: Duration = Duration::from_millis(50);

/// Signals that came.
pub(crate) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// # Errors
    /// Signals cannot be handled.
    pub(crate) fn listen() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&came))
                .map_err(|error| Error::io("signals", "sigaction", error))?;
        }
        Ok(Self(came))
    }

    /// One that came between questions ends none.
    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// What the work comes to. What is left of it when a signal comes ends at its next pause, or
    /// with the process.
    ///
    /// # Errors
    /// Those of the work, or that a signal came.
    pub(crate) fn unless<T: Send + 'static>(
        &self,
        runtime: &Runtime,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, outcome) = channel();
        let task = runtime.spawn(async move {
            // Nobody waits for it after a signal.
            let _ = sender.send(work.await);
        });
        loop {
            match outcome.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(panics::inside());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.0.swap(false, Ordering::Relaxed) {
                        task.abort();
                        return Err(Error::failed("the query", "it was interrupted"));
                    }
                }
            }
        }
    }
}
