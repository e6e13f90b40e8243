//! Handles of the real library that only compile, for a capture of ours.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::NonNull;

use wirelane_os::pcap::{self, NO_FLAGS};

use super::functions::{Functions, Pcap};

/// What programs are compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// `DLT_…`.
    pub(crate) link: c_int,
    pub(crate) snaplen: c_int,
    /// `PCAP_TSTAMP_PRECISION_…`.
    pub(crate) precision: c_int,
    /// Whether they see packets as the kernel does, which has taken the VLAN tag out.
    pub(crate) in_kernel: bool,
}

/// A handle for [`Target`], to be closed by `pcap_close`. Null without memory.
///
/// # Errors
/// The programs are for the kernel's view, and this library cannot be made to compile `vlan` for
/// it.
pub(crate) fn open(functions: &Functions, target: &Target) -> Result<*mut Pcap, String> {
    let Target { link, snaplen, precision, in_kernel } = *target;
    // SAFETY: takes numbers. One that it does not know is as 0.
    let pcap = unsafe {
        (functions.pcap_open_dead_with_tstamp_precision)(link, snaplen, precision.cast_unsigned())
    };
    if let Some(handle) = NonNull::new(pcap).filter(|_| in_kernel) {
        // SAFETY: the handle is open, new, and of the one library that there is.
        let looks_beside =
            pcap::library().map(|library| unsafe { library.look_beside(handle.cast()) });
        if !matches!(looks_beside, Ok(true)) {
            // SAFETY: it is open, and not used any more.
            unsafe { (functions.pcap_close)(pcap) };
            return Err(looks_beside.err().unwrap_or_else(|| NO_FLAGS.to_owned()));
        }
    }
    Ok(pcap)
}
