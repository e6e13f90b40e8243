//! The transmitting ends of a simulated port without a cable: they count and free frames.

use std::sync::Arc;
use std::time::Duration;

use super::stream;
use crate::error::Result;
use crate::frame::Batch;
use crate::pool::Pool;
use crate::port::tx::Transmit;
use crate::stats::TxCounters;

/// The transmitting end of one queue.
pub(super) struct SimTransmitter {
    pool: Pool,
    counters: Arc<TxCounters>,
    /// Count packets that are not intact packets of a stream as errors.
    verify: bool,
}

impl SimTransmitter {
    pub(super) fn new(pool: Pool, counters: Arc<TxCounters>, verify: bool) -> Self {
        Self { pool, counters, verify }
    }
}

impl Transmit for SimTransmitter {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (mut packets, mut bytes, taken) = (0, 0, batch.len());
        for frame in batch.iter() {
            if !self.verify || stream::number(frame.data()).is_some() {
                packets += 1;
                bytes += frame.len() as u64;
            }
        }
        batch.clear();
        self.counters.packets.add(packets);
        self.counters.bytes.add(bytes);
        self.counters.errors.add(taken as u64 - packets);
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        // Publishes the number of free frames.
        self.pool.take(&mut Batch::new(0), 0);
        Ok(())
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait(&mut self, _timeout: Duration) -> Result<()> {
        Ok(())
    }
}
