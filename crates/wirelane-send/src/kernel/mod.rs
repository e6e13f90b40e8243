//! The kernel engine: an XDP program writes each frame and redirects it out of the interface.
//!
//! ```text
//!   Stream ─▶ program ─┐   BPF_PROG_TEST_RUN, live frames: one call, thousands of packets
//!                      ▼
//!   page pool ─▶ wait until due ─▶ headers, fields, checksums, signature ─▶ ndo_xdp_xmit ─▶ cable
//! ```
//!
//! No packet needs a copy or a system call, so this engine is many times as fast as sockets. A
//! program writes the same bytes as [`Template::write`](wirelane_gen::template::Template::write)
//! for the same packet number, and a [signature](wirelane_gen::signature) with the time of the
//! packet. With a rate, the program itself waits for the departure times.
//!
//! Properties and limits:
//!
//! * The interface must transmit redirected frames (`ndo_xdp_xmit`). A veth does if its *peer* runs
//!   NAPI: the peer is up, and has an XDP program in native mode, or GRO on (`ethtool -K PEER gro
//!   on`). [`can`] asks the kernel, without sending anything.
//! * The program counts the frames that it redirects. The interface may then drop some of them
//!   because its ring is full. The engine reads these drops from the interface statistics, and does
//!   not count them as sent.
//! * A veth delivers to the receive queue *CPU of the sender* modulo *receive queues of the peer*
//!   (`veth_select_rxq`), independently of the frame's content. To reach several queues, use a
//!   thread per CPU.
//! * The receiver's NAPI runs on the sender's CPU, between two batches, until the receiving program
//!   takes over.
//! * Several streams take turns of some hundred packets. Each stream has a separate program.
//! * The engine needs CAP_BPF and CAP_NET_ADMIN. Without CAP_SYS_ADMIN, each system call takes
//!   about 20 ms longer.
//!
//! The frames are made by
//! [`BPF_PROG_TEST_RUN`](https://github.com/torvalds/linux/blob/v6.18/net/bpf/test_run.c). They
//! bypass queueing disciplines and packet sockets, and leave in bursts. `--engine auto` reports the
//! reason for its choice.

mod anchor;
mod code;
mod field;
mod lane;
mod limits;
mod live;
mod probe;
mod program;
mod refusal;
mod sending;

pub use limits::{MAX_FRAME, MAX_HEAD, MAX_STREAMS};
#[doc(hidden)]
pub use live::{LivePace, LiveSender, LiveSent, RunningSender, STAMP_BYTES};
pub use probe::can;
pub use refusal::KernelRefusal;
pub use sending::start;
