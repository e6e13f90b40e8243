//! Ports: one interface opened through one backend.
//!
//! A [`Port`] is opened from a [`Spec`], hands out one [`Rx`] per queue and class and one [`Tx`]
//! per TX queue, and starts them together, so that no packet is taken before every queue is
//! ready. `Rx` and `Tx` are `Send` and not `Sync`: each belongs to one thread at a time, and
//! sharing one is a compile error instead of a data race. What several threads may use, the
//! queue masks and the order to stop, is the port's [`Control`].
//!
//! ```text
//!   Spec ──open──▶ Port ──rx()──▶ Rx, Rx, …   one per queue and class, each on some thread
//!                    │  ──tx()──▶ Tx, Tx, …   one per TX queue
//!                    └─control()─▶ Control    masks and stop, from any thread
//! ```

mod accounting;
mod beside;
mod bundle;
mod control;
mod device;
pub(crate) mod drain;
pub mod file;
mod filtered;
pub(crate) mod gro;
mod growing;
pub mod gso;
mod info;
mod jumbo;
pub(crate) mod lanes;
mod limits;
mod manual;
mod number;
mod open;
mod options;
pub mod packet;
mod place;
mod places;
#[allow(clippy::module_inception, reason = "the type that all of it is about")]
mod port;
mod rx;
mod selection;
mod share;
mod sieve;
pub mod sim;
mod spec;
mod switches;
mod tap;
mod tx;
mod watch;
pub mod xdp;

pub use self::accounting::{Accounting, FrameCounts};
pub use self::beside::Beside;
pub(crate) use self::beside::Shelf;
pub(crate) use self::bundle::{Bundle, Strand};
pub use self::control::{Control, Passed};
pub(crate) use self::growing::Growing;
pub use self::info::{Attempt, Outcome, PortInfo, PortMode, tell_apart};
pub use self::lanes::{Lane, lanes};
pub use self::manual::{Manual, SpecOption};
pub use self::number::parse_number;
pub use self::open::{open, shared_memory};
pub use self::options::{Forwarding, OpenOptions, Take};
pub use self::place::TxPlace;
pub use self::places::{TxPlaces, tx_queue_notes};
pub use self::port::Port;
pub use self::rx::{Readiness, Receive, Rx};
pub use self::share::Share;
pub use self::spec::{Backend, Options, Spec};
pub use self::switches::{Offloads, Switches};
pub use self::tx::{Transmit, Tx};
pub use self::watch::TxWatch;
pub use crate::frame::Protocols;
