//! Samples: when they are taken, and how far they can be trusted.

pub mod control;
pub mod quiet;
pub(crate) mod rounds;
pub mod scalability;
