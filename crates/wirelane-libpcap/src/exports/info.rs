//! Properties and errors of a handle.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::io::Write;
use std::ptr;

use super::guard::{self, forward};
use crate::handle::{HandleState, PcapHandle};
use crate::live::LiveHandle;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_geterr(handle: *mut PcapHandle) -> *mut c_char {
    // SAFETY: the contract of pcap_geterr(3).
    unsafe { guard::with(handle, ptr::null_mut(), PcapHandle::error) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_perror(handle: *mut PcapHandle, prefix: *const c_char) {
    let prefix = if prefix.is_null() {
        c"(null)"
    } else {
        // SAFETY: a string, by the contract of pcap_perror(3).
        unsafe { CStr::from_ptr(prefix) }
    };
    let print = |handle: &PcapHandle| {
        let line = [prefix.to_bytes(), b": ", &handle.said(), b"\n"].concat();
        // A closed standard error loses the message.
        let _ = std::io::stderr().write_all(&line);
    };
    // SAFETY: the contract of pcap_perror(3).
    unsafe { guard::with(handle, (), print) }
}

/// Functions that return a number of an activated handle.
macro_rules! numbers {
    ($(fn $name:ident: $number:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(handle: *mut PcapHandle) -> c_int {
            let read = |handle: &PcapHandle| {
                forward!(handle, $name());
                // As in libpcap, a status without a text.
                handle.activated($number)
            };
            // SAFETY: a handle, by the contract of the function.
            unsafe { guard::status(handle, read) }
        }
    )*};
}

numbers! {
    fn pcap_snapshot: |live: &mut LiveHandle| live.options.snaplen;
    fn pcap_bufsize: |live: &mut LiveHandle| live.options.snaplen;
    fn pcap_datalink: |live: &mut LiveHandle| live.datalink();
    fn pcap_datalink_ext: |_: &mut LiveHandle| 0;
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_get_tstamp_precision(handle: *mut PcapHandle) -> c_int {
    let read = |handle: &PcapHandle| {
        forward!(handle, pcap_get_tstamp_precision());
        let precision = handle.with(|inner| match &inner.state {
            HandleState::Created(options, _) => options.precision.number(),
            HandleState::Live(live) => live.options.precision.number(),
            HandleState::Forwarded => 0,
        });
        precision.unwrap_or(0)
    };
    // SAFETY: the contract of pcap_get_tstamp_precision(3).
    unsafe { guard::status(handle, read) }
}
