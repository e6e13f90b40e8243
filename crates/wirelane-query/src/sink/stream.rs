//! Flows as an Arrow IPC stream, for programs that read Arrow.

use std::io::Write;

use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use wirelane::{Error, Result};
use wirelane_flow::Flow;

use super::counts::Counts;
use wirelane_arrow::Flows;

/// Flows of a batch.
const BATCH: usize = 8192;

/// The writing end.
pub(crate) struct Stream<W: Write> {
    writer: StreamWriter<W>,
    batches: Flows,
    waiting: Vec<Flow>,
    counts: Counts,
}

impl<W: Write> Stream<W> {
    pub(crate) fn new(to: W) -> Result<Self> {
        let batches = Flows::new();
        let writer = StreamWriter::try_new(to, &batches.schema()).map_err(failed)?;
        Ok(Self { writer, batches, waiting: Vec::new(), counts: Counts::default() })
    }

    pub(crate) fn add(&mut self, flows: &[Flow]) -> Result<()> {
        self.waiting.extend_from_slice(flows);
        if self.waiting.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let batch = self.batches.of(&self.waiting).map_err(failed)?;
        self.writer.write(&batch).map_err(failed)?;
        self.writer.flush().map_err(failed)?;
        self.counts.flows += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the end.
    pub(crate) fn finish(mut self) -> Result<Counts> {
        self.flush()?;
        self.writer.finish().map_err(failed)?;
        Ok(self.counts)
    }
}

fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::io("standard output", "write", error),
        error => Error::failed("an Arrow stream", error.to_string()),
    }
}
