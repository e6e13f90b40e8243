//! Starts threads.

use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Starts a thread with this name.
///
/// # Errors
/// The system has no room for it.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(run).map_err(|error| Error::thread(name, error))
}
