//! The state of a recording's store: for the summary, for `wirelane stats` and for the terminal.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use wirelane_store::record::{RecordOutcome, Recording, Trigger};
use wirelane_store::{StoreReport, StoreStatus};

use super::{grouped, plural, printable, sized};

/// Reads the state of a running recording's store, from any thread.
#[derive(Clone)]
pub(crate) struct StoreView {
    directory: String,
    status: Arc<StoreStatus>,
    trigger: Option<Trigger>,
}

impl StoreView {
    /// A view of this recording into `directory`.
    pub(crate) fn new(recording: &Recording, directory: &Path) -> Self {
        let directory = directory.display().to_string();
        Self { directory, status: recording.status(), trigger: recording.trigger() }
    }

    /// The absolute path of the store.
    pub(crate) fn place(&self) -> String {
        let place = std::path::absolute(&self.directory);
        place.map_or_else(|_| self.directory.clone(), |place| place.display().to_string())
    }

    /// Its trigger, if it has one.
    pub(crate) fn trigger(&self) -> Option<&Trigger> {
        self.trigger.as_ref()
    }

    /// The current state.
    pub(crate) fn read(&self) -> StoreSummary {
        let fired = self.trigger.as_ref().map(Trigger::fired);
        StoreSummary::new(self.directory.clone(), self.status.report(), fired)
    }
}

/// A store, and the work of this recording on it.
#[derive(Clone, Serialize)]
pub(crate) struct StoreSummary {
    directory: String,
    /// Packets on disk, of this recording.
    pub(crate) packets: u64,
    /// Bytes written to the disk.
    pub(crate) bytes: u64,
    /// Bytes of those packets, as captured.
    pub(crate) packet_bytes: u64,
    /// Segments begun.
    pub(crate) segments: u32,
    /// Bytes received and not on disk yet: how far the disk is behind.
    lag_bytes: u64,
    /// Packets that the disk did not accept, after they had been taken into memory.
    lost_packets: u64,
    /// The whole store, earlier recordings included.
    stored: StoreTotals,
    /// Bytes that can still be written before a segment is deleted, or the disk is full.
    room_bytes: Option<u64>,
    /// Whether the page cache is bypassed, and if not, why.
    direct: bool,
    buffered_because: Option<String>,
    /// Whether io_uring is used with registered memory, and if not, why.
    io_uring: bool,
    blocking_because: Option<String>,
    /// Segments that are shorter than --segment, for want of room.
    short_segments: Option<Short>,
    /// The trouble that keeps packets from the disk now.
    trouble: Option<String>,
    /// How often such a trouble or another failure occurred.
    troubles: u64,
    last_trouble: Option<String>,
    /// `None` if all packets are written.
    trigger: Option<Triggers>,
}

#[derive(Clone, Serialize)]
struct StoreTotals {
    segments: u64,
    bytes: u64,
    deleted_segments: u64,
    deleted_bytes: u64,
    /// Nanoseconds since the epoch.
    oldest_ns: Option<u64>,
}

/// Why segments are shorter than wanted.
#[derive(Clone, Serialize)]
struct Short {
    bytes: u64,
    wanted_bytes: u64,
    /// The room for all segments together.
    room_bytes: u64,
    /// Receiving threads, which share it.
    threads: u64,
}

#[derive(Clone, Serialize)]
struct Triggers {
    fired: u64,
    /// Packets that wait for a trigger.
    held_packets: u64,
    /// Packets that no trigger kept.
    forgotten_packets: u64,
    /// Packets among them that a trigger could have kept with more memory.
    cut_packets: u64,
}

impl StoreSummary {
    /// The result of a recording into `directory`.
    pub(crate) fn of(outcome: &RecordOutcome, directory: &Path) -> Self {
        Self::new(directory.display().to_string(), outcome.store.clone(), outcome.triggers)
    }

    fn new(directory: String, report: StoreReport, fired: Option<u64>) -> Self {
        let total = report.total();
        Self {
            directory,
            packets: total.written.packets,
            bytes: total.disk_bytes,
            packet_bytes: total.written.bytes,
            segments: total.segments,
            lag_bytes: total.lag(),
            lost_packets: total.lost.packets,
            stored: StoreTotals {
                segments: report.segments,
                bytes: report.bytes,
                deleted_segments: report.deleted,
                deleted_bytes: report.deleted_bytes,
                oldest_ns: report.oldest,
            },
            room_bytes: report.room,
            direct: report.buffered.is_none(),
            buffered_because: report.buffered,
            io_uring: report.no_ring.is_none(),
            blocking_because: report.no_ring,
            short_segments: report.short_segments.map(|short| Short {
                bytes: short.len,
                wanted_bytes: short.wanted,
                room_bytes: short.room,
                threads: short.lanes,
            }),
            trouble: report.trouble,
            troubles: report.troubles,
            last_trouble: report.last_trouble,
            trigger: fired.map(|fired| Triggers {
                fired,
                held_packets: total.held.packets,
                forgotten_packets: total.forgotten.packets,
                cut_packets: total.cut.packets,
            }),
        }
    }

    /// The trouble that keeps packets from the disk now.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Fallbacks from the requested way of writing, and their reasons, for people.
    pub(crate) fn detours(&self) -> impl Iterator<Item = String> {
        let buffered = self.buffered_because.as_deref();
        let buffered =
            buffered.map(|why| format!("written through the page cache: {}", printable(why)));
        let short = self.short_segments.as_ref().map(|short| {
            format!(
                "segments of {} instead of {}: there is room for {}, and {} {} two",
                sized(short.bytes),
                sized(short.wanted_bytes),
                sized(short.room_bytes),
                plural(short.threads, "receiving thread"),
                if short.threads == 1 { "needs" } else { "need" },
            )
        });
        buffered.into_iter().chain(short)
    }

    /// The store, after the headline of a summary.
    pub(super) fn destination(&self) -> String {
        let name = printable(&self.directory);
        let (segments, bytes) = (self.segments, sized(self.bytes));
        format!(" → {name} ({}, {bytes})", plural(segments.into(), "segment"))
    }

    /// What happened meanwhile, a line each.
    pub(super) fn notes(&self) -> Vec<String> {
        let Self { stored, trigger, .. } = self;
        let mut notes = Vec::new();
        if stored.deleted_segments > 0 {
            let (segments, bytes) = (stored.deleted_segments, sized(stored.deleted_bytes));
            notes.push(format!("{}, {bytes}, deleted for the limits", plural(segments, "segment")));
        }
        if let Some(Triggers { fired, forgotten_packets, cut_packets, .. }) = trigger {
            let (fired, forgotten) = (plural(*fired, "trigger"), grouped(*forgotten_packets));
            notes.push(format!("{fired}; {forgotten} packets not asked for by any"));
            if *cut_packets > 0 {
                notes.push(format!(
                    "{} of them left memory earlier than --before says; raise --buffer",
                    grouped(*cut_packets)
                ));
            }
        }
        if self.lost_packets > 0 {
            notes.push(format!("{} packets lost on their way to disk", grouped(self.lost_packets)));
        }
        if let Some(last) = self.last_trouble.as_deref().filter(|_| self.trouble.is_none()) {
            let (times, last) = (plural(self.troubles, "failure"), printable(last));
            notes.push(format!("{times} meanwhile, the last one: {last}"));
        }
        notes
    }

    /// For the terminal, while it runs; `bytes_per_s` is how fast the disk is written.
    pub(crate) fn lines(&self, bytes_per_s: f64) -> [String; 2] {
        let Self { stored, trigger, .. } = self;
        let mut first = format!(
            "written    {:>9}/s {:>9} in {}, {:>9} behind",
            sized(bytes_per_s as u64),
            sized(self.bytes),
            plural(self.segments.into(), "segment"),
            sized(self.lag_bytes),
        );
        if let Some(trouble) = &self.trouble {
            first += &format!(": {}", printable(trouble));
        }
        let mut second = format!(
            "store      {:>9} in {}",
            sized(stored.bytes),
            plural(stored.segments, "segment")
        );
        if stored.deleted_segments > 0 {
            second += &format!(", {} deleted", grouped(stored.deleted_segments));
        }
        if let Some(room) = self.room_bytes {
            second += &match bytes_per_s {
                rate if rate >= 1.0 => format!(", room for {}", span(room as f64 / rate)),
                _ => format!(", room for {}", sized(room)),
            };
        }
        if let Some(Triggers { fired, held_packets, .. }) = trigger {
            let held = grouped(*held_packets);
            second += &format!(", {}, {held} packets held", plural(*fired, "trigger"));
        }
        [first, second]
    }
}

/// A time for people: its two largest units.
fn span(seconds: f64) -> String {
    let seconds = seconds.min(1e12) as u64;
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(units.len() - 1);
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units.iter().skip(first).take(2) {
        parts.push(format!("{} {name}", left / unit));
        left %= unit;
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.9, "59 s"),
            (61.0, "1 min 1 s"),
            (3600.0 * 5.5, "5 h 30 min"),
            (86_400.0 * 12.0 + 7200.0, "12 d 2 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn lines_for_the_terminal() {
        let report = StoreReport {
            segments: 3,
            bytes: 3 << 28,
            room: Some(7_200_000_000),
            deleted: 2,
            trouble: Some("no space".into()),
            ..StoreReport::default()
        };
        let [first, second] = StoreSummary::new("x".into(), report, Some(1)).lines(1e6);
        assert_eq!(
            first,
            "written         977k/s   0 bytes in 0 segments,   0 bytes behind: no space"
        );
        let expected = "store           768M in 3 segments, 2 deleted, room for 2 h 0 min, 1 trigger, 0 packets held";
        assert_eq!(second, expected);
    }
}
