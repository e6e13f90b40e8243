//! Queues between threads: a channel for two, and a bulk ring for any number of each kind.
//!
//! | type | producers × consumers | use it for |
//! |---|---|---|
//! | [`channel`] | 1 × 1, and either end may be gone | packets and chunks from one thread to another |
//! | [`Ring`] | 1 or many × 1 or many, by type | queueing: bulk, reserve and commit, statistics |
//!
//! All of them are arrays of a power-of-two number of slots between two free-running indices.
//! The producers own the slots `consumer + size ..` ahead of theirs, the consumers those behind
//! the producers' index. Each handle keeps a cached copy of the other side's index and reads the
//! shared one only when the cached copy promises too little (the watermark): in steady state one
//! cache line moves per batch, not per element.
//!
//! ```text
//!      consumer                producer
//!         │                       │
//!   ┌───┬─▼─┬───┬───┬───┬───┬───┬─▼─┬───┐   index & (size - 1) = slot
//!   │   │ ■ │ ■ │ ■ │ ■ │ ■ │ ■ │   │   │   ■ belongs to the consumer
//!   └───┴───┴───┴───┴───┴───┴───┴───┴───┘
//! ```

mod bounded;
mod channel;
pub(crate) mod cursor;
mod side;
mod slots;
mod stats;

pub use bounded::{Dequeuer, Enqueuer, Reservation, Ring};
pub use channel::{Receiver, Sender, channel, channel_at};
pub use side::{Multi, Side, Single};
pub use stats::{End, HandleStats};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
