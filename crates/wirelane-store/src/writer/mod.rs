//! Writes a store. Receiving threads never wait for the file system.
//!
//! ```text
//!  receiving thread      store thread `wl-store-N`                   the disk
//!  LaneWriter::push ──▶ pre-trigger, index, checksum, placing ──▶ io_uring, O_DIRECT
//!        ▲                │    ▲                                     │
//!        │                ▼    │ compressed, by `wl-compress`        │
//!        └──────────── free buffers of 1 MiB ◀───────────────────────┘
//!
//!  `wl-retention`, one per store: creates the next segment in advance, deletes the oldest ones
//!  `wl-sealer`, one per lane: truncates a full segment, writes its index, renames it
//! ```
//!
//! * A packet is copied once, into a block in a buffer of 1 MiB. A full buffer is passed on; the
//!   only system call of the receiving thread wakes a sleeping thread.
//! * Without a free buffer, packets are refused and counted ([`LaneReport::dropped`]): the disk is
//!   too slow, full, or broken. Recording continues when the disk accepts writes again.
//! * A failed write is repeated in a new segment. Packets that cannot be written until the end are
//!   counted, too ([`LaneReport::lost`]).
//!
//! Reading order: [`StoreWriter`], [`LaneWriter`], then `worker.rs`, `segment.rs`, `retention.rs`.
//!
//! The lane's store thread reads a full buffer again for keys, checksum and compression. That costs
//! a second look at each header, but keeps the work away from the thread that empties the kernel's
//! ring. Writes bypass the page cache (O_DIRECT, buffers registered with io_uring). Without
//! io_uring or O_DIRECT, writes are plain, and the summary says so. After a crash, packets of the
//! last `--flush` interval may be lost.
//!
//! A lane may get interfaces while it runs. The prelude of a segment describes its interfaces, so a
//! new interface begins a segment.

mod age;
mod filled;
mod hold;
mod lane;
mod lost;
mod options;
mod pack;
mod pre_trigger;
mod retention;
mod sealer;
mod segment;
mod status;
mod store;
mod stored_segments;
mod worker;

pub use self::lane::LaneWriter;
pub use self::lost::Lost;
pub use self::options::{Limits, StoreOptions};
pub use self::pre_trigger::PreTrigger;
pub use self::status::{Counts, LaneReport, ShortSegments, StoreReport, StoreStatus};
pub use self::store::StoreWriter;
