//! A handle of the real library.
#![allow(unsafe_code)]

use std::ptr::NonNull;

/// A `pcap_t` of the real library, of which we know nothing.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pcap {
    opaque: [u8; 0],
}

/// A handle of the real library. It is closed by who owns the handle that it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Real(pub(crate) NonNull<Pcap>);

// SAFETY: a pointer, which the real library allows to be used by one thread at a time.
unsafe impl Send for Real {}
// SAFETY: as above; `pcap_breakloop` alone may be called by others.
unsafe impl Sync for Real {}
