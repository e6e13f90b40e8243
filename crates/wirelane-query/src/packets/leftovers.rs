//! Data that an answer lacks.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use wirelane::{Error, Result};

/// Scans record data here while they run; the query reports it after the answer. A session has one.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    unread: Vec<Error>,
    unfiltered: Vec<String>,
}

impl Leftovers {
    /// Records data that could not be read.
    pub(super) fn unread(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unread.push(error);
    }

    /// Records link types to which a filter does not apply, and why.
    pub(super) fn unfiltered(&self, kinds: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unfiltered.extend(kinds);
    }

    /// Fails with the first recorded error.
    pub(super) fn first(&self) -> Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.unread.is_empty() { Ok(()) } else { Err(all.unread.swap_remove(0)) }
    }

    /// Prints everything recorded since the last call.
    ///
    /// # Errors
    /// Some data could not be read.
    pub(crate) fn tell(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let All { mut unread, mut unfiltered } = all;
        unfiltered.sort();
        unfiltered.dedup();
        Error::each_once(&mut unread);
        let mut output = io::stderr().lock();
        // Standard error may be closed.
        for kind in unfiltered {
            let _ = writeln!(output, "wirelane-query: note: bpf() accepts no {kind}");
        }
        for error in &unread {
            let _ = writeln!(output, "wirelane-query: {error}");
        }
        if unread.is_empty() {
            return Ok(());
        }
        let cause = "not all of the packets could be read; it is about the others";
        Err(Error::failed("the answer", cause))
    }
}
