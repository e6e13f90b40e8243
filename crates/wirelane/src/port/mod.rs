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
//! Two ports that are opened with one region ([`shared_memory`]) register the same memory
//! separately, so each has its own mode. A frame in other memory is copied and counted as `copied`.

mod accounting;
mod control;
mod device;
pub(crate) mod drain;
pub mod file;
mod filtered;
mod help;
mod info;
mod metadata;
mod number;
mod offload;
mod open;
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
mod tx;
pub mod xdp;

pub use self::accounting::{Accounting, FrameCounts};
pub use self::control::{Control, Passed};
pub use self::help::{BackendHelp, SpecOption};
pub use self::info::{Attempt, Outcome, PortInfo, PortMode, tell_apart};
pub(crate) use self::metadata::discovered::DiscoveredInterfaces;
pub use self::metadata::file::FileMetadata;
pub(crate) use self::metadata::file::MetadataQueue;
pub(crate) use self::metadata::interfaces::{InterfaceEntry, InterfaceTable};
pub use self::number::parse_number;
pub(crate) use self::offload::gro;
pub use self::offload::gso;
pub use self::offload::switches::{Offloads, Switches};
pub use self::open::{open, shared_memory};
pub use self::options::{OpenOptions, Take};
pub use self::port::Port;
pub use self::rx::{Readiness, Receive, Rx};
pub use self::spec::{Backend, Options, Spec};
pub use self::steering::pairing::{Lane, lanes};
pub use self::steering::xps::{XpsBindings, tx_queue_notes};
pub use self::steering::xps_binding::XpsBinding;
pub use self::steering::xps_watch::XpsWatch;
pub use self::tx::{Transmit, Tx};
