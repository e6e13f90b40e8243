//! The receiving side of a recording: frames become packets of a lane of the store.

use wirelane::Result;
use wirelane::frame::{Batch, Frame};
use wirelane::internal::session::Comment;
use wirelane::internal::session::{Interface, Placing};
use wirelane::pcap::{Direction, Record};
use wirelane::pipeline::Consumer;
use wirelane::port::Rx;

use super::journal::Journal;
use super::trigger::Lookout;
use crate::LaneWriter;

/// The work of a receiving thread.
pub(super) struct RecordWorker {
    /// One per receiving end.
    pub(super) ends: Vec<RecordedRx>,
    pub(super) journal: Journal,
    /// The port waits for us and loses nothing.
    pub(super) lossless: bool,
}

/// A receiving end.
pub(super) struct RecordedRx {
    placing: Placing,
    /// The number of its first interface in the lane, and how many it has from the start.
    first: u32,
    fixed: u32,
    /// The numbers in the lane of interfaces that were found later.
    late: Vec<Option<u32>>,
    lookout: Option<Lookout>,
}

impl RecordedRx {
    /// Of `rx`, whose interfaces from the start begin at number `first` of the lane.
    pub(super) fn new(
        rx: &Rx,
        first: u32,
        interfaces: &[Interface],
        lookout: Option<Lookout>,
    ) -> Self {
        let placing = Placing::of(rx);
        // A port that finds its interfaces later has one from the start, for losses only.
        let fixed = if placing.is_growing() { 0 } else { interfaces.len() };
        let fixed = u32::try_from(fixed).unwrap_or(u32::MAX);
        Self { placing, first, fixed, late: Vec::new(), lookout }
    }

    /// The number in the lane of a frame's interface, and the direction of the frame if the
    /// interface has none. `None` if the lane has no room for the interface.
    #[inline]
    fn place(&mut self, frame: &Frame, journal: &mut Journal) -> Option<(u32, Direction)> {
        let (position, direction) = self.placing.place_late(frame);
        let Some(late) = position.checked_sub(self.fixed) else {
            return Some((self.first + position, direction));
        };
        let known = self.late.get(late as usize).copied().flatten();
        let number = known.or_else(|| self.find(position, late as usize, journal))?;
        Some((number, direction))
    }

    #[cold]
    fn find(&mut self, position: u32, late: usize, journal: &mut Journal) -> Option<u32> {
        let number = journal.add(&self.placing.interface(position)?)?;
        self.late.resize(self.late.len().max(late + 1), None);
        *self.late.get_mut(late)? = Some(number);
        Some(number)
    }

    /// A packet of an interface that the lane has no room for is lost.
    #[cold]
    fn lose(&self, frame: &Frame) {
        let (position, _) = self.placing.place_late(frame);
        if let Some(Interface { counters, .. }) = self.placing.interface(position) {
            counters.count_unstored(1, u64::from(frame.original_len()));
        }
    }
}

impl Consumer for RecordWorker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        let Some(end) = self.ends.get_mut(input) else { return Ok(()) };
        if let Some(lookout) = &mut end.lookout {
            lookout.look(batch, &end.placing);
        }
        for frame in batch.iter() {
            let Some((interface, direction)) = end.place(frame, &mut self.journal) else {
                end.lose(frame);
                continue;
            };
            let record = Record {
                interface,
                timestamp: frame.timestamp(),
                original_len: frame.original_len(),
                direction,
                data: frame.data(),
            };
            let options = frame.options().len();
            self.journal.take(&record, options, self.lossless, |lane| push(lane, &record, frame));
        }
        Ok(())
    }

    fn round(&mut self, _: &[Rx], _: bool) -> Result<()> {
        self.journal.round();
        Ok(())
    }

    /// Hands over the rest and ends the lane.
    fn finish(&mut self) -> Result<()> {
        self.journal.finish();
        Ok(())
    }
}

/// Hands a packet over, with the metadata of its interface, or else of its file.
#[inline]
fn push(lane: &mut LaneWriter, record: &Record<'_>, frame: &Frame) -> bool {
    match (Comment::of(frame), frame.options()) {
        (None, []) => lane.push(record, None),
        (None, options) => lane.push_with_options(record, options),
        (Some(comment), _) => lane.push(record, Some(comment.as_str())),
    }
}
