//! Queues between threads: a channel for two, and a bulk ring for any number of each kind.
//!
//! | type | producers × consumers | use it for |
//! |---|---|---|
//! | [`channel()`] | 1 × 1, and either end may be gone | packets and chunks from one thread to another |
//! | [`Ring`] | 1 or many × 1 or many, by type | queueing: bulk, reserve and commit, statistics |
//!
//! All of them are arrays of a power-of-two number of slots between two free-running indices.
//! The producers own the slots `consumer + size ..` ahead of theirs, the consumers those behind
//! the producers' index. Each handle keeps a cached copy of the other side's index and reads the
//! shared one only when the cached copy shows too little (the watermark): in steady state one
//! cache line moves per batch, not per element.
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
//! So batches become visible in the order in which they were claimed, and B waits for A. When A
//! has been preempted, B gives the CPU away instead of spinning; [`Ring::stats`] says who waited
//! and who was waited for. When A gives up slots it has claimed, because a [`Reservation`] is cut
//! short or dropped, the head goes back; if B has claimed behind it, A's slots become a hole that
//! consumers step over.
//!
//! # Why a ring of our own
//!
//! No crate has a multi-producer ring with bulk operations, reservations or stall detection;
//! crossbeam's `ArrayQueue` takes five to eight times as long per element at 32 per batch. For one
//! producer and one consumer, `rtrb` is about as fast as ours (within a tenth for single elements,
//! a fifth behind at 32 per batch; `cargo bench -p wirelane-bench --bench ring` compares). It is
//! not used because what it would replace stays anyway: the cursor also drives rings that a kernel
//! maps, and `Single` is not other code but the same code without the compare-and-swap.

mod bounded;
mod channel;
pub(crate) mod cursor;
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
