//! The library: versions, texts, defaults.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use crate::call::{call, put_sized};
use crate::error::{ErrorValue, c_text};
use crate::options::OptionsValue;

/// The interface version of this header. It is incremented when programs must be recompiled. New
/// functions, and new fields at the end of structures with a size, do not increment it.
pub const WIRELANE_ABI_VERSION: u32 = 1;

/// The interface version of the loaded library, to compare with WIRELANE_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_abi_version() -> u32 {
    WIRELANE_ABI_VERSION
}

/// The version of the loaded library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A short, static text for a status.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_status_text(status: c_int) -> *const c_char {
    c_text(status).as_ptr()
}

/// Sets the options to the defaults: receive copies of all packets. `size` is
/// sizeof(wirelane_options).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_options_init(options: *mut OptionsValue, size: usize) -> c_int {
    // SAFETY: by contract of this function.
    unsafe { init("wirelane_options_init", options, size, false) }
}

/// Sets the options for forwarding. The port is promiscuous and can transmit. Packets arrive within
/// about a millisecond, as on the wire or marked for segmentation. The port does not receive the
/// host's own packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_options_forwarder(
    options: *mut OptionsValue,
    size: usize,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe { init("wirelane_options_forwarder", options, size, true) }
}

unsafe fn init(function: &str, options: *mut OptionsValue, size: usize, forward: bool) -> c_int {
    let no_error: *mut ErrorValue = std::ptr::null_mut();
    // SAFETY: by contract of the functions above.
    unsafe {
        call(function, no_error, || {
            let value = OptionsValue { size, ..OptionsValue::new(forward) };
            put_sized(options, size, value, "options is NULL, or its size is wrong")?;
            Ok(0)
        })
    }
}
