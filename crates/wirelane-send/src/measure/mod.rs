//! The receiving side of a measurement: what became of signed packets.
//!
//! ```text
//!   RX queue ─▶ Listener ─ signed? ─┬─ no ──▶ other
//!   (a thread each)                 └─ yes ─▶ seen before? ─▶ order ─▶ latency     per flow
//!                                             (a bit per packet, shared by all queues)
//! ```
//!
//! What is exact, and what can be known only in part:
//!
//! * **Received, lost and duplicated** are exact for every flow, whatever queues its packets come
//!   by: all queues mark the same bits, without locks ([`Expectation`] bounds the memory). Packets
//!   numbered beyond that are counted as [`beyond`](Arrivals::beyond).
//! * **Reordered** is as in RFC 4737: a packet that comes after one of a higher number. The order
//!   is that of one queue; nobody knows the order of packets in different queues.
//!   [`queues`](Arrivals::queues) says by how many a flow came. A late packet is not lost, and a
//!   copy of an earlier one counts as duplicated, not as reordered.
//! * **Latency** is from the departure that the packet carries to the time that the port gave it,
//!   where it gives one. Both are clocks of this machine.
//! * A packet of an **earlier trial** has another key, and is counted as [`stale`](Heard::stale).
mod clocks;
mod latency;
mod listener;
mod order;
mod receiver;
mod record;
mod seen;

pub use self::latency::Latency;
pub use self::receiver::{Progress, Receiver};
pub use self::record::{Arrivals, Heard};
pub use self::seen::Expectation;
