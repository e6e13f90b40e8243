//! Writing a store, without ever making who receives packets wait for the file system.
//!
//! ```text
//!  receiving thread      store thread `wl-store-N`            the disk
//!  LaneWriter::push ──▶ gate, index, checksum, placing ──▶ io_uring, O_DIRECT
//!        ▲                │    ▲                             │
//!        │                ▼    │ compressed, by `wl-compress` │
//!        └──────────── free buffers of 1 MiB ◀────────────────┘
//!
//!  `wl-keeper`, one per store: makes the next segment before it is needed, deletes the oldest ones
//!  `wl-finish`, one per lane: cuts a full segment, writes its index, gives it its name
//! ```
//!
//! * A packet is copied once, into a block in a buffer of 1 MiB. A full buffer changes hands; the
//!   receiving thread makes no system call but waking a thread that sleeps.
//! * Without a free buffer, packets are refused and counted ([`LaneReport::dropped`]): the disk is
//!   too slow, full, or broken. When it takes something again, recording goes on.
//! * A write that failed is tried again, in a new segment. What the disk does not take until the
//!   end is counted, too ([`LaneReport::lost`]).
//!
//! `examples/days.rs` writes a store, and asks it. Reading order: [`StoreWriter`], [`LaneWriter`],
//! then `worker.rs`, `segment.rs`, `keeper.rs`.

mod age;
mod filled;
mod finisher;
mod gate;
mod hold;
mod keeper;
mod lane;
mod lost;
mod options;
mod pack;
mod segment;
mod shelf;
mod status;
mod store;
mod worker;

pub use self::gate::Gate;
pub use self::lane::LaneWriter;
pub use self::lost::Lost;
pub use self::options::{Limits, StoreOptions};
pub use self::status::{Counts, LaneReport, ShortSegments, StoreReport, StoreStatus};
pub use self::store::StoreWriter;
