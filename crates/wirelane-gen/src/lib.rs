//! Packets to send: descriptions in one line or a file, schedules, and signatures that identify
//! packets.
//!
//! ```text
//!   text ─────▶ recipe ─▶ template ─┐
//!   OTG file ─▶ (layers)  (edits)   ├─▶ stream ─▶ Generator ─┐
//!                         sizes, rate┘                       ├─▶ PacketSource ─▶ the sending loop
//!   capture file ───────────────────────▶ Replay, rewrite ───┘
//! ```
//!
//! This crate only computes. It uses no ports, files or clocks; `wirelane-send` sends the packets.
//!
//! The value of a field in packet k depends on k alone, so threads, the kernel engine and `--print`
//! produce the same packet k. Due times are integers computed from packet numbers, so lane i of n
//! interleaves exactly with the others.
//!
//! Reading order: `source`, `template`, `generator`; then `pacer` and `sockets` of `wirelane-send`.
#![forbid(unsafe_code)]

mod error;
mod fill;
pub mod generator;
mod header;
pub mod language;
mod layers;
mod layout;
mod notation;
#[cfg(feature = "otg")]
pub mod otg;
pub mod protocol;
pub mod rate;
pub mod recipe;
pub mod rewrite;
pub mod schedule;
pub mod signature;
pub mod sizes;
pub mod source;
pub mod stream;
pub mod table;
pub mod template;
pub mod value;
pub mod values;

pub use error::{Error, ErrorKind, Place, Result};
pub use fill::Fill;
pub use generator::Generator;
pub use rate::Rate;
pub use recipe::{Layer, Recipe};
pub use schedule::Schedule;
pub use signature::Signature;
pub use sizes::Sizes;
pub use source::{Departure, PacketSource, ThreadShare};
pub use stream::Stream;
pub use template::Template;
pub use values::Values;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
