//! Multi-queue packet I/O: capture, count and generate packets on every queue of a network
//! interface in parallel. Each queue has separate memory, ends and thread; queues share nothing on
//! the hot path; and every packet is delivered or counted under a reason.
//!
//! # Example
//!
//! Count the packets of a simulated interface with two queues, one thread per queue:
//!
//! ```
//! use wirelane::pipeline::{self, Consumer};
//! use wirelane::port::{self, OpenOptions};
//! use wirelane::{Batch, Result};
//!
//! #[derive(Default)]
//! struct Count(usize);
//!
//! impl Consumer for Count {
//!     fn consume(&mut self, _input: usize, batch: &mut Batch) -> Result<()> {
//!         self.0 += batch.len(); // `batch.iter()` has the packets themselves
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let port = port::open(&"sim:2?count=10000".parse()?, &OpenOptions::default())?;
//! let running = pipeline::spawn(port, |_| Count::default())?;
//! let counts = running.join().result()?;
//! assert_eq!(counts.len(), 2);
//! assert_eq!(counts.iter().map(|count| count.0).sum::<usize>(), 10_000);
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` has fifteen programs of at most 60 lines:
//!
//! * receive: `dns_log`, `syn_comments`, `several_ports`, `recorder`, `live_flows`, `rate_meter`,
//!   `manual_masks`, `custom_source`;
//! * forward: `bridge`, `policer`, `nat`;
//! * answer and send: `responder`, `xdp_echo`, `tap`, `generator`.
//!
//! # A packet's journey
//!
//! ```text
//!  interface or file ─▶ port::Rx of its queue ─▶ Batch of Frames ─▶ pipeline::run ─▶ your code
//!                            ▲                                                         │
//!         Pool or ring of ───┘ ◀──────────────── a frame that is dropped ──────────────┤
//!         that queue                                                                   ▼
//!  interface or file ◀─ port::Tx of a queue ◀───────────────────── a frame that is sent
//! ```
//!
//! 1. [`port::open`] turns a [`port::Spec`] such as `packet:eth0@0-3` into a [`port::Port`], which
//!    reports the negotiated mode. The masks ([`QueueMask`]) select packets.
//! 2. Each [`port::Rx`] moves to a thread. After [`port::Port::start`] it adds [`Frame`]s to a
//!    [`Batch`]. A frame owns the memory of its packet, cannot be copied, and has a queue, a class
//!    and a time.
//! 3. [`pipeline::run`] receives, calls a [`pipeline::Consumer`], and sleeps while there are no
//!    packets.
//! 4. A consumer reads frames, sends them through a [`port::Tx`], or passes them to another thread
//!    through a [`ring`]. A frame that is dropped, on any thread, returns to the memory that it
//!    came from. The counters in [`stats`] account for every packet.
//!
//! # Reading order
//!
//! | module | content |
//! |---|---|
//! | [`frame`], [`pool`] | one packet and its owner; the memory of a queue |
//! | [`ring`] | queues between threads |
//! | [`mask`], [`stats`], [`error`] | which queues; counters; errors |
//! | [`port`] | opening a port and its ends; details of [`port::sim`], [`port::file`], [`port::packet`], [`port::xdp`] |
//! | [`pipeline`] | the receive loop, on one screen |
//! | [`placement`] | which CPU serves which queue |
//! | [`filter`] | tcpdump's language for selecting packets |
//! | [`qdisc`] | queueing disciplines between producers and a TX queue: locked, bulk, lockless |
//! | [`wire`] | packet headers: to read, change and build |
//! | [`segment`] | segments long frames |
//! | [`pcap`] | capture files: pcap and pcapng, compression, rotation, merging by time |
//! | [`session::capture`] | all queues of a port into one file, in order of time |
//! | [`session::count`] | packets by protocol, host, port, VLAN, flow and queue |
//! | [`session::forward`] | between two ports, or back through one with swapped addresses |
//! | [`session::Session`], [`session::monitor`] | one running job; its counters, from any thread |
//! | [`inspect`] | the queues of an interface and the CPUs behind them |
//! | [`halt`] | ends waiting for others, by hand or by signals |
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub(crate) mod checksum;
pub mod error;
pub mod frame;
pub mod halt;
#[doc(hidden)]
pub mod internal;
pub mod mask;
pub(crate) mod memory;
pub mod pool;
pub(crate) mod process;
pub mod qdisc;
mod remedy;
pub mod ring;
pub mod segment;
pub mod stats;
mod sync;

#[cfg(not(loom))]
pub mod filter;
#[cfg(not(loom))]
pub mod inspect;
#[cfg(not(loom))]
pub mod pipeline;
#[cfg(not(loom))]
pub mod port;
#[cfg(not(loom))]
pub mod session;
#[cfg(not(loom))]
pub(crate) mod threads;

pub use error::{Error, ErrorKind, Result};
pub use frame::{Batch, Frame};
pub use mask::{Class, QueueMask, QueueSet};
pub use pool::{Pool, PoolConfig};
#[cfg(not(loom))]
pub use port::steering::placement;
pub use wirelane_pcap as pcap;
/// Packet headers: to read, change and build them.
pub use wirelane_wire as wire;

/// Compiles the examples of the READMEs and of the library chapter.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Crate;
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
}
