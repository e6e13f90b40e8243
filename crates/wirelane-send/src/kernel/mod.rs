//! Sending by the kernel itself: an XDP program writes each frame and redirects it out of the
//! interface.
//!
//! ```text
//!   Stream ─▶ program ─┐   BPF_PROG_TEST_RUN, live frames: one call, thousands of packets
//!                      ▼
//!   page pool ─▶ wait until due ─▶ headers, fields, checksums, signature ─▶ ndo_xdp_xmit ─▶ cable
//! ```
//!
//! No packet is copied and no system call is made for one, so it is many times as fast as sockets.
//! A program writes what [`Template::write`](wirelane_gen::template::Template::write) would write
//! for the same number, byte for byte, and a [signature](wirelane_gen::signature) with the time at
//! which it makes the frame. With a rate, the program itself waits for each packet's time.
//!
//! What to know about it:
//!
//! * The interface must transmit redirected frames (`ndo_xdp_xmit`). A veth does if its *peer* runs
//!   NAPI: the peer is up, and has an XDP program in native mode, or GRO on (`ethtool -K PEER gro
//!   on`). [`can`] asks the kernel, without sending anything.
//! * The program only knows what it handed over. What the interface drops then, because the ring
//!   behind it is full, is read from its statistics and not counted as sent.
//! * A veth delivers to the receive queue *CPU of the sender* modulo *receive queues of the peer*
//!   (`veth_select_rxq`), whatever is in the frame. A thread per CPU is the way to reach several.
//! * The receiver's NAPI runs on the sender's CPU, between two batches, until its consumer takes
//!   over.
//! * Several streams take turns of some hundred packets, each by a program of its own.
//! * It needs CAP_BPF and CAP_NET_ADMIN. Without CAP_SYS_ADMIN, too, each system call takes some
//!   20 ms longer.

mod anchor;
mod code;
mod field;
mod lane;
mod limits;
pub mod live;
mod probe;
mod program;
mod refusal;
mod sending;

pub use limits::{MAX_FRAME, MAX_HEAD, MAX_STREAMS};
pub use live::{LiveSender, Pace, STAMP_BYTES, Sending, Sent};
pub use probe::can;
pub use refusal::Refusal;
pub use sending::start;
