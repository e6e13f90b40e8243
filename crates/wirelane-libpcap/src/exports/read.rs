//! Reads packets, and ends reading.
//!
//! A C++ exception in a callback and thread cancellation unwind through these functions. They do
//! not use `guard`, which handles only Rust panics.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::ptr::{self, NonNull};

use super::guard::{self, forward};
use crate::abi::{Handler, PacketHeader, status};
use crate::handle::{HandleState, PcapHandle};
use crate::live::{PacketReader, ReadEnd, ReadRequest};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pcap_dispatch(
    handle: *mut PcapHandle,
    count: c_int,
    callback: Handler,
    user: *mut u8,
) -> c_int {
    // SAFETY: the contract of pcap_dispatch(3).
    let Some(handle) = (unsafe { handle.as_ref() }) else { return status::ERROR };
    forward!(handle, pcap_dispatch(count, callback, user));
    // SAFETY: as above.
    unsafe { dispatch(handle, count, callback, user) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pcap_loop(
    handle: *mut PcapHandle,
    count: c_int,
    callback: Handler,
    user: *mut u8,
) -> c_int {
    // SAFETY: the contract of pcap_loop(3).
    let Some(handle) = (unsafe { handle.as_ref() }) else { return status::ERROR };
    forward!(handle, pcap_loop(count, callback, user));
    // SAFETY: as above.
    unsafe { run(handle, count, callback, user) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pcap_next(
    handle: *mut PcapHandle,
    header: *mut PacketHeader,
) -> *const u8 {
    // SAFETY: the contract of pcap_next(3).
    let Some(handle) = (unsafe { handle.as_ref() }) else { return ptr::null() };
    forward!(handle, pcap_next(header));
    let mut bytes = ptr::null();
    let found = |found: &mut PacketHeader, place: &[u8]| {
        if !header.is_null() {
            // SAFETY: the contract of pcap_next(3).
            unsafe { header.write(*found) };
        }
        bytes = place.as_ptr();
    };
    // SAFETY: as above.
    unsafe { next(handle, found) };
    bytes
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pcap_next_ex(
    handle: *mut PcapHandle,
    header: *mut *mut PacketHeader,
    bytes: *mut *const u8,
) -> c_int {
    // SAFETY: the contract of pcap_next_ex(3).
    let Some(handle) = (unsafe { handle.as_ref() }) else { return status::ERROR };
    forward!(handle, pcap_next_ex(header, bytes));
    let found = |found: &mut PacketHeader, place: &[u8]| {
        // SAFETY: the contract of pcap_next_ex(3).
        unsafe {
            if !header.is_null() {
                header.write(found);
            }
            if !bytes.is_null() {
                bytes.write(place.as_ptr());
            }
        }
    };
    // SAFETY: as above.
    unsafe { next(handle, found) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_breakloop(handle: *mut PcapHandle) {
    // No lock, and nothing that may panic: a signal handler calls it.
    // SAFETY: the contract of pcap_breakloop(3).
    let Some(handle) = (unsafe { handle.as_ref() }) else { return };
    forward!(handle, pcap_breakloop());
    handle.breaker.raise();
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_getnonblock(
    handle: *mut PcapHandle,
    error: *mut c_char,
) -> c_int {
    let nonblock = |handle: &PcapHandle| {
        forward!(handle, pcap_getnonblock(error));
        let nonblock = handle.with_live(|live| live.options.nonblock);
        nonblock.map_or_else(|status| status, c_int::from)
    };
    // SAFETY: the contract of pcap_getnonblock(3).
    unsafe { guard::status(handle, nonblock) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_setnonblock(
    handle: *mut PcapHandle,
    nonblock: c_int,
    error: *mut c_char,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_setnonblock(nonblock, error));
        let set = handle.with(|inner| match &mut inner.state {
            HandleState::Created(options, _) => options.nonblock = nonblock != 0,
            HandleState::Live(live) => live.options.nonblock = nonblock != 0,
            HandleState::Forwarded => {}
        });
        if set.is_some() { 0 } else { status::ERROR }
    };
    // SAFETY: the contract of pcap_setnonblock(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_fileno(handle: *mut PcapHandle) -> c_int {
    let fileno = |handle: &PcapHandle| {
        forward!(handle, pcap_fileno());
        descriptor(handle)
    };
    // SAFETY: the contract of pcap_fileno(3).
    unsafe { guard::status(handle, fileno) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_get_selectable_fd(handle: *mut PcapHandle) -> c_int {
    let selectable = |handle: &PcapHandle| {
        forward!(handle, pcap_get_selectable_fd());
        descriptor(handle)
    };
    // SAFETY: the contract of pcap_get_selectable_fd(3).
    unsafe { guard::status(handle, selectable) }
}

/// Always null: the descriptor becomes readable in time.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_get_required_select_timeout(
    handle: *mut PcapHandle,
) -> *const libc::timeval {
    let timeout = |handle: &PcapHandle| {
        forward!(handle, pcap_get_required_select_timeout());
        ptr::null()
    };
    // SAFETY: the contract of pcap_get_required_select_timeout(3).
    unsafe { guard::with(handle, ptr::null(), timeout) }
}

/// Implements `pcap_dispatch`.
///
/// # Safety
/// The callback may be called with `user`, a header and its bytes.
unsafe fn dispatch(handle: &PcapHandle, count: c_int, callback: Handler, user: *mut u8) -> c_int {
    // SAFETY: by contract.
    match unsafe { read(handle, count, callback, user) } {
        Ok(ReadEnd::Read(n)) => c_int::try_from(n).unwrap_or(c_int::MAX),
        // A program that retries after 0 would loop for ever.
        Ok(ReadEnd::Broken | ReadEnd::End) => status::ERROR_BREAK,
        Ok(ReadEnd::Failed(why)) => handle.fail(&why),
        Err(status) => status,
    }
}

/// Implements `pcap_loop`.
///
/// # Safety
/// As [`dispatch`].
unsafe fn run(handle: &PcapHandle, count: c_int, callback: Handler, user: *mut u8) -> c_int {
    let mut left = count;
    loop {
        // SAFETY: by contract.
        match unsafe { read(handle, left, callback, user) } {
            Ok(ReadEnd::Read(n)) if count > 0 => {
                left = left.saturating_sub(c_int::try_from(n).unwrap_or(c_int::MAX));
                if left <= 0 {
                    return 0;
                }
            }
            Ok(ReadEnd::Read(_)) => {}
            Ok(ReadEnd::End) => return 0,
            Ok(ReadEnd::Broken) => return status::ERROR_BREAK,
            Ok(ReadEnd::Failed(why)) => return handle.fail(&why),
            Err(status) => return status,
        }
    }
}

/// Reads up to `count` packets. A count of 0 or less has no limit.
///
/// # Safety
/// As [`dispatch`].
unsafe fn read(
    handle: &PcapHandle,
    count: c_int,
    callback: Handler,
    user: *mut u8,
) -> Result<ReadEnd, c_int> {
    let count = if count <= 0 { c_int::MAX } else { count };
    let (reader, request) = reader(handle, count.unsigned_abs() as usize)?;
    let Some(callback) = callback else { return Err(handle.fail("no callback")) };
    // SAFETY: it lives as long as the handle, which is not closed while a thread reads.
    let reader = unsafe { reader.as_ref() };
    Ok(reader.read(request, &handle.breaker, |header, bytes| {
        // SAFETY: by contract; both live until it returns.
        unsafe { callback(user, header, bytes.as_ptr()) }
    }))
}

/// Reads one packet, and calls `found` with its header and bytes, which are valid until the next
/// call.
///
/// # Safety
/// The handle is open during the call.
unsafe fn next(handle: &PcapHandle, found: impl FnOnce(&mut PacketHeader, &[u8])) -> c_int {
    let outcome = reader(handle, 1).map(|(reader, request)| {
        // SAFETY: it stays as long as the handle.
        unsafe { reader.as_ref() }.read_one(request, &handle.breaker, found)
    });
    match outcome {
        Ok(ReadEnd::Read(n)) => c_int::try_from(n).unwrap_or(1),
        Ok(ReadEnd::Broken | ReadEnd::End) => status::ERROR_BREAK,
        Ok(ReadEnd::Failed(why)) => handle.fail(&why),
        Err(status) => status,
    }
}

/// The reader, which lives as long as the handle, and the request. Callbacks and other threads can
/// use the handle.
fn reader(
    handle: &PcapHandle,
    count: usize,
) -> Result<(NonNull<PacketReader>, ReadRequest), c_int> {
    handle.with_live(|live| {
        let (nonblock, timeout) = (live.options.nonblock, live.options.timeout_ms);
        (NonNull::from(live.reader()), ReadRequest { count, nonblock, insists: timeout == 0 })
    })
}

/// The descriptor of a capture. A handle that is not activated has none.
fn descriptor(handle: &PcapHandle) -> c_int {
    let found = handle.with(|inner| match &mut inner.state {
        HandleState::Live(live) => live.selectable(),
        HandleState::Created(..) | HandleState::Forwarded => Ok(status::ERROR),
    });
    match found {
        Some(Ok(fd)) => fd,
        Some(Err(failure)) => handle.fail_with(&failure),
        None => status::ERROR,
    }
}
