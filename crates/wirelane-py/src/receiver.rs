//! Packets as frames or rows, for any thread.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use wirelane::{Batch, Error, Result};
use wirelane_flow::arrow::Packets;

use crate::intake::{Intake, ReceivedPacket};
use crate::step::Step;

/// Receives packets, and makes frames or rows.
pub(crate) struct RowReceiver {
    intake: Box<dyn Intake>,
    rows: Packets,
    /// A failure, returned after the rows before it.
    failure: Option<Error>,
    /// When the first row was added.
    began: Instant,
}

impl RowReceiver {
    /// Receives from `intake` into `rows`.
    pub(crate) fn new(intake: impl Intake + 'static, rows: Packets) -> Self {
        Self { intake: Box::new(intake), rows, failure: None, began: Instant::now() }
    }

    /// The next packet, if one arrives before `until`.
    pub(crate) fn frame(&mut self, until: Instant) -> Step<ReceivedPacket> {
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        match self.intake.receive(Batch::DEFAULT, until)? {
            Ok(true) => Some(Ok(Some(self.intake.take(&mut self.rows)?))),
            Ok(false) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        }
    }

    /// A packet that was received already.
    pub(crate) fn ready(&mut self) -> Step<ReceivedPacket> {
        self.intake.has_some().then(|| self.frame(Instant::now()))?
    }

    /// `most` rows, or fewer once the first one has waited for `patience`. If neither happens
    /// before `until`, the rows stay for the next call.
    pub(crate) fn rows(
        &mut self,
        most: usize,
        patience: Duration,
        until: Instant,
    ) -> Step<RecordBatch> {
        loop {
            let has_rows = !self.rows.is_empty();
            let due = self.began.checked_add(patience).filter(|_| has_rows);
            if self.rows.len() >= most || due.is_some_and(|due| Instant::now() >= due) {
                return Some(self.finish());
            }
            if let Some(error) = self.failure.take() {
                return Some(Err(error));
            }
            let room = most - self.rows.len();
            match self.intake.receive(room, due.map_or(until, |due| due.min(until))) {
                Some(Ok(true)) => self.add(room, has_rows),
                Some(Ok(false)) if has_rows => return Some(self.finish()),
                Some(Ok(false)) => return Some(Ok(None)),
                Some(Err(error)) if has_rows => {
                    self.failure = Some(error);
                    return Some(self.finish());
                }
                Some(Err(error)) => return Some(Err(error)),
                None if Instant::now() >= until => return None,
                None => {}
            }
        }
    }

    fn add(&mut self, room: usize, has_rows: bool) {
        if !has_rows {
            self.began = Instant::now();
        }
        self.intake.add(room, &mut self.rows);
    }

    fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let rows = self.rows.finish();
        rows.map(Some).map_err(|error| Error::failed("rows of packets", error.to_string()))
    }
}
