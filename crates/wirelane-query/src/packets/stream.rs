//! A reading thread, and the stream of its batches.

use std::ops::ControlFlow;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use wirelane::halt::Halt;

/// Most batches in the channel: reading continues while the engine works.
const WAITING: usize = 4;

/// Sends batches to the engine.
pub(super) struct BatchSender {
    sender: Sender<Result<RecordBatch, DataFusionError>>,
    rows: Count,
}

impl BatchSender {
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a batch, and waits while the channel is full. Breaks if the receiver is gone.
    pub(super) fn send(&mut self, batch: RecordBatch) -> ControlFlow<()> {
        self.rows.add(batch.num_rows());
        match self.sender.blocking_send(Ok(batch)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Streams the batches that `work` makes on a blocking thread. Stops its halt when the receiver is
/// gone.
pub(super) fn stream(
    schema: SchemaRef,
    rows: Count,
    work: impl FnOnce(BatchSender, &Halt) -> Result<(), DataFusionError> + Send + 'static,
) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStream::builder(schema, WAITING);
    let outlet = BatchSender { sender: builder.tx(), rows };
    let halt = Halt::default();
    let (closed, asked) = (builder.tx(), halt.clone());
    let (done, is_done) = oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            () = closed.closed() => asked.ask(),
            // Dropping `done` ends this wait.
            _ = is_done => {}
        }
    });
    builder.spawn_blocking(move || {
        let outcome = work(outlet, &halt);
        drop(done);
        outcome
    });
    builder.build()
}
