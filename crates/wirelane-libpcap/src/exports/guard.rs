//! Guards calls from C: null pointers and panics become errors.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::status;
use crate::handle::PcapHandle;
use crate::text::ErrorText;

/// Forwards the call if the handle belongs to the real library.
macro_rules! forward {
    ($handle:expr, $function:ident($($argument:expr),*)) => {
        if let Some(real) = $handle.real() {
            // SAFETY: the handle is open, and the other arguments are the program's, by the same
            // contract.
            return unsafe { (real.library.$function)(real.as_ptr(), $($argument),*) };
        }
    };
}
pub(super) use forward;

/// Runs `body` with the handle. Returns `failed` for a null handle, which crashes libpcap, and
/// after a panic.
///
/// # Safety
/// The handle is null, or a handle of this library that is not closed.
pub(super) unsafe fn with<R>(
    handle: *mut PcapHandle,
    failed: R,
    body: impl FnOnce(&PcapHandle) -> R,
) -> R {
    // SAFETY: by contract.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return failed };
    catch_unwind(AssertUnwindSafe(|| body(handle))).unwrap_or_else(|_| {
        handle.say(PANIC);
        failed
    })
}

/// [`with`] for functions that return a status.
///
/// # Safety
/// As there.
pub(super) unsafe fn status(
    handle: *mut PcapHandle,
    body: impl FnOnce(&PcapHandle) -> c_int,
) -> c_int {
    // SAFETY: by contract.
    unsafe { with(handle, status::ERROR, body) }
}

/// Runs `body` without a handle. Returns `failed` after a panic.
pub(super) fn alone<R>(failed: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failed)
}

/// Puts `text` into a buffer of the program, of `PCAP_ERRBUF_SIZE` bytes.
///
/// # Safety
/// The buffer is null or has that size.
pub(super) unsafe fn report(buffer: *mut c_char, text: &[u8]) {
    if buffer.is_null() {
        return;
    }
    let mut error = ErrorText::new();
    error.set_bytes(text);
    // SAFETY: by contract, and both have the same size.
    unsafe { error.copy_to(buffer) }
}

/// The text for `pcap_geterr` after a panic.
const PANIC: &str = "a fault of Wirelane's libpcap; the message is on standard error";
