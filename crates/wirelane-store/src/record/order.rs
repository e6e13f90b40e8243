//! Recording behind a merge by time, for the first packets of several queues (`-c`).

use wirelane::Result;
use wirelane::internal::session::Interface;
use wirelane::internal::session::View;
use wirelane::pcap::Record;

use super::journal::Journal;

/// Records packets on the one thread that gets all of them, into one lane.
pub(super) struct OrderedRecording {
    journal: Journal,
    /// The numbers in the lane of the interfaces; `None` if it has no room for one.
    numbers: Vec<Option<u32>>,
}

impl OrderedRecording {
    /// Into a lane without interfaces.
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, numbers: Vec::new() }
    }
}

impl View for OrderedRecording {
    fn interface(&mut self, interface: &Interface) -> Result<()> {
        self.numbers.push(self.journal.add(interface));
        Ok(())
    }

    fn packet(&mut self, record: &Record<'_>, options: &[u8]) -> Result<()> {
        if let Some(Some(number)) = self.numbers.get(record.interface as usize) {
            let record = Record { interface: *number, ..*record };
            // The receiving threads hold a limited number of packets.
            self.journal.take(&record, options.len(), true, |lane| {
                lane.push_with_options(&record, options)
            });
        }
        Ok(())
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn pause(&mut self) -> Result<()> {
        self.journal.round();
        Ok(())
    }
}

impl Drop for OrderedRecording {
    fn drop(&mut self) {
        self.journal.finish();
    }
}
