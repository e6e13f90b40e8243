//! The functions of `pcap/pcap.h`, by group.
//!
//! Each checks its pointers and calls the implementation; `guard` catches panics.

mod bpf;
mod compile;
mod create;
mod devices;
mod dump;
mod facts;
mod guard;
mod info;
mod lists;
mod names;
mod offline;
mod options;
mod read;
mod traffic;
pub(crate) mod version;
