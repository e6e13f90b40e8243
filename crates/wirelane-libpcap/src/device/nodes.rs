//! Device lists in memory of C: `pcap_if_t`. All memory is allocated by malloc(3), like libpcap's
//! own lists, so that either library can free a list of the other.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};

use super::entry::{AddressEntry, DeviceEntry};
use crate::abi::{Address, ERRBUF_SIZE, Interface};
use crate::real::RealLibrary;

/// The devices as a list of C, which [`free`] frees. `None` if memory runs out.
pub(crate) fn to_list(devices: &[DeviceEntry]) -> Option<*mut Interface> {
    let mut first = ptr::null_mut();
    for device in devices.iter().rev() {
        // SAFETY: a list of this module.
        match unsafe { node(device, first) } {
            Some(node) => first = node.as_ptr(),
            None => {
                // SAFETY: as above, and nothing else refers to it.
                unsafe { free(first) };
                return None;
            }
        }
    }
    Some(first)
}

/// Frees a list of devices.
///
/// # Safety
/// It is null, or of [`to_list`] or the real library, and was not freed.
pub(crate) unsafe fn free(mut device: *mut Interface) {
    while !device.is_null() {
        // SAFETY: by contract, all of it is of malloc(3) or null.
        device = unsafe {
            let Interface { next, name, description, addresses, .. } = device.read();
            let mut address = addresses;
            while !address.is_null() {
                let Address { next, address: own, netmask, broadcast, destination } =
                    address.read();
                for part in [own, netmask, broadcast, destination] {
                    libc::free(part.cast());
                }
                libc::free(address.cast());
                address = next;
            }
            libc::free(name.cast());
            libc::free(description.cast());
            libc::free(device.cast());
            next
        };
    }
}

/// The devices that the real library lists, without their addresses: its devices other than network
/// interfaces have none.
pub(super) fn of_library(library: &RealLibrary) -> Vec<DeviceEntry> {
    let mut first = ptr::null_mut();
    let mut error: [c_char; ERRBUF_SIZE] = [0; ERRBUF_SIZE];
    let mut devices = Vec::new();
    // SAFETY: the library writes a list of its own, which is freed once; names and descriptions are
    // strings or null.
    unsafe {
        if (library.pcap_findalldevs)(&mut first, error.as_mut_ptr()) != 0 {
            return devices;
        }
        let mut next = first;
        while let Some(device) = next.as_ref() {
            next = device.next;
            let text = |text: *const c_char| -> Option<CString> {
                (!text.is_null()).then(|| CStr::from_ptr(text).to_owned())
            };
            let Some(name) = text(device.name) else { continue };
            let description = text(device.description);
            devices.push(DeviceEntry { description, ..DeviceEntry::new(name, device.flags) });
        }
        (library.pcap_freealldevs)(first);
    }
    devices
}

/// # Safety
/// `next` is null or a list of this module, which stays the caller's if there is no memory.
unsafe fn node(device: &DeviceEntry, next: *mut Interface) -> Option<NonNull<Interface>> {
    let empty = Interface {
        next: ptr::null_mut(),
        name: ptr::null_mut(),
        description: ptr::null_mut(),
        addresses: ptr::null_mut(),
        flags: device.flags,
    };
    let node = place(empty)?;
    // SAFETY: just made, so nothing else refers to it. After a failure, its parts are freed with
    // it.
    unsafe {
        let fill = || {
            (*node.as_ptr()).name = bytes(device.name.as_bytes_with_nul())?.cast();
            if let Some(description) = &device.description {
                (*node.as_ptr()).description = bytes(description.as_bytes_with_nul())?.cast();
            }
            for address in device.addresses.iter().rev() {
                (*node.as_ptr()).addresses = address_node(address, (*node.as_ptr()).addresses)?;
            }
            Some(())
        };
        if fill().is_none() {
            free(node.as_ptr());
            return None;
        }
        (*node.as_ptr()).next = next;
    }
    Some(node)
}

fn address_node(entry: &AddressEntry, next: *mut Address) -> Option<*mut Address> {
    let parts = [&entry.address, &entry.netmask, &entry.broadcast, &entry.destination];
    let mut copies = [ptr::null_mut::<libc::sockaddr>(); 4];
    let mut missing = false;
    for (copy, part) in copies.iter_mut().zip(parts) {
        if let Some(part) = part {
            *copy = bytes(part).map_or(ptr::null_mut(), <*mut u8>::cast);
            missing |= copy.is_null();
        }
    }
    let [address, netmask, broadcast, destination] = copies;
    let whole = Address { next, address, netmask, broadcast, destination };
    let node = if missing { None } else { place(whole) };
    if node.is_none() {
        // SAFETY: each is null or of malloc(3), and nothing else refers to it.
        copies.into_iter().for_each(|copy| unsafe { libc::free(copy.cast()) });
    }
    node.map(NonNull::as_ptr)
}

/// A value in memory of malloc(3).
fn place<T>(value: T) -> Option<NonNull<T>> {
    // SAFETY: malloc(3) gives memory of that size, aligned for any type, or null.
    let memory = NonNull::new(unsafe { libc::malloc(size_of::<T>()) }.cast::<T>())?;
    // SAFETY: as above.
    unsafe { memory.write(value) };
    Some(memory)
}

/// A copy in memory of malloc(3).
fn bytes(from: &[u8]) -> Option<*mut u8> {
    // SAFETY: as in `place`; the copy has the size of the memory.
    unsafe {
        let memory = NonNull::new(libc::malloc(from.len().max(1)).cast::<u8>())?;
        memory.copy_from_nonoverlapping(NonNull::from(from).cast(), from.len());
        Some(memory.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_is_there() {
        let address = AddressEntry {
            address: Some(vec![1; 16]),
            netmask: Some(vec![2; 16]),
            ..Default::default()
        };
        let devices = [
            DeviceEntry {
                addresses: vec![address.clone(), address],
                ..DeviceEntry::new(c"one".to_owned(), 7)
            },
            DeviceEntry {
                description: Some(c"second".to_owned()),
                ..DeviceEntry::new(c"two".to_owned(), 0)
            },
        ];
        let list = to_list(&devices).unwrap();
        // SAFETY: the list is as it was made, and freed once.
        unsafe {
            let one = &*list;
            assert_eq!((CStr::from_ptr(one.name), one.flags), (c"one", 7));
            assert!(one.description.is_null());
            let first = &*one.addresses;
            assert_eq!(*first.address.cast::<[u8; 16]>(), [1; 16]);
            assert_eq!(*first.netmask.cast::<[u8; 16]>(), [2; 16]);
            assert!(first.broadcast.is_null() && first.destination.is_null());
            assert!((*first.next).next.is_null());
            let two = &*one.next;
            assert_eq!(CStr::from_ptr(two.description), c"second");
            assert!(two.next.is_null() && two.addresses.is_null());
            free(list);
            free(ptr::null_mut());
        }
        assert!(to_list(&[]).unwrap().is_null());
    }
}
