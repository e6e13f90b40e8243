//! Rows as an Arrow stream. Other libraries request the next rows on their own threads.

use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;

use crate::step::Step;

/// How long a step may wait between checks for signals.
const SLICE: Duration = Duration::from_millis(100);

/// Rows that arrive step by step. Each step waits until a time.
pub(crate) struct RowSteps<F> {
    schema: SchemaRef,
    step: F,
    has_ended: bool,
}

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> RowSteps<F> {
    pub(crate) fn new(schema: SchemaRef, step: F) -> Self {
        Self { schema, step, has_ended: false }
    }
}

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> Iterator for RowSteps<F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_ended {
            if let Err(interrupt) = heed_signals() {
                return Some(Err(interrupt));
            }
            match (self.step)(Instant::now() + SLICE) {
                None => {}
                Some(Ok(Some(rows))) => return Some(Ok(rows)),
                Some(Ok(None)) => self.has_ended = true,
                Some(Err(error)) => return Some(Err(failed(error.to_string()))),
            }
        }
        None
    }
}

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> RecordBatchReader for RowSteps<F> {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Runs pending signal handlers. Python runs them on its main thread, so only that thread takes the
/// GIL here: the thread that holds it may wait for the others.
///
/// # Errors
/// A handler raised an exception, which C cannot pass on. The signal is raised again for the
/// caller.
fn heed_signals() -> Result<(), ArrowError> {
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    if !is_main {
        return Ok(());
    }
    Python::attach(|py| {
        py.check_signals().map_err(|raised| {
            let repeated = py.import("_thread").and_then(|it| it.call_method0("interrupt_main"));
            if let Err(error) = repeated {
                error.write_unraisable(py, None);
            }
            failed(raised.to_string())
        })
    })
}

/// An error for C with this text.
fn failed(text: String) -> ArrowError {
    ArrowError::IoError(text.clone(), std::io::Error::other(text))
}
