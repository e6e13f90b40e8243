//! A libpcap for unchanged programs: what they open is a port of Wirelane, on all of its queues.
//!
//! ```text
//!  program ─▶ exports ─▶ handle ─┬─▶ live: rings of all queues, merged by time
//!            (pcap.h)            └─▶ real: the system's libpcap, for savefiles, expressions, names,
//!                                          and devices that are no network interfaces
//! ```
//!
//! * [`abi`]: the types of `pcap/pcap.h`.
//! * `exports`: one file per group of functions; each checks its arguments and calls what does the
//!   work.
//! * `real`: the system's libpcap, found by its file and opened privately.
//! * `device`: from a device name to what is opened.
//! * `handle`: what a `pcap_t *` points to: created, live, or a handle of the real library.
//! * `live`: a capture: a port of ours, opened as the options say.
//! * `status`: what `wirelane stats` reads of a live handle.

// The names and the contracts are those of pcap.h, which documents them.
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
