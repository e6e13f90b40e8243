//! Rows as a stream of Arrow: other libraries ask for the next ones when they want them, on threads
//! of theirs.

use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;

use crate::step::Step;

/// How long a step may wait before signals are looked for.
const SLICE: Duration = Duration::from_millis(100);

/// Rows that come step by step: each waits for some until a time.
pub(crate) struct Stream<F> {
    schema: SchemaRef,
    step: F,
    has_ended: bool,
}

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> Stream<F> {
    pub(crate) fn new(schema: SchemaRef, step: F) -> Self {
        Self { schema, step, has_ended: false }
    }
}

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> Iterator for Stream<F> {
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

impl<F: FnMut(Instant) -> Step<RecordBatch> + Send> RecordBatchReader for Stream<F> {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Runs the handlers of signals that have come. Python runs them on its main thread, so only this
/// one may wait for the GIL here: whoever has it may wait for the others.
///
/// # Errors
/// A handler raised an exception, which C cannot pass on: the signal is repeated for who called it.
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

/// An error for C, which keeps its text.
fn failed(text: String) -> ArrowError {
    ArrowError::IoError(text.clone(), std::io::Error::other(text))
}
