//! Filters: tcpdump's language, one compiler, several engines that agree on every packet.
//!
//! The parts without frames are in a separate crate, `wirelane-filter`. This module has the parts
//! that opening a port and filtering frames need.

pub(crate) mod compare;
mod engine;

pub use self::engine::Engine;
pub(crate) use self::engine::retain_by;
pub use wirelane_filter::{Filter, Program, compile};
