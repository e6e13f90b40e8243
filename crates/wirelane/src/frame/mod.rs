//! The move-only frame: one packet, and the ownership of its memory.
//!
//! ```text
//!      Frame (8 bytes)
//!        │
//!        ▼
//!   ┌── Meta (one cache line) ──┐        ┌────────── chunk ──────────┐
//!   │ owner  data  len  time …  │───────▶│ headroom │ packet │ rest  │
//!   └───┬───────────────────────┘        └───────────────────────────┘
//!       ▼
//!     Owner: the pool or mapped ring that takes back the memory
//! ```
//!
//! The holder of a [`Frame`] owns its bytes: it can read, write, send or drop it, once. Handles
//! cannot be copied or forged, so no packet can be sent twice and no chunk can be in two places.
//! Dropping a frame returns the memory to its owner, from any thread.

mod attached;
mod batch;
mod handle;
mod headroom;
mod hints;
mod kept;
mod marks;
mod merged;
mod meta;
mod offload;
mod offload_bytes;
mod partial;
pub(crate) mod protocols;
pub(crate) mod record;
mod rewrite;
pub(crate) mod sink;
mod unfinished;

pub use self::batch::Batch;
pub use self::handle::Frame;
pub(crate) use self::hints::Hints;
pub use self::hints::{RxHash, RxHashKind};
pub(crate) use self::kept::OFFLOAD_BYTES;
pub(crate) use self::marks::{Left, Marks};
pub(crate) use self::meta::{Meta, Owner};
pub use self::offload::{Gso, Offload, PartialChecksum, Tunnel};
pub(crate) use self::protocols::Protocols;
pub(crate) use self::sink::{MAX_PACKET, Sink, SinkGso};
