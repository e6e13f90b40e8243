//! The operating-system layer of Wirelane: system calls, mappings and the structures shared with
//! the Linux kernel.
//!
//! An implementation detail of Wirelane: its items are not a stable API, and may change in any
//! release.
//!
//! It contains mechanisms without policy. Every error names the call and the object
//! ([`error::OsError`]), every structure shared with the kernel has its size and offsets asserted
//! at compile time, and every kernel constant that `libc` lacks names the kernel version that
//! introduced it.
//!
//! Reading order: [`error`], [`mmap`], [`packet`], then the other modules as needed.
//!
//! Many calls act on the network namespace of the *calling thread* ([`netns`]). No call reads
//! `/sys/class/net` directly, because it shows the namespace that mounted it; see [`sysfs`].
#![allow(unsafe_code)]

pub mod affinity;
pub mod board;
pub mod bpf;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod error;
pub mod ethtool;
pub mod event;
pub mod file;
pub mod fork;
pub mod iface;
pub mod link;
pub mod machine;
pub mod memory;
pub mod mmap;
pub mod netdev;
pub mod netns;
pub mod packet;
pub mod privilege;
pub mod signal;
pub mod sysfs;
pub mod tun;
pub mod xdp;

mod netlink;
mod socket;

pub use error::{OsError, Result};

#[cfg(test)]
mod testing;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
