//! Handles of the real library that compile expressions for Wirelane's captures.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::NonNull;

use wirelane_filter::libpcap::{self, NO_FLAGS};

use super::functions::{Functions, Pcap};

/// The packets that a program is compiled for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompileTarget {
    /// `DLT_…`.
    pub(crate) link: c_int,
    pub(crate) snaplen: c_int,
    /// `PCAP_TSTAMP_PRECISION_…`.
    pub(crate) precision: c_int,
    /// Whether the program runs in the kernel, which removes the outer VLAN tag.
    pub(crate) in_kernel: bool,
}

/// A handle for [`CompileTarget`], which `pcap_close` closes. Null if memory runs out.
///
/// # Errors
/// The program is for the kernel, and this library cannot compile `vlan` for it.
pub(crate) fn open(functions: &Functions, target: &CompileTarget) -> Result<*mut Pcap, String> {
    let CompileTarget { link, snaplen, precision, in_kernel } = *target;
    // SAFETY: takes numbers. One that it does not know is as 0.
    let pcap = unsafe {
        (functions.pcap_open_dead_with_tstamp_precision)(link, snaplen, precision.cast_unsigned())
    };
    if let Some(handle) = NonNull::new(pcap).filter(|_| in_kernel) {
        // SAFETY: the handle is open, new, and of the one library that there is.
        let looks_beside =
            libpcap::library().map(|library| unsafe { library.look_beside(handle.cast()) });
        if !matches!(looks_beside, Ok(true)) {
            // SAFETY: it is open, and not used any more.
            unsafe { (functions.pcap_close)(pcap) };
            return Err(looks_beside.err().unwrap_or_else(|| NO_FLAGS.to_owned()));
        }
    }
    Ok(pcap)
}
