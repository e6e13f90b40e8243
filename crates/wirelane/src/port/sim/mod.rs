//! `sim:N`: a network card in the process, with N RX and N TX queues. It needs no privileges.
//!
//! For receiving, a deterministic source creates packets. Any program can compute packet k (see
//! [`Stream`]), and receive-side scaling spreads the flows over the queues. For transmitting, a
//! sink counts and frees packets. Two ports can be joined by a [`cable`] instead.
//!
//! ```text
//!                  ┌─ flow a, flow d ─▶ queue 0 ─▶ Rx      packet k belongs to flow k % flows;
//!   stream: 0 1 2 …┤                                       every Rx walks the flows of its own
//!                  └─ flow b, flow c ─▶ queue 1 ─▶ Rx      queue and asks nobody
//! ```
//!
#![doc = include_str!("options.md")]
//!
//! At `rate=max` a queue creates packets on demand: if all its frames are in use it creates none,
//! and no packet is lost. At any other rate packets are due at their time; due packets that exceed
//! the free frames are lost and counted as `ring_full`, as in the ring of a real card.

mod assembly;
mod cable;
mod config;
mod control;
mod schedule;
mod sink;
mod source;
mod stream;
mod tally;
mod template;

pub use self::assembly::open;
pub use self::cable::cable;
pub use self::config::{Config, DEFAULT_SEED, Kind, MAX_FLOWS, MAX_QUEUES, Rate};
pub use self::stream::{Predicted, Stream};
