//! Stores days of packets on disk, and finds any of them in a second.
//!
//! ```text
//!  DIR/                  one store
//!    segment.pcapng      a plain capture file of a fixed size: extents of whole blocks
//!    segment.index       which extents hold which addresses, ports, protocols, VLANs, flows
//!
//!  packets ─▶ writer: lanes ─▶ extents ─▶ segments + indexes
//!          ─▶ query: narrow ─▶ filter ─▶ in order of time
//! ```
//!
//! An **extent** is the unit of writing and reading: a run of whole pcapng blocks, about 1 MiB,
//! with its times and checksum in a header. A **segment** is a file of extents of one **lane** (the
//! writer of one queue). An **index** lists, for every key, the extents of its segment that contain
//! it. An index can be rebuilt from its segment.
//!
//! Recording is a feature of this crate: a program that captures compiles no store, and a program
//! that reads a store compiles no ports.
//!
//! A capture merges its queues into one file. A recording does not merge: each receiving thread has
//! a lane with separate segments, and a query restores the order of time. The names of the segments
//! are the index of the store, because they contain the times of the oldest and newest packet.
//!
//! Reading order: `extent`, `writer`, `index`, `narrow`, `query`, `record`.

mod check;
mod directory;
#[doc(hidden)]
pub mod disk;
mod error;
mod extent;
mod extent_set;
mod files;
pub mod index;
mod key;
mod lock;
mod mend;
mod names;
mod narrow;
mod pin;
mod prelude;
pub mod query;
#[cfg(feature = "record")]
pub mod record;
mod scan;
mod stamp;
mod survey;
mod threads;
pub mod writer;

pub use self::check::{CheckReport, check, reindex};
pub use wirelane_pcap::Access;

pub use self::directory::{Directory, SegmentEntry, random_number};
pub use self::error::{Error, Result};
pub use self::extent::{EXTENT_ALIGNMENT, EXTENT_SIZE, Extent, ExtentHeader};
pub use self::extent_set::ExtentSet;
pub use self::index::{FlowId, Index, IndexBuilder, keys};
pub use self::key::{Field, Term};
pub use self::lock::{RecorderLock, SetLock};
pub use self::mend::{MendReport, Mended, mend};
pub use self::names::SegmentName;
pub use self::narrow::{Keys, Plan};
pub use self::pin::Deletion;
pub use self::query::{Damage, Found, Query, Report};
pub use self::scan::{Gap, GapKind, ReadAt, Scan, scan};
pub use self::writer::{
    Counts, LaneReport, LaneWriter, Limits, Lost, PreTrigger, ShortSegments, StoreOptions,
    StoreReport, StoreStatus, StoreWriter,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
