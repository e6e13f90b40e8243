//! What an answer lacks.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use wirelane::{Error, Result};

/// Gathered by scans while they run, told when the answer is there. A session has one.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    unread: Vec<Error>,
    unfiltered: Vec<String>,
}

impl Leftovers {
    /// Something could not be read.
    pub(super) fn unread(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unread.push(error);
    }

    /// Kinds of packets that a filter says nothing about, and why.
    pub(super) fn unfiltered(&self, kinds: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unfiltered.extend(kinds);
    }

    /// The first thing that could not be read.
    pub(super) fn first(&self) -> Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.unread.is_empty() { Ok(()) } else { Err(all.unread.swap_remove(0)) }
    }

    /// Tells what is here since the last call.
    ///
    /// # Errors
    /// Something could not be read.
    pub(crate) fn tell(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let All { mut unread, mut unfiltered } = all;
        unfiltered.sort();
        unfiltered.dedup();
        Error::each_once(&mut unread);
        let mut output = io::stderr().lock();
        // Nobody may be there to read it.
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
