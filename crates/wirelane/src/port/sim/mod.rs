//! `sim:N`: a network card in the process, with N RX and N TX queues. It needs no privileges.
//!
//! For receiving, a deterministic source creates packets. The spec determines packet k (see
//! `stream`), and receive-side scaling spreads the flows over the queues. For transmitting, a sink
//! counts and frees packets.
//!
//! ```text
//!                  ┌─ flow a, flow d ─▶ queue 0 ─▶ Rx      packet k belongs to flow k % flows;
//!   stream: 0 1 2 …┤                                       every Rx walks the flows of its own
//!                  └─ flow b, flow c ─▶ queue 1 ─▶ Rx      queue and asks nobody
//! ```
//!
#![doc = include_str!("options.md")]
//!
//! At `rate=max` a queue creates packets on demand. While all its frames are in use it creates
//! none, so no packet is lost. At any other rate packets are due at their time; due packets that
//! exceed the free frames are lost and counted as `ring_full`, as in the ring of a real card.

pub(crate) mod assembly;
pub(crate) mod cable;
pub(crate) mod config;
mod control;
mod schedule;
mod sink;
mod source;
pub(crate) mod stream;
mod tally;
mod template;

pub(crate) use self::assembly::open;
