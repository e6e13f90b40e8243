//! The memory of frames: one pool per queue.
//!
//! ```text
//!                   Pool::take                      Frame dropped, on any thread
//!   free (owner's) ───────────▶ frames in use ───────────────────────▶ returned
//!         ▲                                                               │
//!         └────────────────── all at once, when free is empty ────────────┘
//! ```
//!
//! One thread owns the pool and takes frames from a private list. Any thread returns frames to the
//! *returned* list, a run of frames in one atomic operation. The owner takes that whole list when
//! its own is empty. So a frame costs less than one atomic operation per use, and queues share no
//! state.
//!
//! A pool has private memory ([`Pool::new`]) or, in a port, a part of a region shared with other
//! pools. A kernel can register a region as a whole (an AF_XDP UMEM). Any socket with that region
//! can then send frames of any of its pools without a copy.
//!
//! The memory lives until the last pool of its region is dropped *and* every frame is returned.

pub(crate) mod blocks;
mod config;
mod gauge;
#[allow(clippy::module_inception, reason = "the type that all of it is about")]
mod pool;
mod region;
mod returns;

pub use self::config::PoolConfig;
pub(crate) use self::gauge::PoolGauge;
pub use self::pool::Pool;
pub(crate) use self::region::{Region, Returned, Tag};
