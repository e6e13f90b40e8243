//! The formats of written files, and their differences.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use crate::compression::Compression;
use crate::error::CaptureError;
use crate::pcap::{self, Resolution};
use crate::pcapng::{self, MAX_PACKET, MetadataBlock};
use crate::record::{Direction, Record, Section, Source, Statistics};

/// Most bytes an interface statistics block takes: header, two times, five counters, end and
/// trailer.
const STATISTICS_LEN: u64 = 20 + 7 * 12 + 4 + 4;

/// Suffixes of formats that other programs write.
const FOREIGN: [&str; 4] = ["snoop", "erf", "blf", "5vw"];

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Packets with interfaces, queues and drop counters.
    Pcapng,
    /// Only packets, for programs that cannot read pcapng.
    Pcap(Resolution),
}

impl FileFormat {
    /// The format for a path: pcap with nanoseconds for `.pcap` and `.cap`, also before `.gz`,
    /// `.lz4` or `.zst`; otherwise pcapng.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        match plain(path).extension().and_then(OsStr::to_str) {
            Some("pcap" | "cap") => Self::Pcap(Resolution::Nanoseconds),
            _ => Self::Pcapng,
        }
    }

    /// Whether the suffix of a path belongs to a capture format that Wirelane does not write.
    pub(crate) fn is_foreign(path: &Path) -> bool {
        let plain = plain(path);
        plain.extension().and_then(OsStr::to_str).is_some_and(|suffix| FOREIGN.contains(&suffix))
    }

    /// Appends the headers of a file. Classic pcap describes one interface, which all sources
    /// share.
    pub(crate) fn headers(
        self,
        out: &mut Vec<u8>,
        section: &Section,
        sources: &[Source],
    ) -> Result<(), UnsupportedContent> {
        match self {
            Self::Pcapng => {
                pcapng::section_header(out, section);
                for source in sources {
                    pcapng::interface(out, source);
                }
            }
            Self::Pcap(resolution) => pcap::file_header(out, resolution, &common(sources)?),
        }
        Ok(())
    }

    /// Appends an interface after the interfaces of the headers; `first` is the first of them.
    /// Classic pcap maps it to its only interface.
    pub(crate) fn source(
        self,
        out: &mut Vec<u8>,
        source: &Source,
        first: Option<&Source>,
    ) -> Result<(), UnsupportedContent> {
        match self {
            Self::Pcapng => pcapng::interface(out, source),
            Self::Pcap(_) if first.is_some_and(|first| first.link_type == source.link_type) => {}
            Self::Pcap(_) => return Err(one_link_type()),
        }
        Ok(())
    }

    /// Appends a block beside packets, if the format supports it.
    pub(crate) fn metadata(self, out: &mut Vec<u8>, metadata: MetadataBlock<'_>) {
        if self == Self::Pcapng {
            out.extend_from_slice(metadata.bytes());
        }
    }

    /// Appends counters, if the format supports them.
    pub(crate) fn statistics(self, out: &mut Vec<u8>, statistics: &[Statistics]) {
        if self == Self::Pcapng {
            statistics.iter().for_each(|entry| pcapng::statistics(out, entry));
        }
    }

    /// Appends a packet, with its options if the format supports them; refuses a time that the
    /// format cannot express.
    #[inline]
    pub(crate) fn packet(
        self,
        out: &mut Vec<u8>,
        record: &Record<'_>,
        options: &[u8],
    ) -> Result<(), UnsupportedContent> {
        match self {
            Self::Pcapng => pcapng::packet_with_options(out, record, options),
            Self::Pcap(_) if record.timestamp / 1_000_000_000 >= pcap::END_OF_TIME => {
                return Err(UnsupportedContent::new(
                    "a packet is later than 2106, and classic pcap counts seconds in 32 bits",
                    "write pcapng; the packets before it are in the file",
                ));
            }
            Self::Pcap(resolution) => pcap::packet(out, resolution, record),
        }
        Ok(())
    }

    /// The length of the whole blocks within the first `len` of `bytes`, and their number of
    /// packets. `at_start`: the bytes begin with the headers of the file.
    pub(crate) fn whole(self, bytes: &[u8], len: usize, at_start: bool) -> (usize, u64) {
        match self {
            Self::Pcapng => pcapng::whole_blocks(bytes, len),
            Self::Pcap(_) => pcap::whole_packets(bytes, len, at_start),
        }
    }

    /// The largest size of one packet in a file, before compression.
    #[inline]
    pub(crate) fn packet_len(self, record: &Record<'_>, options: &[u8]) -> u64 {
        let data = record.data.len().min(MAX_PACKET) as u64;
        match self {
            Self::Pcapng => {
                let flags = if record.direction == Direction::Unknown { 0 } else { 12 };
                32 + data.next_multiple_of(4) + flags + pcapng::options_len(options)
            }
            Self::Pcap(_) => 16 + data,
        }
    }

    /// The largest size of the statistics of `interfaces` interfaces, in bytes.
    pub(crate) fn statistics_len(self, interfaces: usize) -> u64 {
        match self {
            Self::Pcapng => STATISTICS_LEN * interfaces as u64,
            Self::Pcap(_) => 0,
        }
    }
}

/// A path without the suffix of its compression.
fn plain(path: &Path) -> Cow<'_, Path> {
    match Compression::of_path(path) {
        Some(_) => path.with_extension("").into(),
        None => path.into(),
    }
}

/// Contents that a format cannot hold, and the alternative.
pub(crate) struct UnsupportedContent {
    what: &'static str,
    help: &'static str,
}

const WRITE_PCAPNG: &str = "write pcapng";

impl UnsupportedContent {
    fn new(what: &'static str, help: &'static str) -> Self {
        Self { what, help }
    }

    /// The error for the file called `name`.
    pub(crate) fn of(self, name: &str) -> CaptureError {
        CaptureError::Unsupported { name: name.into(), what: self.what, help: self.help }
    }
}

/// The one interface that classic pcap can describe for all of `sources`.
fn common(sources: &[Source]) -> Result<Source, UnsupportedContent> {
    let lack =
        UnsupportedContent::new("a pcap file needs an interface from its start", WRITE_PCAPNG);
    let first = sources.first().ok_or(lack)?;
    if sources.iter().any(|source| source.link_type != first.link_type) {
        return Err(one_link_type());
    }
    let unlimited = sources.iter().any(|source| source.snaplen == 0);
    let snaplen = sources.iter().map(|source| source.snaplen).max();
    let snaplen = snaplen.filter(|_| !unlimited).unwrap_or_default();
    let is_of_all = |len: &u8| sources.iter().all(|one| one.fcs_len == Some(*len));
    let fcs_len = first.fcs_len.filter(is_of_all);
    Ok(Source { snaplen, fcs_len, ..first.clone() })
}

fn one_link_type() -> UnsupportedContent {
    UnsupportedContent::new("a pcap file holds one link type", WRITE_PCAPNG)
}
