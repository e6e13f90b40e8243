//! Frame memory: one pool per queue.
//!
//! ```text
//!                   Pool::take                      Frame dropped, on any thread
//!   free (owner's) ───────────▶ frames in use ───────────────────────▶ returned
//!         ▲                                                               │
//!         └────────────────── all at once, when free is empty ────────────┘
//! ```
//!
//! One thread owns the pool and takes frames out of a list that only it sees. Frames come back
//! from any thread onto the *returned* list, a run of frames in one atomic step; the owner takes
//! that whole list when its own is empty. So a frame costs less than one atomic operation on
//! the way round, and queues share nothing.
//!
//! A pool has memory of its own ([`Pool::new`]) or, in a port, a part of a region that it shares
//! with other pools ([`shared_memory`](crate::port::shared_memory)). A region is what a kernel can
//! register as a whole (an AF_XDP UMEM), so that a frame of any of its pools can be sent through
//! any socket that knows the region, uncopied.
//!
//! The memory lives until the last pool of its region is dropped *and* every frame is back, whoever
//! is last.

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
