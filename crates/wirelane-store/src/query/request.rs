//! What is asked of stores, and what comes back.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use wirelane_filter::Filter;
use wirelane_os::halt::Halt;
use wirelane_pcap::{Record, Source};

use crate::narrow::Keys;

/// Which packets are asked for, and how gently they are looked for.
#[derive(Clone, Debug)]
pub struct Query {
    /// Not the packets before this time, in nanoseconds since the epoch.
    pub from: Option<u64>,
    /// Not the packets at this time and later, in nanoseconds since the epoch.
    pub to: Option<u64>,
    /// Only the packets that it accepts.
    pub filter: Option<Filter>,
    /// Only packets of extents that hold such keys are looked at. It saves reading, and is no
    /// filter: the answer may have packets without these keys. It counts for link types whose
    /// packets have keys.
    pub keys: Option<Keys>,
    /// Also the other packets of the conversations that those belong to, whatever their time.
    pub flows: bool,
    /// Most bytes that are read per second; `None` reads as fast as it can.
    pub rate: Option<u64>,
    /// Bytes of packets held while they are put in order, and of conversations that are looked for.
    /// Where more would be needed, the stores are read more than once. It does not count what is
    /// being read, some MiB.
    pub memory: usize,
    /// Threads that read, decompress and filter. More than there are CPUs keep the disk busy.
    pub threads: usize,
    /// Ends the query: what was found until then was handed over.
    pub halt: Halt,
}

impl Query {
    /// The least that is kept of [`Query::memory`].
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
            halt: Halt::default(),
        }
    }

    /// Whether packets of this time are asked for.
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
    /// What was written beside it: the options of its block, in their coding.
    pub options: &'a [u8],
    /// The interfaces of the packets so far. Later packets may add to them.
    pub sources: &'a [Source],
}

/// Something that could not be read. What it holds is not in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong.
    pub what: Cow<'static, str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = format!("{} at byte {}", self.path.display(), self.offset);
        wirelane_os::text::sentence(f, &object, &self.what, None)
    }
}

/// How an answer came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Packets found.
    pub packets: u64,
    /// Bytes of those packets, as captured.
    pub bytes: u64,
    /// Segments of the stores.
    pub segments: u64,
    /// Segments that were opened: the others are of other times.
    pub opened: u64,
    /// Segments that were deleted to make room before they could be opened.
    pub deleted: u64,
    /// Extents of the segments that were opened.
    pub extents: u64,
    /// Extents that were read: the index says that the others have nothing. An extent counts as
    /// often as it was read.
    pub extents_read: u64,
    /// Bytes that were read for that.
    pub bytes_read: u64,
    /// Conversations that were looked for, with [`Query::flows`].
    pub flows: u64,
    /// Times that the stores were gone through to keep to [`Query::memory`]; 1 usually. Finding
    /// conversations is not counted.
    pub passes: u32,
    /// The interfaces: of the packets, and of others that might have matched; those of the newest
    /// segment of each store where no segment is of the time that was asked for.
    pub sources: Vec<Source>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Kinds of packets that the filter says nothing about, and why: none of them is in the answer.
    pub unfiltered: Vec<String>,
    /// The end was requested before all was found.
    pub stopped: bool,
}
