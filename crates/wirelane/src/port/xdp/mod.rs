//! The `xdp:` port: AF_XDP sockets, one per queue, and the XDP program that feeds them.

pub mod management;
pub mod program;
