//! Ports: one interface opened through one backend.
//!
//! [`open()`] turns a [`Spec`] into a [`Port`]. The port hands out one [`Rx`] per queue and
//! class and one [`Tx`] per TX queue. It starts all of them together: it takes no packet before
//! every queue is ready. `Rx` and `Tx` are `Send` and not `Sync`: each belongs to one thread at a
//! time, and sharing one is a compile error instead of a data race. Threads share the port's
//! [`Control`], which changes the queue masks and stops the port.
//!
//! ```text
//!   Spec ──open──▶ Port ──rx()──▶ Rx, Rx, …   one per queue and class, each on some thread
//!                    │  ──tx()──▶ Tx, Tx, …   one per TX queue
//!                    └─control()─▶ Control    masks and stop, from any thread
//! ```
//!
//! No packet enters a ring before [`Port::start`]. After a stop the rings are drained; then every
//! `Rx` reports the end.
//!
//! `Rx` and `Tx` are separate objects, because their numbers differ: a capture needs RX, TX and
//! OTHER ends of each queue, and a forwarder needs RX and TX ends.
//!
//! A port that sends a frame in the memory of another port copies it, unless both ports use one
//! region of memory (`wirelane forward` on `xdp:`). [`TxStats`](crate::stats::TxStats) counts the
//! copies.

pub(crate) mod accounting;
pub(crate) mod control;
mod custom;
mod device;
pub(crate) mod drain;
pub mod file;
mod filtered;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod metadata;
pub(crate) mod number;
pub(crate) mod offload;
pub(crate) mod open;
mod options;
pub mod packet;
#[allow(clippy::module_inception, reason = "the type that all of it is about")]
mod port;
pub(crate) mod program_options;
mod rx;
pub mod sim;
mod spec;
pub(crate) mod steering;
mod tap;
pub(crate) mod tx;
pub mod xdp;

pub(crate) use self::accounting::Accounting;
pub use self::accounting::FrameCounts;
pub use self::control::Control;
pub use self::custom::custom;
pub(crate) use self::info::tell_apart;
pub use self::info::{Attempt, PortInfo, PortMode};
pub(crate) use self::metadata::discovered::DiscoveredInterfaces;
pub(crate) use self::metadata::file::{FileMetadata, MetadataQueue};
pub(crate) use self::metadata::interfaces::{InterfaceEntry, InterfaceTable};
pub(crate) use self::offload::gro;
pub(crate) use self::offload::switches::Switches;
pub use self::open::open;
pub use self::options::{OpenOptions, Take};
pub use self::port::Port;
pub use self::rx::{Readiness, Receive, Rx};
pub use self::spec::{Backend, Spec};
pub use self::steering::pairing::{ForwardPath, lanes};
pub(crate) use self::steering::xps::{XpsBindings, tx_queue_notes};
pub(crate) use self::steering::xps_binding::XpsBinding;
pub(crate) use self::steering::xps_watch::XpsWatch;
pub(crate) use self::tx::Transmit;
pub use self::tx::Tx;
