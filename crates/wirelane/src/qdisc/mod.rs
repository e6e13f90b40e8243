//! Queueing disciplines: between any number of producers and one TX queue.
//!
//! The 2014 qdisc paper ("Qdisc layer: fast enough for 10G wirespeed?") counts the lock operations
//! of Linux's transmit path: six for every packet, which take 48 of the 67.2 ns of a minimum frame
//! at 10 Gbit/s. This module implements that path and the paper's alternatives:
//!
//! | discipline | path | lock operations |
//! |---|---|---|
//! | `noqueue` | into the TX ring, under the TX lock | 2 per batch; `noqueue:1`: 2 per frame |
//! | `fifo` | root lock, TX lock, one frame per dequeue | 6 per frame |
//! | `bulk` | the same with up to n frames per dequeue | 2 + 4/n per frame |
//! | `pfifo_fast` | as `bulk`, in three bands: control, all others, bulk | 2 + 4/n per frame |
//! | `lockless` | a ring for many producers; bypassed while it is empty | none |
//!
//! ```text
//!   producer ─ send ─┐
//!   producer ─ send ─┼─▶ Qdisc ─▶ run, by whichever producer finds it idle ─▶ TX ring
//!   producer ─ send ─┘
//! ```
//!
//! A discipline has no thread: as in the kernel's `qdisc_run`, a producer that finds the queue idle
//! runs it, for the others as well.
//!
//! A [forwarder](crate::session::forward) puts a discipline in front of every TX queue: an `Egress`
//! joins both, and every receiving thread is a producer. [`QueueSelection`] spreads flows over the
//! TX queues. Frames that cannot be queued are counted under a reason and returned to their owners.
//!
//! [`QdiscSpec::bql`] keeps the TX ring as short as possible, [`QdiscSpec::small_queue`] prevents
//! one producer from filling the queue, and [`QdiscStats`] has the counters.

pub(crate) mod handover;
mod limit;
pub(crate) mod lock;
pub(crate) mod run;
mod small_queue;
pub(crate) mod stats;
pub(crate) mod stop_wake;

#[cfg(not(loom))]
mod bands;
mod bulk;
#[cfg(not(loom))]
mod discipline;
#[cfg(not(loom))]
pub(crate) mod egress;
#[cfg(not(loom))]
mod fifo;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod lockless;
#[cfg(not(loom))]
mod noqueue;
#[cfg(not(loom))]
mod selection;
#[cfg(not(loom))]
mod spec;

pub use self::stats::{QdiscDropped, QdiscStats};
#[cfg(not(loom))]
pub(crate) use self::{
    egress::{Egress, EgressGauge},
    selection::{Egresses, Producer},
};
#[cfg(not(loom))]
pub use self::{
    selection::QueueSelection,
    spec::{QdiscKind, QdiscSpec},
};

#[cfg(all(test, not(loom)))]
mod tests;
