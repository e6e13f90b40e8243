//! Lists and sets choices: link types, time stamps, monitor mode.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs;
use std::ptr;

use super::guard::{self, forward};
use crate::abi::{status, timestamp};
use crate::handle::{HandleState, PcapHandle};
use crate::real::{self, Functions, Pcap, Real};

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_list_datalinks(
    handle: *mut PcapHandle,
    list: *mut *mut c_int,
) -> c_int {
    let write = |handle: &PcapHandle| {
        if let Some(real) = handle.real() {
            let Functions { pcap_list_datalinks: read, pcap_free_datalinks: free, .. } =
                **real.library;
            // SAFETY: by the contract of pcap_list_datalinks(3).
            return unsafe { give_copy(handle, real, read, free, list) };
        }
        let mut links = Vec::new();
        match handle.activated(|live| {
            links = live.links.list();
            0
        }) {
            // SAFETY: by the contract of pcap_list_datalinks(3).
            0 => unsafe { give(handle, &links, list) },
            status => status,
        }
    };
    // SAFETY: the contract of pcap_list_datalinks(3).
    unsafe { guard::status(handle, write) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_free_datalinks(list: *mut c_int) {
    // SAFETY: a copy of `give`, or null.
    unsafe { libc::free(list.cast()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_datalink(handle: *mut PcapHandle, link: c_int) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_set_datalink(link));
        let chosen = handle.with(|inner| match &mut inner.state {
            HandleState::Live(live) => live.links.choose(link),
            // libpcap compares with the 0 that the handle has before activation.
            HandleState::Created(..) | HandleState::Forwarded => link == 0,
        });
        match chosen {
            Some(true) => 0,
            _ => handle
                .fail(&format!("{} is not one of the DLTs supported by this device", name(link))),
        }
    };
    // SAFETY: the contract of pcap_set_datalink(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_list_tstamp_types(
    handle: *mut PcapHandle,
    list: *mut *mut c_int,
) -> c_int {
    let write = |handle: &PcapHandle| {
        if let Some(real) = handle.real() {
            let Functions { pcap_list_tstamp_types: read, pcap_free_tstamp_types: free, .. } =
                **real.library;
            // SAFETY: by the contract of pcap_list_tstamp_types(3).
            return unsafe { give_copy(handle, real, read, free, list) };
        }
        let mut types = handle
            .with(|inner| match &inner.state {
                HandleState::Created(options, _) => options.timestamp_types.clone(),
                HandleState::Live(live) => live.options.timestamp_types.clone(),
                HandleState::Forwarded => Vec::new(),
            })
            .unwrap_or_default();
        if types.is_empty() {
            types.push(timestamp::HOST);
        }
        // SAFETY: by the contract of pcap_list_tstamp_types(3).
        unsafe { give(handle, &types, list) }
    };
    // SAFETY: the contract of pcap_list_tstamp_types(3).
    unsafe { guard::status(handle, write) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_free_tstamp_types(list: *mut c_int) {
    // SAFETY: a copy of `give`, or null.
    unsafe { libc::free(list.cast()) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_can_set_rfmon(handle: *mut PcapHandle) -> c_int {
    let ask = |handle: &PcapHandle| {
        forward!(handle, pcap_can_set_rfmon());
        let can = handle.with(|inner| match &inner.state {
            HandleState::Created(_, opening) => opening.interface().is_some_and(has_monitor_mode),
            HandleState::Live(live) => live.interface.as_deref().is_some_and(has_monitor_mode),
            HandleState::Forwarded => false,
        });
        c_int::from(can == Some(true))
    };
    // SAFETY: the contract of pcap_can_set_rfmon(3).
    unsafe { guard::status(handle, ask) }
}

/// Whether it belongs to mac80211. libpcap then tries to add an interface in monitor mode.
fn has_monitor_mode(interface: &str) -> bool {
    fs::read_link(format!("/sys/class/net/{interface}/phy80211")).is_ok()
}

/// libpcap's name of a link type.
fn name(link: c_int) -> String {
    let known = real::library().ok().and_then(|library| {
        // SAFETY: takes a number, and gives a string that stays, or null.
        unsafe {
            let name = (library.pcap_datalink_val_to_name)(link);
            (!name.is_null()).then(|| std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    });
    known.unwrap_or_else(|| format!("DLT {link}"))
}

/// Gives the program a copy of a list of the real library, whose allocator may differ from the
/// program's.
///
/// # Safety
/// `list` is null or may be written. The functions are of that library: one gives a list and its
/// length, the other frees it.
unsafe fn give_copy(
    handle: &PcapHandle,
    real: &Real,
    read: unsafe extern "C-unwind" fn(*mut Pcap, *mut *mut c_int) -> c_int,
    free: unsafe extern "C-unwind" fn(*mut c_int),
    list: *mut *mut c_int,
) -> c_int {
    let mut theirs = ptr::null_mut();
    // SAFETY: by contract; the list has as many numbers as the library says.
    unsafe {
        let count = read(real.as_ptr(), &mut theirs);
        let (Ok(len), false) = (usize::try_from(count), theirs.is_null()) else { return count };
        let given = give(handle, std::slice::from_raw_parts(theirs, len), list);
        free(theirs);
        given
    }
}

/// Writes a copy of the numbers to `list`, which the program frees, and returns its length.
///
/// # Safety
/// `list` is null or may be written.
unsafe fn give(handle: &PcapHandle, numbers: &[c_int], list: *mut *mut c_int) -> c_int {
    if list.is_null() {
        return handle.fail("the pointer for the list is null");
    }
    // SAFETY: the copy has the room of all numbers; `list` may be written, by contract.
    unsafe {
        let copy: *mut c_int = libc::malloc(size_of_val(numbers)).cast();
        if copy.is_null() {
            return handle.refuse("malloc: Cannot allocate memory", status::ERROR);
        }
        copy.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len());
        list.write(copy);
    }
    c_int::try_from(numbers.len()).unwrap_or(c_int::MAX)
}
