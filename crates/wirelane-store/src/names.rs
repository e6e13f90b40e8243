//! The names of a store's files. Files with any other name are never touched.
//!
//! ```text
//!  20261123T024144.123456789Z_20261123T024155.000000000Z_0_0000000042.pcapng      a finished segment
//!  …_0_0000000042.pcapng.zst                                                      a compressed one
//!  …_0_0000000042.pcapng.index        its index; .index.part while that is written
//!  0_0000000042.pcapng.part           an unfinished segment
//!  0_0000000042.pin                   protects that segment from deletion, finished or not
//!  wirelane.store                     makes the directory a store
//!  recorder.lock                      locked by the recorder
//! ```
//!
//! A segment's name contains the times of its oldest and newest packet, its lane, and its number.
//! Numbers count over all lanes in the order of recording, and never restart.

use wirelane_pcap::Compression;

use crate::stamp;

/// The file that makes a directory a store.
pub(crate) const STORE_FILE: &str = "wirelane.store";
/// The file that a recorder locks.
pub(crate) const RECORDER_LOCK: &str = "recorder.lock";

/// The parts of a segment's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentName {
    /// Times of the oldest and the newest packet, in nanoseconds since the epoch; `None` while it
    /// is unfinished.
    pub times: Option<(u64, u64)>,
    /// The lane, the series of segments that one thread wrote.
    pub lane: u32,
    /// Its number in the store: the order of recording.
    pub number: u64,
    /// Its compression, lz4 or zstd; `None` without.
    pub compression: Option<Compression>,
}

impl SegmentName {
    /// Name of the file.
    #[must_use]
    pub fn file_name(&self) -> String {
        let suffix = self.compression.map_or("", Compression::suffix);
        let series = self.series();
        match self.times {
            Some((oldest, newest)) => {
                let (oldest, newest) = (stamp::format(oldest), stamp::format(newest));
                format!("{oldest}_{newest}_{series}.pcapng{suffix}")
            }
            None => format!("{series}.pcapng{suffix}.part"),
        }
    }

    /// Name of its index.
    #[must_use]
    pub fn index_name(&self) -> String {
        format!("{}.index", self.file_name())
    }

    /// Name of the pin file. It is the same before and after the segment is finished.
    #[must_use]
    pub fn pin_name(&self) -> String {
        format!("{}.pin", self.series())
    }

    /// Whether it is unfinished: it is being written, or its recorder died.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.times.is_none()
    }

    /// Whether its extents are compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.compression.is_some()
    }

    fn series(&self) -> String {
        format!("{}_{:010}", self.lane, self.number)
    }
}

/// A file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFile {
    /// A segment, finished or not.
    Segment(SegmentName),
    /// The index of a segment.
    Index(SegmentName),
    /// An index that is being written.
    IndexPart(SegmentName),
    /// The pin of the segment of this lane and number.
    Pin(u32, u64),
}

impl StoreFile {
    /// Parses a file name; `None` for files of other programs, and for files outside the set of
    /// segments.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(series) = name.strip_suffix(".pin") {
            let (lane, number) = parse_series(series)?;
            return Some(Self::Pin(lane, number));
        }
        if let Some(segment) = name.strip_suffix(".index") {
            return Some(Self::Index(parse_finished(segment)?));
        }
        if let Some(segment) = name.strip_suffix(".index.part") {
            return Some(Self::IndexPart(parse_finished(segment)?));
        }
        if let Some(rest) = name.strip_suffix(".part") {
            let (series, compression) = parse_suffix(rest)?;
            let (lane, number) = parse_series(series)?;
            return Some(Self::Segment(SegmentName { times: None, lane, number, compression }));
        }
        Some(Self::Segment(parse_finished(name)?))
    }
}

fn parse_finished(name: &str) -> Option<SegmentName> {
    let (stem, compression) = parse_suffix(name)?;
    let mut parts = stem.splitn(3, '_');
    let times = (stamp::parse(parts.next()?)?, stamp::parse(parts.next()?)?);
    let (lane, number) = parse_series(parts.next()?)?;
    Some(SegmentName { times: Some(times), lane, number, compression })
}

fn parse_suffix(name: &str) -> Option<(&str, Option<Compression>)> {
    let kinds = [None, Some(Compression::Lz4), Some(Compression::Zstd)];
    kinds.into_iter().find_map(|kind| {
        let stem = name.strip_suffix(kind.map_or("", Compression::suffix))?;
        Some((stem.strip_suffix(".pcapng")?, kind))
    })
}

/// Lane and number, only in the format of [`SegmentName::series`]: no two names may mean the same.
fn parse_series(text: &str) -> Option<(u32, u64)> {
    let (lane, number) = text.split_once('_')?;
    let (lane, number): (u32, u64) = (digits(lane)?.parse().ok()?, digits(number)?.parse().ok()?);
    (format!("{lane}_{number:010}") == text).then_some((lane, number))
}

fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(times: Option<(u64, u64)>, compression: Option<Compression>) -> SegmentName {
        SegmentName { times, lane: 3, number: 42, compression }
    }

    #[test]
    fn names_survive() {
        for times in [None, Some((0, 0)), Some((1_795_400_504_123_456_789, u64::MAX))] {
            for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
                for number in [0, 42, 9_999_999_999, 10_000_000_000, u64::MAX] {
                    let name = SegmentName { number, ..name(times, compression) };
                    let file = name.file_name();
                    assert_eq!(StoreFile::parse(&file), Some(StoreFile::Segment(name)), "{file}");
                    assert_eq!(
                        StoreFile::parse(&name.pin_name()),
                        Some(StoreFile::Pin(3, number)),
                        "{file}"
                    );
                    if times.is_some() {
                        let index = name.index_name();
                        assert_eq!(StoreFile::parse(&index), Some(StoreFile::Index(name)));
                        let part = format!("{index}.part");
                        assert_eq!(StoreFile::parse(&part), Some(StoreFile::IndexPart(name)));
                    }
                }
            }
        }
    }

    #[test]
    fn they_look_as_documented() {
        let finished = name(Some((1_795_401_704_123_456_789, 1_795_401_715_000_000_000)), None);
        assert_eq!(
            finished.file_name(),
            "20261123T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcapng"
        );
        let part = name(None, Some(Compression::Zstd));
        assert_eq!(part.file_name(), "3_0000000042.pcapng.zst.part");
        assert_eq!(part.pin_name(), "3_0000000042.pin");
    }

    #[test]
    fn other_files_are_not_ours() {
        for name in [
            "",
            "notes.txt",
            "capture.pcapng",
            "wirelane.store",
            "recorder.lock",
            ".pin",
            "_.pin",
            "3_42.pin",
            "+3_0000000042.pin",
            "03_0000000042.pin",
            "3_00000000042.pin",
            "3_0000000042.pcapng",
            "3_0000000042.pcapng.gz.part",
            "3_0000000042.pcapng.part.index",
            "3_0000000042.pcapng.part.part",
            "3_99999999999999999999.pin",
            "5000000000_0000000042.pin",
            "20261123T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcapng.gz",
            "20261123T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcap",
            "20261123T024144.123456789Z_20261123T024155.000000000Z_3_42.pcapng",
            "20261123T024144.123456789Z_20261123T024155.000000000Z_0000000042.pcapng",
            "20261123T024144.12345678Z_20261123T024155.000000000Z_3_0000000042.pcapng",
            "20261323T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcapng",
            "copy of 20261123T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcapng",
            "20261123T024144.123456789Z_20261123T024155.000000000Z_3_0000000042.pcapng.orig",
        ] {
            assert_eq!(StoreFile::parse(name), None, "{name:?}");
        }
    }
}
