//! What a handle is, and what went wrong.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::ptr;

use super::guard;
use crate::handle::{Handle, State};
use crate::live::Live;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_geterr(handle: *mut Handle) -> *mut c_char {
    // SAFETY: the contract of pcap_geterr(3).
    unsafe { guard::with(handle, ptr::null_mut(), |handle| handle.error()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_perror(handle: *mut Handle, prefix: *const c_char) {
    let prefix = if prefix.is_null() {
        c"(null)"
    } else {
        // SAFETY: a string, by the contract of pcap_perror(3).
        unsafe { CStr::from_ptr(prefix) }
    };
    // SAFETY: the contract of pcap_perror(3).
    unsafe {
        guard::with(handle, (), |handle| {
            let line = [prefix.to_bytes(), b": ", &handle.said(), b"\n"].concat();
            // Who has no standard error gets no message.
            let _ = std::io::stderr().write_all(&line);
        });
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_snapshot(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_snapshot(3).
    unsafe { of_live(handle, |live| live.options.snaplen) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_bufsize(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_bufsize(3).
    unsafe { of_live(handle, |live| live.options.snaplen) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_datalink(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_datalink(3).
    unsafe { of_live(handle, |live| live.datalink()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_datalink_ext(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_datalink(3).
    unsafe { of_live(handle, |_| 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_is_swapped(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_is_swapped(3).
    unsafe { of_live(handle, |_| 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_major_version(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_major_version(3).
    unsafe { of_live(handle, |_| 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_minor_version(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_minor_version(3).
    unsafe { of_live(handle, |_| 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_file(_handle: *mut Handle) -> *mut libc::FILE {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_get_tstamp_precision(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_get_tstamp_precision(3).
    unsafe {
        guard::status(handle, |handle| {
            let precision = handle.with(|inner| match &inner.state {
                State::Created(options, _) => options.precision.number(),
                State::Live(live) => live.options.precision.number(),
                State::Forwarded => 0,
            });
            precision.unwrap_or(0)
        })
    }
}

/// A number of an activated handle. libpcap says nothing where it is none.
///
/// # Safety
/// As [`guard::status`].
unsafe fn of_live(handle: *mut Handle, number: impl FnOnce(&mut Live) -> c_int) -> c_int {
    // SAFETY: by contract.
    unsafe {
        guard::status(handle, |handle| handle.with_live(number).unwrap_or_else(|status| status))
    }
}
