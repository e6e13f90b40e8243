//! The receiving side of a measurement: counts signed packets and their loss, order and latency.
//!
//! ```text
//!   RX queue ─▶ Listener ─ signed? ─┬─ no ──▶ other
//!   (a thread each)                 └─ yes ─▶ seen before? ─▶ order ─▶ latency     per flow
//!                                             (a bit per packet, shared by all queues)
//! ```
//!
//! Precision of the results:
//!
//! * **Received, lost and duplicated** are exact for every flow, even if its packets arrive in
//!   several queues: all queues mark the same bits, without locks. [`Expectation`] bounds the
//!   memory. Packets with larger sequence numbers are counted as [`beyond`](Arrivals::beyond).
//! * **Reordered** is defined by RFC 4737: a packet that arrives after one with a higher sequence
//!   number. It is measured within each queue, as the order between queues is unknown.
//!   [`queues`](Arrivals::queues) is the number of queues that received the flow. A late packet
//!   does not count as lost. A copy of an earlier packet counts as duplicated and not as reordered.
//! * **Latency** is the time from the departure stamped in the packet to the timestamp of the
//!   receiving port, or to the inspection if the port has no timestamps. Both use clocks of this
//!   machine.
//! * A packet of the **previous trial** has another key, and is counted as [`stale`](Heard::stale).
mod clocks;
mod latency;
mod listener;
mod order;
mod receiver;
mod record;
mod seen;

pub use self::latency::Latency;
pub use self::receiver::{MeasureProgress, SignedReceiver};
pub use self::record::{Arrivals, Heard};
pub use self::seen::Expectation;
