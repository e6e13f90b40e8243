//! What to send: packets described in a line or a file, when each is due, and how to know it again.
//!
//! ```text
//!   text ─────▶ recipe ─▶ template ─┐
//!   OTG file ─▶ (layers)  (edits)   ├─▶ stream ─▶ Generator ─┐
//!                         sizes, rate┘                       ├─▶ Source ─▶ the sending loop
//!   capture file ───────────────────────▶ Replay, rewrite ───┘
//! ```
//!
//! This crate only computes: it knows no ports, files or clocks. `wirelane-send` sends.
#![forbid(unsafe_code)]

pub mod rate;
pub mod rewrite;
pub mod signature;
pub mod source;
pub mod values;

pub use rate::Rate;
pub use signature::Signature;
pub use source::{Departure, Lane, Source};
pub use values::Values;
