//! Messages from standard input, read and decoded by a thread of its own.

use std::io::{self, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wirelane::{Error, Result};
use wirelane_flow::Flow;
use wirelane_flow::ipfix::{Decoder, element, read_message};

/// Batches that may wait: a slow writer slows the pipe.
const WAITING: usize = 8;

/// The receiving end.
pub(crate) struct Input {
    batches: Receiver<Vec<Flow>>,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Input {
    pub(crate) fn start() -> Result<Self> {
        let (sender, batches) = sync_channel(WAITING);
        let failure = Arc::new(Mutex::new(None));
        let told = Arc::clone(&failure);
        let read = move || {
            if let Err(error) = read(&sender) {
                let error = Error::io("flows", "read", error);
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        thread::Builder::new()
            .name("input".into())
            .spawn(read)
            .map_err(|error| Error::io("a thread", "clone", error))?;
        Ok(Self { batches, failure })
    }

    /// The next flows; disconnected at the end.
    pub(crate) fn next(&self, wait: Duration) -> Result<Vec<Flow>, RecvTimeoutError> {
        self.batches.recv_timeout(wait)
    }

    /// What ended the input too early.
    pub(crate) fn end(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }
}

fn read(batches: &SyncSender<Vec<Flow>>) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let (mut decoder, mut message) = (Decoder::new(Some(element::EXAMPLE)), Vec::new());
    while read_message(&mut input, &mut message)? {
        let mut flows = Vec::new();
        let outcome = decoder.decode(&message, &mut flows);
        if !flows.is_empty() && batches.send(flows).is_err() {
            return Ok(());
        }
        outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
    Ok(())
}
