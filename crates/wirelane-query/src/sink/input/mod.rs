//! Reads and decodes the input on a separate thread.

pub(crate) mod capture;
pub(crate) mod messages;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wirelane::{Error, Result};

/// Most messages in the channel: a slow writer slows the pipe.
const WAITING: usize = 8;

/// The receiving end.
pub(crate) struct SinkInput<P> {
    parts: Receiver<Vec<P>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl<P: Send + 'static> SinkInput<P> {
    /// Starts a thread on which `read` sends its parts.
    pub(crate) fn start(
        read: impl FnOnce(&SyncSender<Vec<P>>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (sender, parts) = sync_channel(WAITING);
        let failure = Arc::new(Mutex::new(None));
        let told = Arc::clone(&failure);
        let read = move || {
            if let Err(error) = read(&sender) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        thread::Builder::new()
            .name("input".into())
            .spawn(read)
            .map_err(|error| Error::io("a thread", "clone", error))?;
        Ok(Self { parts, failure })
    }

    /// Receives the next parts; `Disconnected` is the end.
    pub(crate) fn next(&self, wait: Duration) -> Result<Vec<P>, RecvTimeoutError> {
        self.parts.recv_timeout(wait)
    }

    /// Fails with the error that ended the input, if any.
    pub(crate) fn end(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }
}
