//! Creates, activates and closes handles.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::guard::{self, forward};
use super::options::{pcap_set_promisc, pcap_set_snaplen, pcap_set_timeout};
use crate::abi::{ERRBUF_SIZE, status};
use crate::device::{self, NamedDevice};
use crate::failure::PcapFailure;
use crate::handle::{HandleContents, HandleState, PcapHandle};
use crate::live::{self, Activation, HandleOptions, LiveHandle};
use crate::real::{self, Real, RealLibrary};
use wirelane_os::signal;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_create(
    device: *const c_char,
    error: *mut c_char,
) -> *mut PcapHandle {
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
pub(crate) unsafe extern "C" fn pcap_activate(handle: *mut PcapHandle) -> c_int {
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
) -> *mut PcapHandle {
    // SAFETY: the contract of pcap_open_live(3).
    unsafe {
        let handle = pcap_create(device, error);
        let Some(opened) = handle.as_ref() else { return handle };
        pcap_set_snaplen(handle, snaplen);
        pcap_set_promisc(handle, promiscuous);
        pcap_set_timeout(handle, timeout_ms);
        let status = pcap_activate(handle);
        if status >= 0 {
            return handle;
        }
        guard::report(error, &why_not(name(device), status, &opened.said()));
        pcap_close(handle);
        ptr::null_mut()
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_close(handle: *mut PcapHandle) {
    if handle.is_null() {
        return;
    }
    // SAFETY: made by `Box::into_raw`, and by the contract of pcap_close(3) not used any more.
    let handle = unsafe { Box::from_raw(handle) };
    let is_copy = handle.with(|inner| match &inner.state {
        HandleState::Live(live) => live.is_copy(),
        HandleState::Created(..) | HandleState::Forwarded => false,
    });
    if is_copy == Some(true) {
        // A child process closes its copy after fork; the parent still uses the rings.
        return std::mem::forget(handle);
    }
    // Several threads close the rings, too.
    let _quiet = signal::block();
    guard::alone((), || drop(handle));
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
unsafe fn create(device: *const c_char) -> Result<Box<PcapHandle>, String> {
    // SAFETY: by contract.
    let name = unsafe { name(device) };
    let find = || {
        // Load it now, while the program still has its root directory.
        let library = real::library();
        match device::find(OsStr::from_bytes(name.to_bytes()))? {
            NamedDevice::Port(opening) => {
                Ok(PcapHandle::new(HandleOptions::new(name, &opening), opening))
            }
            NamedDevice::Real => Ok(PcapHandle::of_real(create_real(library?, name)?)),
        }
    };
    guard::alone(Err("a fault of Wirelane's libpcap".to_owned()), find)
}

/// A handle of the real library that is not activated.
fn create_real(library: &'static RealLibrary, name: &CStr) -> Result<Real, String> {
    let mut error = [0; ERRBUF_SIZE];
    // SAFETY: a string, and room for a text; only this function uses the handle.
    unsafe {
        let pcap = (library.pcap_create)(name.as_ptr(), error.as_mut_ptr());
        Real::from_raw(library, pcap)
            .ok_or_else(|| CStr::from_ptr(error.as_ptr()).to_string_lossy().into_owned())
    }
}

/// Implements `pcap_activate`.
fn activate(handle: &PcapHandle) -> c_int {
    forward!(handle, pcap_activate());
    // Several threads open the rings; no handler of the program may interrupt them.
    let quiet = signal::block();
    let opened = handle.with(open);
    drop(quiet);
    match opened {
        Some(Ok(Activated::Ours(None))) => 0,
        Some(Ok(Activated::Ours(Some(warning)))) => handle.fail_with(&warning),
        Some(Ok(Activated::Real(real))) => {
            handle.become_real(real);
            activate(handle)
        }
        Some(Err(failure)) if failure.text.is_empty() => {
            let text = status::text(failure.status).unwrap_or_default();
            handle.refuse(&text.to_string_lossy(), failure.status)
        }
        Some(Err(failure)) => handle.fail_with(&failure),
        None => handle.fail("the signal interrupted a call that uses this handle"),
    }
}

/// The result of activation.
enum Activated {
    /// A capture of Wirelane, and perhaps a warning.
    Ours(Option<PcapFailure>),
    /// A handle of the real library before its activation.
    Real(Real),
}

/// Opens a capture with the configured options.
fn open(inner: &mut HandleContents) -> Result<Activated, PcapFailure> {
    let HandleState::Created(options, opening) = &inner.state else {
        let failure = PcapFailure::new("can't perform  operation on activated capture");
        return Err(failure.with_status(status::ERROR_ACTIVATED));
    };
    match live::examine(options, opening)? {
        Activation::Ours => {
            let (live, warning) = LiveHandle::open(options, opening)?;
            inner.state = HandleState::Live(live);
            Ok(Activated::Ours(warning))
        }
        Activation::Real => {
            let library = real::library().map_err(PcapFailure::new)?;
            let real = create_real(library, &options.device).map_err(PcapFailure::new)?;
            configure(&real, options);
            inner.state = HandleState::Forwarded;
            Ok(Activated::Real(real))
        }
    }
}

/// Applies the program's options.
fn configure(real: &Real, options: &HandleOptions) {
    let (library, pcap) = (real.library, real.as_ptr());
    // SAFETY: the handle is open and not activated. Options that it does not accept fail at
    // activation.
    unsafe {
        (library.pcap_set_snaplen)(pcap, options.snaplen);
        (library.pcap_set_promisc)(pcap, options.promiscuous.into());
        (library.pcap_set_rfmon)(pcap, options.monitor.into());
        (library.pcap_set_timeout)(pcap, options.timeout_ms);
        (library.pcap_set_immediate_mode)(pcap, options.immediate.into());
        (library.pcap_set_buffer_size)(pcap, options.buffer_size);
        (library.pcap_set_protocol_linux)(pcap, options.protocol);
        (library.pcap_set_tstamp_precision)(pcap, options.precision.number());
        if let Some(kind) = options.timestamp_type {
            (library.pcap_set_tstamp_type)(pcap, kind);
        }
        if options.nonblock {
            (library.pcap_setnonblock)(pcap, 1, [0; ERRBUF_SIZE].as_mut_ptr());
        }
    }
}

/// The error of `pcap_open_live`: the device, the status text, and the handle's text if there is
/// one.
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
