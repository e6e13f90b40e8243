//! Filters: tcpdump's language, one compiler, several engines that agree on every packet.
//!
//! What needs no frames is a crate of its own, `wirelane-filter`. Here is what opening a port and
//! sorting frames need.

mod compare;
mod engine;

pub use self::compare::{Comparison, Count};
pub use self::engine::Engine;
pub(crate) use self::engine::retain_by;
pub use wirelane_filter::{Filter, Program, compile};
