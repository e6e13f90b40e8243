//! Savefiles, and handles without packets.
//!
//! The real library reads savefiles. Without it, Wirelane's `file:` port reads them.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use libc::FILE;

use super::create::{pcap_activate, pcap_close};
use super::guard::{self, forward};
use super::options::pcap_set_tstamp_precision;
use crate::abi::{ERRBUF_SIZE, timestamp};
use crate::device;
use crate::handle::PcapHandle;
use crate::live::HandleOptions;
use crate::real::{self, Pcap, Real, RealLibrary};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_open_offline(
    path: *const c_char,
    error: *mut c_char,
) -> *mut PcapHandle {
    // SAFETY: the contract of pcap_open_offline(3).
    unsafe { pcap_open_offline_with_tstamp_precision(path, MICROSECONDS, error) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_open_offline_with_tstamp_precision(
    path: *const c_char,
    precision: c_uint,
    error: *mut c_char,
) -> *mut PcapHandle {
    let open = |library: &'static RealLibrary, error| {
        // SAFETY: the contract of pcap_open_offline(3).
        unsafe { (library.pcap_open_offline_with_tstamp_precision)(path, precision, error) }
    };
    let open_ours = || {
        if path.is_null() {
            return Err("A null pointer was supplied as the file name".to_owned());
        }
        // SAFETY: a string, by contract.
        let path = unsafe { CStr::from_ptr(path) };
        open_port(path, precision)
    };
    // SAFETY: a buffer, by contract.
    unsafe { opened(error, open, open_ours) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_fopen_offline(
    file: *mut FILE,
    error: *mut c_char,
) -> *mut PcapHandle {
    // SAFETY: the contract of pcap_open_offline(3).
    unsafe { pcap_fopen_offline_with_tstamp_precision(file, MICROSECONDS, error) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_fopen_offline_with_tstamp_precision(
    file: *mut FILE,
    precision: c_uint,
    error: *mut c_char,
) -> *mut PcapHandle {
    let open = |library: &'static RealLibrary, error| {
        // SAFETY: the contract of pcap_open_offline(3).
        unsafe { (library.pcap_fopen_offline_with_tstamp_precision)(file, precision, error) }
    };
    let open_ours = || {
        if file.is_null() {
            return Err("Null FILE * pointer provided to savefile open routine".to_owned());
        }
        // SAFETY: an open stream, by contract, which is the handle's if that is opened. It is not
        // needed any more: the port has the file open.
        unsafe {
            let path = format!("/proc/self/fd/{}\0", libc::fileno(file));
            let path = CStr::from_bytes_with_nul(path.as_bytes()).unwrap_or(c"-");
            let handle = open_port(path, precision)?;
            libc::fclose(file);
            Ok(handle)
        }
    };
    // SAFETY: a buffer, by contract.
    unsafe { opened(error, open, open_ours) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_open_dead(link: c_int, snaplen: c_int) -> *mut PcapHandle {
    pcap_open_dead_with_tstamp_precision(link, snaplen, MICROSECONDS)
}

/// Null without the real library, which would compile for it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_open_dead_with_tstamp_precision(
    link: c_int,
    snaplen: c_int,
    precision: c_uint,
) -> *mut PcapHandle {
    let open = || {
        let library = real::library().ok()?;
        // SAFETY: takes numbers; only this function uses the handle.
        unsafe {
            let pcap = (library.pcap_open_dead_with_tstamp_precision)(link, snaplen, precision);
            Some(Box::into_raw(PcapHandle::of_real(Real::from_raw(library, pcap)?)))
        }
    };
    guard::alone(None, open).unwrap_or(ptr::null_mut())
}

/// Only savefiles have a stream.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_file(handle: *mut PcapHandle) -> *mut FILE {
    let read = |handle: &PcapHandle| {
        forward!(handle, pcap_file());
        ptr::null_mut()
    };
    // SAFETY: a handle, by the contract of pcap_file(3).
    unsafe { guard::with(handle, ptr::null_mut(), read) }
}

/// Fields of a savefile's header. A capture returns 0, or a status before activation.
macro_rules! of_header {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(handle: *mut PcapHandle) -> c_int {
            let read = |handle: &PcapHandle| {
                forward!(handle, $name());
                handle.activated(|_| 0)
            };
            // SAFETY: a handle, by the contract of the function.
            unsafe { guard::status(handle, read) }
        }
    )*};
}

of_header! { pcap_major_version pcap_minor_version pcap_is_swapped }

const MICROSECONDS: c_uint = timestamp::PRECISION_MICRO.cast_unsigned();

/// Opens with the real library if it is installed, else with `open_ours`. On failure, `error` gets
/// a text.
///
/// # Safety
/// `error` is null or has `PCAP_ERRBUF_SIZE` bytes.
unsafe fn opened(
    error: *mut c_char,
    open: impl FnOnce(&'static RealLibrary, *mut c_char) -> *mut Pcap,
    open_ours: impl FnOnce() -> Result<*mut PcapHandle, String>,
) -> *mut PcapHandle {
    let open = || {
        let Ok(library) = real::library() else {
            return open_ours().map_err(String::into_bytes);
        };
        let mut text: [c_char; ERRBUF_SIZE] = [0; ERRBUF_SIZE];
        // SAFETY: only this function uses the handle; the text ends in a NUL.
        unsafe {
            let pcap = open(library, text.as_mut_ptr());
            let Some(real) = Real::from_raw(library, pcap) else {
                return Err(CStr::from_ptr(text.as_ptr()).to_bytes().to_vec());
            };
            Ok(Box::into_raw(PcapHandle::of_real(real)))
        }
    };
    guard::alone(Err(b"a fault of Wirelane's libpcap".to_vec()), open).unwrap_or_else(|text| {
        // SAFETY: by contract.
        unsafe { guard::report(error, &text) };
        ptr::null_mut()
    })
}

/// Opens a savefile as a port.
fn open_port(path: &CStr, precision: c_uint) -> Result<*mut PcapHandle, String> {
    let name = OsStr::from_bytes(path.to_bytes());
    if path != c"-" {
        // Opening the file first gives libpcap's error text.
        std::fs::File::open(name).map_err(|error| plain(path, &error))?;
    }
    let opening = Box::new(device::savefile(name));
    let handle = Box::into_raw(PcapHandle::new(HandleOptions::new(path, &opening), opening));
    // SAFETY: the handle is open, and has no other owner.
    unsafe {
        pcap_set_tstamp_precision(handle, precision.cast_signed());
        if pcap_activate(handle) >= 0 {
            return Ok(handle);
        }
        let reason = (*handle).said();
        pcap_close(handle);
        Err(String::from_utf8_lossy(&reason).into_owned())
    }
}

/// `PATH: WHY`.
fn plain(path: &CStr, error: &io::Error) -> String {
    // SAFETY: a string that stays until the next call.
    let reason = unsafe { CStr::from_ptr(libc::strerror(error.raw_os_error().unwrap_or(0))) };
    format!("{}: {}", path.to_string_lossy(), reason.to_string_lossy())
}
