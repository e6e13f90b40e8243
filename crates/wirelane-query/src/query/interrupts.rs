//! ^C and SIGTERM end a query at once. Operators may compute for long on all threads of the runtime
//! without a yield, so the main thread checks for signals.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::runtime::Runtime;
use wirelane::{Error, Result};

use super::panics;

/// Interval of checks for signals.
const TICK: Duration = Duration::from_millis(50);

/// Whether a signal arrived.
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

    /// Ignores a signal from before the question.
    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Runs the work until its end, or until a signal arrives. After a signal, it ends at its next
    /// await or with the process.
    ///
    /// # Errors
    /// The work fails or panics, or a signal arrived.
    pub(crate) fn unless<T: Send + 'static>(
        &self,
        runtime: &Runtime,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, outcome) = channel();
        let task = runtime.spawn(async move {
            // After a signal, the receiver is gone.
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
