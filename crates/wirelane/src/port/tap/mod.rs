//! `tap:IF`: a multi-queue TAP device, with the kernel's network stack at its other end.
//!
//! ```text
//!   kernel's TCP/IP ─▶ tap0, TX queue i ─▶ descriptor i ─▶ Rx i
//!   kernel's TCP/IP ◀─ tap0, RX queue i ◀─ descriptor i ◀─ Tx i
//! ```
//!
//! The port receives on queue i the packets that the kernel sends through queue i, and vice versa.
//! The device is created if missing, and removed with the port unless `persist=on`.
//!
//! If a forwarder accepts long frames, the kernel leaves segmentation and checksums to this port's
//! receiver: it sends frames of up to 64 KB, each with an
//! [`Offload`](crate::frame::Offload). In the other direction it always accepts such frames.
//!
//! If the stack sends faster than the program receives, the kernel drops packets (`txqueuelen`
//! packets per queue fit). It counts drops for all queues together: drops per queue are unknown,
//! and [`Port::diagnostics`](super::Port::diagnostics) reports the sum.
//!
//! The masks become a classic BPF program of the device, so that packets of queues that are not
//! selected never reach user space. A TAP device sees neither packets sent through this port (class
//! TX) nor packets without a queue (OTHER).
//!
#![doc = include_str!("options.md")]
//!
//! `gso_max=BYTES` also limits the long frames of the kernel's stack: it becomes the `gso_max_size`
//! of the device. [`Control::set_max_burst`](super::Control::set_max_burst) changes it.

mod config;
mod control;
mod losses;
mod open;
mod rx;
mod tx;

pub(super) use self::open::open;
