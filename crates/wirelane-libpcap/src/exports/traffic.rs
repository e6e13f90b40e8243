//! Filters, directions, sending and statistics.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use wirelane_filter::Instruction;

use super::guard::{self, forward};
use crate::abi::{Program, Statistics, direction};
use crate::failure::PcapFailure;
use crate::handle::PcapHandle;
use crate::live::LiveHandle;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_setfilter(
    handle: *mut PcapHandle,
    program: *mut Program,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_setfilter(program));
        // SAFETY: null or a program, by the contract of pcap_setfilter(3).
        let Some(program) = (unsafe { program.as_ref() }) else {
            return done(handle, |_| Err(PcapFailure::new("setfilter: No filter specified")));
        };
        let copy = |insn: &libc::sock_filter| {
            let libc::sock_filter { code, jt, jf, k } = *insn;
            Instruction { code, jt, jf, k }
        };
        let instructions: Vec<_> = match program.instructions.is_null() {
            true => Vec::new(),
            // SAFETY: a program has so many instructions.
            false => unsafe {
                let len = program.len as usize;
                std::slice::from_raw_parts(program.instructions, len).iter().map(copy).collect()
            },
        };
        done(handle, |live| live.set_filter(&instructions).map(|()| 0))
    };
    // SAFETY: the contract of pcap_setfilter(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_setdirection(
    handle: *mut PcapHandle,
    wanted: c_uint,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_setdirection(wanted));
        match c_int::try_from(wanted) {
            Ok(wanted @ (direction::IN | direction::OUT | direction::INOUT)) => {
                done(handle, |live| live.set_direction(wanted).map(|()| 0))
            }
            _ => handle.fail("Invalid direction"),
        }
    };
    // SAFETY: the contract of pcap_setdirection(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_inject(
    handle: *mut PcapHandle,
    packet: *const c_void,
    len: usize,
) -> c_int {
    let send = |handle: &PcapHandle| {
        forward!(handle, pcap_inject(packet, len));
        let bytes = match c_int::try_from(len) {
            Err(_) => {
                let text = format!("More than {} bytes cannot be injected", c_int::MAX);
                return handle.fail(&refusal(&text));
            }
            Ok(0) => {
                return handle
                    .fail(&refusal("The number of bytes to be injected must not be zero"));
            }
            // SAFETY: so many bytes, by the contract of pcap_inject(3).
            Ok(_) => unsafe { bytes(packet.cast(), len) },
        };
        let sent = |sent| c_int::try_from(sent).unwrap_or(c_int::MAX);
        done(handle, |live| transmit(live, bytes).map(sent))
    };
    // SAFETY: the contract of pcap_inject(3).
    unsafe { guard::status(handle, send) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_sendpacket(
    handle: *mut PcapHandle,
    packet: *const u8,
    len: c_int,
) -> c_int {
    let send = |handle: &PcapHandle| {
        forward!(handle, pcap_sendpacket(packet, len));
        let bytes = match usize::try_from(len) {
            Ok(0) | Err(_) => {
                return handle.fail(&refusal("The number of bytes to be sent must be positive"));
            }
            // SAFETY: so many bytes, by the contract of pcap_sendpacket(3).
            Ok(len) => unsafe { bytes(packet, len) },
        };
        // A handle that is not activated returns 0, because libpcap checks only for -1.
        match done(handle, |live| transmit(live, bytes).map(|_| 0)) {
            -1 => -1,
            _ => 0,
        }
    };
    // SAFETY: the contract of pcap_sendpacket(3).
    unsafe { guard::status(handle, send) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_stats(
    handle: *mut PcapHandle,
    statistics: *mut Statistics,
) -> c_int {
    let read = |handle: &PcapHandle| {
        forward!(handle, pcap_stats(statistics));
        done(handle, |live| {
            let totals = live.totals()?;
            // SAFETY: null or a place for them, by the contract of pcap_stats(3).
            if let Some(statistics) = unsafe { statistics.as_mut() } {
                // The counters wrap, as in libpcap.
                *statistics = Statistics {
                    received: totals.received as c_uint,
                    dropped: totals.dropped as c_uint,
                    interface_dropped: totals.interface_dropped as c_uint,
                };
            }
            Ok(0)
        })
    };
    // SAFETY: the contract of pcap_stats(3).
    unsafe { guard::status(handle, read) }
}

/// # Safety
/// `start` is null or points to `len` bytes.
unsafe fn bytes<'a>(start: *const u8, len: usize) -> Option<&'a [u8]> {
    // SAFETY: by contract.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, len) })
}

/// Sends the packet; a null packet gives the error of the system call.
fn transmit(live: &mut LiveHandle, packet: Option<&[u8]>) -> Result<usize, PcapFailure> {
    live.send(packet.ok_or_else(|| PcapFailure::errno("send", libc::EFAULT))?)
}

/// libpcap's error for wrong lengths, with the current errno.
fn refusal(text: &str) -> String {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    PcapFailure::errno(text, errno).text
}

/// Runs `work` on the capture, and returns its result or the handle's status.
fn done(
    handle: &PcapHandle,
    work: impl FnOnce(&mut LiveHandle) -> Result<c_int, PcapFailure>,
) -> c_int {
    match handle.with_live(work) {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => handle.fail_with(&failure),
        Err(status) => status,
    }
}
