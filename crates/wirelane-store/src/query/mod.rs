//! Queries: packets of stores that match, in order of time.
//!
//! ```text
//!  StoreRoute   segments by the times in their names, extents by their headers and index
//!    │ extents, the oldest first
//!    ▼
//!  pipeline     threads: read ─▶ check ─▶ decompress ─▶ filter
//!    │ runs of packets, in the order of the route
//!    ▼
//!  Sweep        passes on packets older than all later extents ─▶ the caller's sink
//! ```
//!
//! Reading order: [`Query`], [`Found`] and [`Report`] are the request and the answer; [`run`] and
//! [`count`] answer, [`list`] finds candidate segments; [`Segment`] reads one segment.
//!
//! Packets with equal times are in the order of recording.

mod answer;
mod candidates;
mod engine;
mod flows;
mod list;
mod loader;
mod opened;
mod order;
mod pace;
mod pipeline;
mod request;
mod route;
mod segment;
mod sift;
mod sweep;

pub use self::answer::{count, run};
pub use self::list::{Listed, list};
pub use self::loader::Loader;
pub use self::request::{Damage, Found, Query, Report};
pub use self::segment::Segment;

#[cfg(test)]
pub(crate) mod tests;
