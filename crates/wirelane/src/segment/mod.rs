//! Segmentation in software: frames too long for the wire become packets, as late as possible.
//!
//! [Forwarding](crate::session::forward) segments and merges; [`SegmentStats`] and
//! [`CoalesceStats`] have its counters. This page describes the parts, which are not public.
//!
//! A stack passes frames of up to 64 KB with an [`Offload`](crate::frame::Offload), which has the
//! parameters of segmentation, like `virtio_net_hdr`. A `Segmenter` knows their
//! [`Sink`](crate::frame::Sink) and decides for each frame: pass, segment or refuse. A `Cursor`
//! then yields the packets one by one: copied with their checksums (`Cursor::copy`), or as a
//! header block and a part of the payload for a sink that accepts vectors (`Cursor::slice`;
//! `Cursor::slices` yields many at a time). When the sink is full, the cursor waits: no packet is
//! lost or sent twice.
//!
//! # Rules
//!
//! | field | rule | source |
//! |---|---|---|
//! | TCP sequence number | advances by the payload | RFC 9293 |
//! | PSH, FIN | on the last segment only | RFC 9293 |
//! | CWR | on the first only; with Accurate ECN on all | RFC 3168, RFC 9768 |
//! | URG and its pointer | as long as urgent data follow, counted from the segment | RFC 9293 |
//! | IPv4 identification | increments; fixed on request if DF allows it | RFC 6864 |
//! | UDP checksum | 0 becomes 0xffff; none stays none over IPv4 only | RFC 768, RFC 8200 |
//! | fragments | multiples of 8 bytes; options without copy flag only in the first; header chain whole in the first | RFC 791, RFC 8200, RFC 7112 |
//! | tunnels | lengths, identifications and checksums of every level | RFC 7348, 8926, 2784 |
//!
//! Options of TCP and IP, extension headers and VLAN tags are copied to every packet.
//!
//! `Coalescer` is the inverse: it merges packets into frames whose segments are the same packets.
//!
//! Frames that it cannot segment correctly are refused with a `Refusal`, and never sent.
//!
//! Segmentation takes place as late as possible, as in "GSO for FreeBSD" (Garzarella, 2014). A
//! `Cursor` has the template and a position. It does not borrow the frame, so both can wait while
//! the sink is full. It sums the payloads of a run of slices first, and then writes their
//! headers in a loop that is compiled for each kind of headers (`template/middle.rs`).
//!
//! The tests let the kernel segment the same frames (`tests/segment/oracle.rs`). The kernel differs
//! from the RFCs in fragments behind IPv6 extension headers. Urgent data, options of IPv4 fragments
//! and tunnels are compared with the RFCs instead (`tests/segment/rules.rs`).

pub(crate) mod coalesce;
pub(crate) mod cursor;
mod layout;
pub(crate) mod parameters;
pub(crate) mod segmenter;
pub(crate) mod stats;
mod template;

pub use coalesce::CoalesceStats;
pub(crate) use coalesce::{Alone, COALESCED, CoalesceCounters, Coalescer, Limits, Store};
pub(crate) use cursor::Cursor;
pub(crate) use segmenter::{Segmenter, Verdict};
pub(crate) use stats::SegmentCounters;
pub use stats::{ClassStats, ReasonStats, SegmentStats};
