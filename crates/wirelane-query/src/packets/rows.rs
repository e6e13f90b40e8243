//! Converts packets to rows of the columns that a query names.

use std::ops::ControlFlow;

use arrow_array::{RecordBatch, RecordBatchOptions};
use wirelane::{Error, Result};
use wirelane_flow::arrow::{Interfaces, Packets};
use wirelane_pcap::{Record, Source};

use super::stream::BatchSender;

/// The current batch, and its receiver.
pub(super) struct RowBatch {
    packets: Packets,
    outlet: BatchSender,
    interfaces: Interfaces,
    /// Rows until the limit.
    left: usize,
}

impl RowBatch {
    /// # Errors
    /// There is no such column.
    pub(super) fn new(
        columns: &[String],
        limit: Option<usize>,
        outlet: BatchSender,
    ) -> Result<Self> {
        let packets = Packets::of(columns).map_err(failed)?;
        Ok(Self {
            packets,
            outlet,
            interfaces: Interfaces::default(),
            left: limit.unwrap_or(usize::MAX),
        })
    }

    /// Begins another capture, which has other interfaces.
    pub(super) fn begin(&mut self) {
        self.interfaces = Interfaces::default();
    }

    /// Whether the limit is reached or the receiver is gone.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0 || self.outlet.is_closed()
    }

    /// Adds a row. `sources` contains the packet's interface, and only grows.
    #[inline]
    pub(super) fn push(
        &mut self,
        record: &Record<'_>,
        sources: &[Source],
    ) -> Result<ControlFlow<()>> {
        if self.left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        // Unknown interface: captures describe interfaces before their packets.
        if !self.interfaces.push(&mut self.packets, record, sources) {
            return Ok(ControlFlow::Continue(()));
        }
        self.left -= 1;
        if self.packets.len() == Packets::USUAL {
            self.flush()
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }

    /// Sends `count` rows without columns.
    pub(super) fn count(&mut self, count: u64) -> Result<()> {
        let mut left = usize::try_from(count).unwrap_or(usize::MAX).min(self.left);
        while left > 0 {
            let size = left.min(Packets::USUAL);
            let options = RecordBatchOptions::new().with_row_count(Some(size));
            let schema = self.packets.schema();
            let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options);
            if self.outlet.send(batch.map_err(failed)?).is_break() {
                break;
            }
            left -= size;
        }
        Ok(())
    }

    /// Sends the current batch. Breaks if the receiver is gone.
    pub(super) fn flush(&mut self) -> Result<ControlFlow<()>> {
        if self.packets.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let batch = self.packets.finish().map_err(failed)?;
        Ok(self.outlet.send(batch))
    }
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    Error::failed("packets", error.to_string())
}
