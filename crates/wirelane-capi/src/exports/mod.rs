//! The exported functions, one file per kind of handle. Each checks its arguments and calls the
//! implementation.

// In the order of the header.
pub mod library;
pub mod mask;
pub mod port;
pub mod rx;
pub mod tx;

pub mod batch;
