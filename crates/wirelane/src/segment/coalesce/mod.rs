//! The inverse of segmentation (GRO): consecutive packets of a flow become one frame.
//!
//! Segmenting a merged frame gives exactly the same packets back. Therefore only packets that
//! segmentation would create are merged: with correct checksums, in order, of one size, with the
//! same headers, and without padding or a trailer. A packet that cannot be merged is passed on
//! unchanged after the held packets of its flow, so the order within a flow is kept.
//!
//! A merged frame always has a partial checksum. The segmenter, or a sink, completes it. A sender's
//! partial checksum needs no verification.
//!
//! ```
//! use wirelane::frame::Offload;
//! use wirelane::internal::segment::{Coalescer, Limits};
//! # let (packets, now): (Vec<Vec<u8>>, u64) = (vec![vec![0; 60]], 0);
//! let mut coalescer = Coalescer::new(Limits::default());
//! let mut send = |frame: &[u8], offload: Offload| { /* to the stack */ };
//! for packet in &packets {
//!     coalescer.push(packet, Offload::default(), now, &mut send);
//! }
//! coalescer.flush(&mut send); // at the end of a batch, or
//! coalescer.expire(now, &mut send); // only what waited too long
//! ```

mod coalescer;
mod held;
mod limits;
mod packet;
mod stats;
mod store;

pub(crate) use coalescer::COALESCED;
pub use coalescer::Coalescer;
pub use limits::{Limits, MAX_DATAGRAMS};
pub(crate) use stats::CoalesceCounters;
pub use stats::{Alone, CoalesceStats, Flush};
pub(crate) use store::Store;
