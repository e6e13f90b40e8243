//! Replaces libpcap on systems other than Linux.

use std::ffi::CStr;

use crate::instruction::Instruction;

/// The advice for systems without libpcap.
pub const INSTALL: &str = "compile the expression on Linux, with `tcpdump -ddd`";

/// Why a handle cannot be made to compile for the kernel's view.
pub const NO_FLAGS: &str = "there is no kernel that takes tags out of packets";

/// libpcap on systems without it: no value exists.
#[derive(Debug)]
pub enum Libpcap {}

/// Where a program finds the outer VLAN tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// In its bytes, as in a capture file.
    Bytes,
    /// Beside it, as in the kernel's filter of a socket.
    Kernel,
}

/// The library of this system.
///
/// # Errors
/// Always.
pub fn library() -> Result<&'static Libpcap, String> {
    Err("this system has none".to_owned())
}

impl Libpcap {
    /// Never called.
    ///
    /// # Errors
    /// Not reachable.
    pub fn compile(
        &self,
        _expression: &CStr,
        _link: (i32, View),
        _snaplen: i32,
        _optimize: bool,
    ) -> Result<Vec<Instruction>, String> {
        match *self {}
    }
}
