//! `libwirelane`: the C interface. `include/wirelane.h` is made of this crate; `docs/c.md` explains
//! it.
//!
//! ```text
//!  program ─▶ exports ─▶ table: who may use the handle? ─▶ wirelane: Port, Rx, Tx, Batch
//!  (wirelane.h)    │
//!                  └─▶ call: no panic leaves, errors become values
//! ```
//!
//! * `exports`: the functions, one file per kind of handle.
//! * `handles`, `table`: handles are numbers that are never used twice, and guard their objects.
//! * `error`, `call`: errors as values; what all functions do.
//! * `options`, `mask`, `port`, `batch`, `rewrite`: structures that C sees, and what they mean
//!   here.

// The contracts are those of C, in the documentation of each function.
#![allow(clippy::missing_safety_doc)]

// In the order of the header.
pub mod error;
pub mod handles;
pub mod mask;
pub mod options;
pub mod port;

pub mod batch;
pub mod exports;
pub mod rewrite;

mod call;
mod table;
