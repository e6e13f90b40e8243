//! `libwirelane`: the C interface. cbindgen makes `include/wirelane.h` from this crate; `docs/c.md`
//! explains it.
//!
//! The stable API is the header. The items for Rust are an implementation detail of Wirelane.
//!
//! ```text
//!  program ─▶ exports ─▶ table: may this thread use it? ─▶ wirelane: Port, Rx, Tx, Batch
//!  (wirelane.h)    │
//!                  └─▶ call: catches panics, errors become values
//! ```
//!
//! * `exports`: the functions, one file per kind of handle.
//! * `handles`, `table`: handles are numbers that are never used twice, and guard their objects.
//! * `error`, `call`: errors as values; the wrapper of every function.
//! * `options`, `mask`, `port`, `batch`, `rewrite`: structures for C, and their conversion.
//!
//! New programs in C use this interface, and unchanged programs use the drop-in `wirelane-libpcap`.
//! They are separate crates, because a program links one of them.

// The documentation of each function states its contract for C.
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
