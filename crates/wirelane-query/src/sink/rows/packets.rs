//! Rows of packets.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

use super::kind::{PendingRows, RowStorage};

/// Packets of a row group: the least that a query reads of a column.
const GROUP: usize = 1 << 17;

/// Most batches of a row group: where times alternate between hours, batches are short.
const BATCHES: usize = 256;

/// A batch of packets of one hour.
pub(crate) struct PacketPart {
    /// The time of the earliest packet.
    pub(crate) start: u64,
    pub(crate) batch: RecordBatch,
}

/// Packets of an unfinished row group.
pub(crate) struct PacketRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    count: usize,
}

impl PacketRows {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self { schema, batches: Vec::new(), count: 0 }
    }
}

impl PendingRows for PacketRows {
    type Part = PacketPart;

    const KIND: RowStorage = RowStorage {
        name: "packets",
        schema: "wirelane.packets/1",
        filtered: &["source", "destination"],
        plain: &[
            "ethertype",
            "ip_version",
            "protocol",
            "dscp",
            "ecn",
            "tcp_sequence",
            "tcp_acknowledgment",
            "data",
        ],
        growing: &["time"],
        // The fastest level, because packets are many.
        level: 1,
        usual: 20,
        tells_types: false,
    };

    fn fresh(&self) -> Self {
        Self::new(self.schema())
    }

    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn start(part: &PacketPart) -> u64 {
        part.start
    }

    fn add(&mut self, part: PacketPart) {
        self.count += part.batch.num_rows();
        self.batches.push(part.batch);
    }

    fn len(&self) -> usize {
        self.count
    }

    fn is_full(&self) -> bool {
        self.count >= GROUP || self.batches.len() >= BATCHES
    }

    /// Packets keep the order of the capture.
    fn sort(&mut self) {}

    fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
        self.batches.iter().cloned().map(Ok)
    }
}
