//! A libpcap for unchanged programs: the devices that they open are ports of Wirelane, with all of
//! their queues.
//!
//! The stable API is pcap.h. The items for Rust are an implementation detail of Wirelane.
//!
//! ```text
//!  program ─▶ exports ─▶ handle ─┬─▶ live: rings of all queues, merged by time
//!            (pcap.h)            └─▶ real: the system's libpcap, for savefiles, expressions, names,
//!                                          and devices that are no network interfaces
//! ```
//!
//! * [`abi`]: the types of `pcap/pcap.h`.
//! * `exports`: one file per group of functions; each checks its arguments and calls the
//!   implementation.
//! * `real`: the system's libpcap, found by its file name and loaded privately.
//! * `device`: resolves device names to ports.
//! * `handle`: the object behind a `pcap_t *`: created, live, or a handle of the real library.
//! * `live`: a capture: a port, opened with the program's options.
//! * `status`: the counters of a live handle for `wirelane stats`.
//!
//! A program that opens an interface gets a passive `packet:` port on all of its queues.
//! `pcap_compile` gives the same programs as before, since the system's libpcap compiles them.
//!
//! A handle belongs to one thread. But signal handlers and other threads break loops, callbacks use
//! their handle, and C++ exceptions, `longjmp` and `pthread_cancel` leave a callback in the middle.
//! So this library holds no lock and no borrow during a callback, and saves its state before it.
//!
//! The library starts no thread and creates no file or socket: a program may fork, change its user,
//! its root directory or its system calls, or close descriptors. A forked child that reads packets
//! makes a separate board.

// pcap.h documents the names and contracts.
#![allow(clippy::missing_safety_doc)]

pub mod abi;
mod breaker;
mod device;
mod exports;
mod failure;
mod handle;
mod live;
mod lock;
mod real;
mod status;
mod text;
