//! Lists devices and their networks.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::guard;
use super::version::is_initialized;
use crate::abi::{Interface, status};
use crate::device;
use crate::failure::PcapFailure;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_findalldevs(
    devices: *mut *mut Interface,
    error: *mut c_char,
) -> c_int {
    let find = || {
        let found = device::list()?;
        device::to_list(&found).ok_or_else(|| PcapFailure::errno("malloc", libc::ENOMEM))
    };
    let found = guard::alone(Err(fault()), find);
    // SAFETY: the contract of pcap_findalldevs(3).
    unsafe {
        if let Some(devices) = devices.as_mut() {
            *devices = *found.as_ref().unwrap_or(&ptr::null_mut());
        }
        match found {
            Ok(_) if !devices.is_null() => 0,
            Ok(list) => {
                device::free(list);
                status::ERROR
            }
            Err(failure) => refuse(error, &failure),
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_freealldevs(devices: *mut Interface) {
    // SAFETY: the contract of pcap_freealldevs(3).
    unsafe { device::free(devices) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_lookupdev(error: *mut c_char) -> *mut c_char {
    let look = || {
        if is_initialized() {
            let text = "pcap_lookupdev() is deprecated and is not supported in programs calling \
                        pcap_init()";
            return Err(PcapFailure::new(text));
        }
        let devices = device::list()?;
        let first = devices.into_iter().next().filter(|device| !device.is_loopback());
        first.ok_or_else(|| PcapFailure::new("no suitable device found"))
    };
    match guard::alone(Err(fault()), look) {
        // SAFETY: the contract of pcap_lookupdev(3): it is not called by two threads at once.
        Ok(device) => unsafe { DEFAULT.set(device.name()) },
        Err(failure) => {
            // SAFETY: as above, a buffer for the text.
            unsafe { refuse(error, &failure) };
            ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_lookupnet(
    device: *const c_char,
    network: *mut u32,
    netmask: *mut u32,
    error: *mut c_char,
) -> c_int {
    // SAFETY: the contract of pcap_lookupnet(3).
    unsafe {
        let name = if device.is_null() { c"any" } else { CStr::from_ptr(device) };
        match guard::alone(Err(fault()), || device::network(name)) {
            Ok(found) => {
                for (to, number) in [(network, found.0), (netmask, found.1)] {
                    if let Some(to) = to.as_mut() {
                        *to = number;
                    }
                }
                0
            }
            Err(failure) => refuse(error, &failure),
        }
    }
}

/// The result of `pcap_lookupdev`, valid until the next call.
struct Default(UnsafeCell<[c_char; Default::SIZE]>);

static DEFAULT: Default = Default(UnsafeCell::new([0; Default::SIZE]));

// SAFETY: by the contract of pcap_lookupdev(3) one thread uses it at a time.
unsafe impl Sync for Default {}

impl Default {
    /// The size in libpcap: an interface name and one more byte.
    const SIZE: usize = libc::IFNAMSIZ + 1;

    /// Stores a name, truncated to the size.
    ///
    /// # Safety
    /// No other thread uses it.
    unsafe fn set(&self, name: &CStr) -> *mut c_char {
        let mut bytes = [0; Self::SIZE];
        for (to, from) in bytes.iter_mut().take(Self::SIZE - 1).zip(name.to_bytes()) {
            *to = from.cast_signed() as c_char;
        }
        // SAFETY: by contract.
        unsafe { self.0.get().write(bytes) };
        self.0.get().cast()
    }
}

fn fault() -> PcapFailure {
    PcapFailure::new("a fault of Wirelane's libpcap; the message is on standard error")
}

/// # Safety
/// The buffer is null or of `PCAP_ERRBUF_SIZE` bytes.
unsafe fn refuse(error: *mut c_char, failure: &PcapFailure) -> c_int {
    // SAFETY: by contract.
    unsafe { guard::report(error, failure.text.as_bytes()) };
    failure.status
}
