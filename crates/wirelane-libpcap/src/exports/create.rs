//! From a device to an activated handle, and its end.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::guard;
use crate::abi::status;
use crate::device::{self, Device};
use crate::handle::{Handle, Inner, State};
use crate::live::{self, Activation, Live, Options};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_create(
    device: *const c_char,
    error: *mut c_char,
) -> *mut Handle {
    // SAFETY: the contract of pcap_create(3).
    unsafe {
        match create(device) {
            Ok(handle) => Box::into_raw(handle),
            Err(text) => {
                guard::report(error, text.as_bytes());
                ptr::null_mut()
            }
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_activate(handle: *mut Handle) -> c_int {
    // SAFETY: the contract of pcap_activate(3).
    unsafe { guard::status(handle, activate) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_open_live(
    device: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout_ms: c_int,
    error: *mut c_char,
) -> *mut Handle {
    // SAFETY: the contract of pcap_open_live(3).
    unsafe {
        let handle = pcap_create(device, error);
        let Some(opened) = handle.as_ref() else { return handle };
        let status = guard::status(handle, |handle| {
            let set = handle.with_options(|options| {
                options.snaplen = snaplen;
                options.promiscuous = promiscuous != 0;
                options.timeout_ms = timeout_ms;
            });
            set.map_or_else(|status| status, |()| activate(handle))
        });
        if status >= 0 {
            return handle;
        }
        guard::report(error, &why_not(name(device), status, &opened.said()));
        pcap_close(handle);
        ptr::null_mut()
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_close(handle: *mut Handle) {
    if handle.is_null() {
        return;
    }
    // SAFETY: made by `Box::into_raw`, and by the contract of pcap_close(3) nobody uses it any more.
    let handle = unsafe { Box::from_raw(handle) };
    guard::alone((), || drop(handle.into_state()));
}

/// The name of a device; a null name means every interface.
///
/// # Safety
/// It is null or a string.
unsafe fn name<'a>(device: *const c_char) -> &'a CStr {
    if device.is_null() {
        return c"any";
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(device) }
}

/// # Safety
/// As [`name`].
unsafe fn create(device: *const c_char) -> Result<Box<Handle>, String> {
    // SAFETY: by contract.
    let name = unsafe { name(device) };
    let find = || match device::find(OsStr::from_bytes(name.to_bytes()))? {
        Device::Port(opening) => Ok(Handle::new(Options::new(name), opening)),
        Device::Real => Err(format!("{}: no such device", name.to_string_lossy())),
    };
    guard::alone(Err("a fault of Wirelane's libpcap".to_owned()), find)
}

/// What `pcap_activate` does.
fn activate(handle: &Handle) -> c_int {
    let activated = handle.with(|inner| open(inner));
    match activated {
        Some(Ok(None)) => 0,
        Some(Ok(Some(warning))) => handle.fail_with(&warning),
        Some(Err(failure)) if failure.text.is_empty() => {
            let text = status::text(failure.status).unwrap_or_default();
            handle.refuse(&text.to_string_lossy(), failure.status)
        }
        Some(Err(failure)) => handle.fail_with(&failure),
        None => handle.fail("the handle is in use by what this signal has interrupted"),
    }
}

/// Makes a capture of what was configured; a warning if there is one.
fn open(inner: &mut Inner) -> Result<Option<crate::failure::Failure>, crate::failure::Failure> {
    let State::Created(options, opening) = &inner.state else {
        return Err(crate::failure::Failure::new("can't perform  operation on activated capture")
            .with_status(status::ERROR_ACTIVATED));
    };
    match live::examine(options, opening)? {
        Activation::Ours => {
            let (live, warning) = Live::open(options, opening)?;
            inner.state = State::Live(live);
            Ok(warning)
        }
        Activation::Real => Err(crate::failure::Failure::new("only the real library opens it")),
    }
}

/// What `pcap_open_live` says when it fails: the device, the status, and what more there is to say.
fn why_not(device: &CStr, status: c_int, said: &[u8]) -> Vec<u8> {
    let with_text = [
        status::ERROR_NO_SUCH_DEVICE,
        status::ERROR_PERM_DENIED,
        status::ERROR_PROMISC_PERM_DENIED,
    ];
    let text = status::text(status).unwrap_or_default().to_bytes();
    let mut why = [device.to_bytes(), b": "].concat();
    if status == status::ERROR {
        why.extend_from_slice(said);
    } else {
        why.extend_from_slice(text);
        if with_text.contains(&status) && !said.is_empty() {
            why.extend_from_slice(b" (");
            why.extend_from_slice(said);
            why.push(b')');
        }
    }
    why
}
