//! Rows of flows.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use wirelane_flow::Flow;
use wirelane_flow::arrow::Flows;

use super::kind::{PendingRows, RowStorage};

/// Flows of a row group: the unit of sorting, and the least that a query reads of a column.
const GROUP: usize = 1 << 17;

/// Flows of a batch: columns of a whole group at once would take twice the memory.
const SLICE: usize = 1 << 13;

/// Flows of an unfinished row group.
#[derive(Default)]
pub(crate) struct FlowRows {
    columns: Arc<Flows>,
    flows: Vec<Flow>,
}

impl PendingRows for FlowRows {
    type Part = Flow;

    const KIND: RowStorage = RowStorage {
        name: "flows",
        schema: "wirelane.flows/1",
        filtered: &["source", "destination", "community_id"],
        plain: &["community_id"],
        growing: &[],
        // The default of zstd.
        level: 3,
        usual: 50,
        tells_types: true,
    };

    fn fresh(&self) -> Self {
        Self { columns: Arc::clone(&self.columns), flows: Vec::new() }
    }

    fn schema(&self) -> SchemaRef {
        self.columns.schema()
    }

    fn start(flow: &Flow) -> u64 {
        flow.start()
    }

    fn add(&mut self, flow: Flow) {
        self.flows.push(flow);
    }

    fn len(&self) -> usize {
        self.flows.len()
    }

    fn is_full(&self) -> bool {
        self.flows.len() >= GROUP
    }

    /// By address.
    fn sort(&mut self) {
        Flows::sort(&mut self.flows);
    }

    fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
        self.flows.chunks(SLICE).map(|flows| self.columns.of(flows))
    }
}
