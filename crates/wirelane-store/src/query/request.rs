//! The request and the answer of a query.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use wirelane_filter::Filter;
use wirelane_pcap::{Cancel, Record, Source};

use crate::narrow::Keys;

/// The packets to find, and the resources to use. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Query {
    /// Excludes packets before this time, in nanoseconds since the epoch.
    pub from: Option<u64>,
    /// Excludes packets at this time and later, in nanoseconds since the epoch.
    pub to: Option<u64>,
    /// Only packets that this filter accepts.
    pub filter: Option<Filter>,
    /// Reads only extents that have such keys. It saves reading, and does not filter: the answer
    /// may have packets without these keys. It applies to link types whose packets have keys.
    pub keys: Option<Keys>,
    /// Also all other packets of the matching packets' conversations, at any time.
    pub flows: bool,
    /// The most bytes to read per second; `None` reads at full speed.
    pub rate: Option<u64>,
    /// Bytes of memory for sorting packets and for the conversations. If more is needed, the stores
    /// are read more than once. Buffers for reading, some MiB, are not counted.
    pub memory: usize,
    /// Threads that read, decompress and filter. More threads than CPUs keep the disk busy.
    pub threads: usize,
    /// Stops the query. Packets found before it were already passed on.
    pub cancel: Cancel,
}

wirelane_wire::setters!(Query:
    from: Option<u64>,
    to: Option<u64>,
    filter: Option<Filter>,
    keys: Option<Keys>,
    flows: bool,
    rate: Option<u64>,
    cancel: Cancel;
    memory: usize,
    threads: usize,
);

impl Default for Query {
    /// All packets.
    fn default() -> Self {
        Self::all()
    }
}

impl Query {
    /// The minimum of [`Query::memory`].
    pub const LEAST_MEMORY: usize = 8 << 20;

    /// All packets.
    #[must_use]
    pub fn all() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            from: None,
            to: None,
            filter: None,
            keys: None,
            flows: false,
            rate: None,
            memory: 256 << 20,
            threads: threads.clamp(4, 8),
            cancel: Cancel::default(),
        }
    }

    /// Whether the times of the query include this one.
    #[inline]
    #[must_use]
    pub fn includes(&self, time: u64) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }
}

/// A packet that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The packet; its interface is a number among `sources`.
    pub record: Record<'a>,
    /// Its other metadata: the encoded options of its block.
    pub options: &'a [u8],
    /// The interfaces of the packets so far. Later packets may add to them.
    pub sources: &'a [Source],
}

/// A part that could not be read. The answer lacks its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// The kind of damage.
    pub what: Cow<'static, str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = format!("{} at byte {}", self.path.display(), self.offset);
        wirelane_wire::text::sentence(f, &object, &self.what, None)
    }
}

/// Statistics of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Packets found.
    pub packets: u64,
    /// Bytes of those packets, as captured.
    pub bytes: u64,
    /// Number of segments in the stores.
    pub segments: u64,
    /// Segments that were opened. The times of the others do not match.
    pub opened: u64,
    /// Segments that were deleted by a limit before they could be opened.
    pub deleted: u64,
    /// Extents of the opened segments.
    pub extents: u64,
    /// Extents that were read; the index excluded the others. An extent counts each time it is
    /// read.
    pub extents_read: u64,
    /// Bytes read for these extents.
    pub bytes_read: u64,
    /// Number of conversations to find, with [`Query::flows`].
    pub flows: u64,
    /// Passes over the stores to stay within [`Query::memory`]; usually 1. Finding conversations is
    /// not counted.
    pub passes: u32,
    /// Interfaces of the packets, and of other packets that might have matched. If no segment has
    /// the query's times, the interfaces of each store's newest segment.
    pub sources: Vec<Source>,
    /// Parts that could not be read.
    pub damage: Vec<Damage>,
    /// Link types that the filter cannot be applied to, with reasons: the answer has none of their
    /// packets.
    pub unfiltered: Vec<String>,
    /// The query was stopped before its end.
    pub stopped: bool,
}
