//! The functions of `pcap/pcap.h`, by group.
//!
//! Each checks its pointers and calls what does the work; no panic leaves them (`guard`).

mod create;
mod guard;
mod info;
mod lists;
mod options;
mod read;
