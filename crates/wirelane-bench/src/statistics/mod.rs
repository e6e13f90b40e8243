//! Statistics of samples: their rounds, and how far they can be trusted.

pub mod control;
pub mod quiet;
pub(crate) mod rounds;
pub mod scalability;
