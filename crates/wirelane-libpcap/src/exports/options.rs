//! What is set between `pcap_create` and `pcap_activate`.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::guard;
use crate::abi::{status, timestamp};
use crate::handle::Handle;
use crate::live::{Options, Precision};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_snaplen(handle: *mut Handle, snaplen: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_snaplen(3).
    unsafe { set(handle, |options| options.snaplen = snaplen) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_promisc(handle: *mut Handle, on: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_promisc(3).
    unsafe { set(handle, |options| options.promiscuous = on != 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_rfmon(handle: *mut Handle, on: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_rfmon(3).
    unsafe { set(handle, |options| options.monitor = on != 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_timeout(handle: *mut Handle, timeout_ms: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_timeout(3).
    unsafe { set(handle, |options| options.timeout_ms = timeout_ms) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_immediate_mode(handle: *mut Handle, on: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_immediate_mode(3).
    unsafe { set(handle, |options| options.immediate = on != 0) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_buffer_size(handle: *mut Handle, bytes: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_buffer_size(3).
    unsafe {
        set(handle, |options| {
            // Others are ignored without an error.
            if bytes > 0 {
                options.buffer_size = bytes;
            }
        })
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_protocol_linux(
    handle: *mut Handle,
    protocol: c_int,
) -> c_int {
    // SAFETY: the contract of pcap_set_protocol_linux(3).
    unsafe { set(handle, |options| options.protocol = protocol) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_tstamp_type(handle: *mut Handle, kind: c_int) -> c_int {
    // SAFETY: the contract of pcap_set_tstamp_type(3).
    unsafe {
        guard::status(handle, |handle| {
            let set = handle.with_options(|options| {
                let known = match options.timestamp_types.as_slice() {
                    [] => kind == timestamp::HOST,
                    types => types.contains(&kind),
                };
                if known {
                    options.timestamp_type = Some(kind);
                }
                known
            });
            match set {
                Ok(true) => 0,
                Ok(false) => status::WARNING_TSTAMP_TYPE_NOTSUP,
                Err(status) => status,
            }
        })
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_tstamp_precision(
    handle: *mut Handle,
    precision: c_int,
) -> c_int {
    // SAFETY: the contract of pcap_set_tstamp_precision(3).
    unsafe {
        guard::status(handle, |handle| {
            let precision = match precision {
                timestamp::PRECISION_MICRO => Some(Precision::Micro),
                timestamp::PRECISION_NANO => Some(Precision::Nano),
                _ => None,
            };
            let set = handle.with_options(|options| match precision {
                Some(precision) => {
                    options.precision = precision;
                    0
                }
                None => status::ERROR_TSTAMP_PRECISION_NOTSUP,
            });
            set.unwrap_or_else(|status| status)
        })
    }
}

/// Changes an option.
///
/// # Safety
/// As [`guard::status`].
unsafe fn set(handle: *mut Handle, change: impl FnOnce(&mut Options)) -> c_int {
    // SAFETY: by contract.
    unsafe {
        guard::status(handle, |handle| {
            handle.with_options(change).map_or_else(|status| status, |()| 0)
        })
    }
}
