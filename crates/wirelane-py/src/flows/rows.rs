//! Collects flows in batches, which wait for Python.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::RecordBatch;
use wirelane::{Error, Result};
use wirelane_flow::{Flow, Sink};

/// Rows of a batch.
const ROWS: usize = 8192;
/// Batches that wait for Python.
const WAITING: usize = 16;

pub(super) const UNWANTED: &str = "Python takes no more of them";

/// Collects flows in batches, and sends them to Python.
pub(super) struct FlowBatches {
    columns: wirelane_flow::arrow::Flows,
    rows: Vec<Flow>,
    /// `None` after the end.
    sender: Option<SyncSender<RecordBatch>>,
}

impl FlowBatches {
    /// The collector, and the receiver of its batches.
    pub(super) fn new(columns: wirelane_flow::arrow::Flows) -> (Self, Receiver<RecordBatch>) {
        let (sender, receiver) = sync_channel(WAITING);
        let rows = Vec::with_capacity(ROWS);
        (Self { columns, rows, sender: Some(sender) }, receiver)
    }

    fn send(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = self.columns.of(&self.rows);
        self.rows.clear();
        let rows = rows.map_err(|error| Error::failed("rows of flows", error.to_string()))?;
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(rows).is_ok());
        if sent { Ok(()) } else { Err(Error::failed("flows", UNWANTED)) }
    }
}

impl Sink for FlowBatches {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.rows.push(flow.clone());
        if self.rows.len() < ROWS { Ok(()) } else { self.send() }
    }

    fn tick(&mut self) -> Result<()> {
        self.send()
    }

    fn needs_ticks(&self) -> bool {
        !self.rows.is_empty()
    }

    fn finish(&mut self) -> Result<()> {
        let sent = self.send();
        self.sender = None;
        sent
    }
}
