//! A channel between two threads, and a bulk ring for any number of producers and consumers.
//!
//! | type | producers × consumers | use it for |
//! |---|---|---|
//! | [`channel()`] | 1 × 1, either may be dropped | packets and chunks from one thread to another |
//! | `Ring` | 1 or many × 1 or many, by type | queueing: bulk, reserve and commit, statistics |
//!
//! Both are arrays of a power-of-two number of slots with two free-running indices. The producers
//! own the slots from their index up to `consumer + size`, the consumers the slots from their index
//! up to the producers'. Each handle keeps a cached copy of the other side's index and reads the
//! shared one only when the cached copy shows too few elements (the watermark). In steady state,
//! one cache line moves per batch instead of per element.
//!
//! ```text
//!      consumer                producer
//!         │                       │
//!   ┌───┬─▼─┬───┬───┬───┬───┬───┬─▼─┬───┐   index & (size - 1) = slot
//!   │   │ ■ │ ■ │ ■ │ ■ │ ■ │ ■ │   │   │   ■ belongs to the consumer
//!   └───┴───┴───┴───┴───┴───┴───┴───┴───┘
//! ```

pub(crate) mod bounded;
mod channel;
pub(crate) mod cursor;
mod handle;
pub(crate) mod side;
mod slots;
pub(crate) mod stats;

pub(crate) use bounded::{Dequeuer, Enqueuer, Ring};
pub use channel::{Receiver, Sender, channel};
pub(crate) use side::{Multi, Single};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
