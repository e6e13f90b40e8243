//! `tap:IF`: a multi-queue TAP device, with the kernel's own stack at its other end.
//!
//! ```text
//!   kernel's TCP/IP ─▶ tap0, TX queue i ─▶ descriptor i ─▶ Rx i
//!   kernel's TCP/IP ◀─ tap0, RX queue i ◀─ descriptor i ◀─ Tx i
//! ```
//!
//! Packets that the kernel sends through queue i are received here on queue i, and the other way
//! round. The device is created if missing, and removed with the port unless `persist=on`.
//!
//! With [`Forwarding::offload`](super::Forwarding::offload) the kernel leaves segmentation and
//! checksums to the receiver here: it sends frames of up to 64 KB, each with an
//! [`Offload`](crate::frame::Offload). In the other direction it always takes such frames.
//!
//! If the stack sends faster than the program receives, the kernel drops packets (`txqueuelen`
//! packets per queue fit). It counts drops for all queues together: no queue knows its own, and
//! [`Port::diagnostics`](super::Port::diagnostics) reports the sum.
//!
//! The masks become a classic BPF program of the device, so that a packet of a queue that is not
//! selected never reaches user space. A TAP device sees neither what is sent here (class TX) nor
//! packets without a queue (OTHER).
//!
#![doc = include_str!("options.md")]
//!
//! `gso_max=BYTES` also bounds the frames that
//! the kernel's stack makes for us to cut: it becomes the `gso_max_size` of the device.

mod config;
mod control;
mod losses;
mod open;
mod rx;
mod tx;

pub(super) use self::open::open;
