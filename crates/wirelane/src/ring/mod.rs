//! Queues between threads: a channel for two, and a bulk ring for any number of each kind.
//!
//! | type | producers × consumers | use it for |
//! |---|---|---|
//! | [`channel()`] | 1 × 1, either may be dropped | packets and chunks from one thread to another |
//! | [`Ring`] | 1 or many × 1 or many, by type | queueing: bulk, reserve and commit, statistics |
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
//!
//! # How several handles share a side
//!
//! As in DPDK's `rte_ring`, a [`Multi`] side has two indices, on one line:
//!
//! ```text
//!            tail              head
//!             │                 │
//!   ┬───┬───┬─▼─┬───┬───┬───┬───▼───┬
//!   │ published │  A's  │ B's claim │   claim:   move the head by compare-and-swap
//!   ┴───┴───┴───┴───┴───┴───┴───────┴   publish: when the tail is where the claim starts,
//!                                                store its end there
//! ```
//!
//! So batches become visible in the order of their claims, and B waits for A. If A was preempted, B
//! yields the CPU instead of spinning; [`Ring::stats`] counts waits and the handles that caused
//! them. If A releases claimed slots, because a [`Reservation`] is partly filled or dropped, the
//! head moves back. If B has a later claim, A's slots become a hole that consumers skip.
//!
//! # Why no existing crate
//!
//! No crate has a multi-producer ring with bulk operations, reservations or stall detection;
//! crossbeam's `ArrayQueue` takes five to eight times as long per element at 32 per batch. For one
//! producer and one consumer, `rtrb` is about as fast (within a tenth for single elements, a fifth
//! behind at 32 per batch; compared by `cargo bench -p wirelane-bench --bench ring`). It would not
//! replace any code: the cursor also drives rings that a kernel maps, and `Single` is the same code
//! without the compare-and-swap.

mod bounded;
mod channel;
pub(crate) mod cursor;
mod handle;
mod side;
mod slots;
mod stats;

pub use bounded::{Dequeuer, Enqueuer, Reservation, Ring};
pub use channel::{Receiver, Sender, channel};
pub use side::{Multi, Side, Single};
pub use stats::{End, HandleStats};

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
