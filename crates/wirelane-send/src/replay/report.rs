//! A report on the packets of files, and how they are sent.

use std::sync::Mutex;

use super::clock::TimeFaults;

/// Counts of the packets read so far, over all loops. For loaded files, the counts are of one loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// The report on each file.
    pub files: Vec<FileReport>,
    /// Whether all packets are in memory, so that the counts are of one whole loop.
    pub is_loaded: bool,
    /// How often all files were read.
    pub loops: u64,
    /// Packets with irregular timestamps.
    pub times: TimeFaults,
    /// The longest frame to send.
    pub longest: usize,
    /// The time from the first to the last packet of one loop in the files, in nanoseconds, with
    /// capped gaps; 0 with another timing, or if the files are not loaded.
    pub duration: u64,
}

/// Counts of the packets of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Its path.
    pub name: String,
    /// Packets to send.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets cut by a snap length that are sent with zeros at the end.
    pub padded: u64,
    /// Packets cut by a snap length that are not sent.
    pub cut: u64,
    /// Packets cut by a snap length that are sent short.
    pub shortened: u64,
    /// Packets whose checksum could not be recomputed: it covers several fragments, or depends on a
    /// routing header or an invalid length.
    pub unfixed: u64,
    /// Packets too short for an Ethernet header. They are not sent.
    pub short: u64,
}

impl FileReport {
    /// Packets of the file, sent or not.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.packets + self.cut + self.short
    }
}

impl ReplayReport {
    /// The sum over all files.
    #[must_use]
    pub fn total(&self) -> FileReport {
        self.files.iter().fold(FileReport::default(), |sum, file| FileReport {
            name: String::new(),
            packets: sum.packets + file.packets,
            bytes: sum.bytes + file.bytes,
            padded: sum.padded + file.padded,
            cut: sum.cut + file.cut,
            shortened: sum.shortened + file.shortened,
            unfixed: sum.unfixed + file.unfixed,
            short: sum.short + file.short,
        })
    }

    /// One note for each kind of change to the packets or times of the files.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let total = self.total();
        let note = |count: u64, what: &str| match count {
            0 => None,
            1 => Some(format!("1 packet {what}")),
            _ => Some(format!("{count} packets {what}")),
        };
        let TimeFaults { backwards, set_back, missing } = self.times;
        let notes = [
            note(total.padded, "cut by a snap length: sent with zeros at the end (cut=pad)"),
            note(total.shortened, "cut by a snap length: sent as short as in the file (cut=send)"),
            note(total.cut, "cut by a snap length: not sent (cut=skip)"),
            note(
                total.unfixed,
                "with the transport checksum of the file, which is right or wrong as it was: of \
                 fragments, packets with a routing header and wrong lengths it cannot be computed",
            ),
            note(total.short, "too short for an Ethernet header: not sent"),
            note(
                backwards,
                "with an earlier time than one before: sent in file order, without a gap",
            ),
            note(
                set_back,
                "with a time more than a second earlier: the clock was set, gaps count from there",
            ),
            note(missing, "without a time: sent without a gap"),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// A report that the reading thread writes and other threads read.
#[derive(Debug, Default)]
pub(super) struct ReportCell(Mutex<ReplayReport>);

impl ReportCell {
    pub(super) fn read(&self) -> ReplayReport {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(super) fn write(&self, report: &ReplayReport) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone_from(report);
    }
}
