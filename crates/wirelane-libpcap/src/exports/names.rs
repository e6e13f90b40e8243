//! Names and numbers: hosts, ports, protocols, link types, time stamps, statuses.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::io::Write;
use std::ptr;

use super::guard;
use crate::abi::status;
use crate::real::{self, RealLibrary};

/// `PROTO_UNDEF`.
const UNKNOWN_PROTOCOL: c_int = -1;

/// Functions of the real library. Without it, they find no name.
macro_rules! delegated {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty, or $without:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            match library() {
                // SAFETY: the arguments are the program's, by the same contract.
                Some(library) => unsafe { (library.$name)($($argument),*) },
                None => $without,
            }
        }
    )*};
}

delegated! {
    fn pcap_nametoaddr(name: *const c_char) -> *mut *mut u32, or ptr::null_mut();
    fn pcap_nametoaddrinfo(name: *const c_char) -> *mut libc::addrinfo, or ptr::null_mut();
    fn pcap_nametonetaddr(name: *const c_char) -> u32, or 0;
    fn pcap_nametoport(name: *const c_char, port: *mut c_int, protocol: *mut c_int) -> c_int, or 0;
    fn pcap_nametoportrange(
        name: *const c_char, first: *mut c_int, last: *mut c_int, protocol: *mut c_int
    ) -> c_int, or 0;
    fn pcap_nametoproto(name: *const c_char) -> c_int, or UNKNOWN_PROTOCOL;
    fn pcap_nametoeproto(name: *const c_char) -> c_int, or UNKNOWN_PROTOCOL;
    fn pcap_nametollc(name: *const c_char) -> c_int, or UNKNOWN_PROTOCOL;
    fn pcap_next_etherent(file: *mut libc::FILE) -> *mut c_void, or ptr::null_mut();
    // SAFETY: by the contract of the function.
    fn pcap_datalink_name_to_val(name: *const c_char) -> c_int, or unsafe { own_link_number(name) };
    fn pcap_datalink_val_to_name(link: c_int) -> *const c_char,
        or own_link(link).map_or(ptr::null(), |(_, name, _)| name.as_ptr());
    fn pcap_datalink_val_to_description(link: c_int) -> *const c_char,
        or own_link(link).map_or(ptr::null(), |(_, _, description)| description.as_ptr());
}

fn library() -> Option<&'static RealLibrary> {
    guard::alone(None, || real::library().ok())
}

/// The link types of Wirelane's ports: number, name, description. Names of all others need the real
/// library.
const OWN_LINKS: [(c_int, &CStr, &CStr); 7] = [
    (0, c"NULL", c"BSD loopback"),
    (1, c"EN10MB", c"Ethernet"),
    (12, c"RAW", c"Raw IP"),
    (105, c"IEEE802_11", c"802.11"),
    (113, c"LINUX_SLL", c"Linux cooked v1"),
    (127, c"IEEE802_11_RADIO", c"802.11 plus radiotap header"),
    (276, c"LINUX_SLL2", c"Linux cooked v2"),
];

fn own_link(link: c_int) -> Option<&'static (c_int, &'static CStr, &'static CStr)> {
    OWN_LINKS.iter().find(|(number, ..)| *number == link)
}

/// # Safety
/// `name` is a string.
unsafe fn own_link_number(name: *const c_char) -> c_int {
    let found = OWN_LINKS.iter().find(|(_, own, _)| {
        // SAFETY: by contract.
        !name.is_null() && unsafe { is_same(own, name) }
    });
    found.map_or(-1, |(number, ..)| *number)
}

/// Whether the names are equal, ignoring ASCII case.
///
/// # Safety
/// `name` is a string.
unsafe fn is_same(own: &CStr, name: *const c_char) -> bool {
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(name) }.to_bytes().eq_ignore_ascii_case(own.to_bytes())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_datalink_val_to_description_or_dlt(
    link: c_int,
) -> *const c_char {
    // SAFETY: takes a number.
    let known = unsafe { pcap_datalink_val_to_description(link) };
    if known.is_null() { with_number("DLT ", link) } else { known }
}

/// `PCAP_TSTAMP_…`: number, name, description.
const TIMESTAMPS: [(c_int, &CStr, &CStr); 6] = [
    (0, c"host", c"Host"),
    (1, c"host_lowprec", c"Host, low precision"),
    (2, c"host_hiprec", c"Host, high precision"),
    (3, c"adapter", c"Adapter"),
    (4, c"adapter_unsynced", c"Adapter, not synced with system time"),
    (5, c"host_hiprec_unsynced", c"Host, high precision, not synced with system time"),
];

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_tstamp_type_name_to_val(name: *const c_char) -> c_int {
    if name.is_null() {
        return status::ERROR;
    }
    // SAFETY: a string, by the contract of pcap_tstamp_type_name_to_val(3).
    let found = TIMESTAMPS.iter().find(|(_, own, _)| unsafe { is_same(own, name) });
    found.map_or(status::ERROR, |(number, ..)| *number)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_tstamp_type_val_to_name(kind: c_int) -> *const c_char {
    let found = TIMESTAMPS.iter().find(|(number, ..)| *number == kind);
    found.map_or(ptr::null(), |(_, name, _)| name.as_ptr())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_tstamp_type_val_to_description(kind: c_int) -> *const c_char {
    let found = TIMESTAMPS.iter().find(|(number, ..)| *number == kind);
    found.map_or(ptr::null(), |(_, _, description)| description.as_ptr())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_statustostr(status: c_int) -> *const c_char {
    status::text(status).map_or_else(|| with_number("Unknown error: ", status), CStr::as_ptr)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_strerror(number: c_int) -> *const c_char {
    // SAFETY: takes a number, and gives a string that stays until the next call.
    unsafe { libc::strerror(number) }
}

/// A text that is valid until this thread's next call; in libpcap, until any thread's next call.
fn with_number(text: &str, number: impl Display) -> *const c_char {
    thread_local! {
        static BUFFER: UnsafeCell<[u8; 40]> = const { UnsafeCell::new([0; 40]) };
    }
    let write = |cell: &UnsafeCell<[u8; 40]>| {
        // SAFETY: only this thread has it, and the reference ends here.
        let buffer = unsafe { &mut *cell.get() };
        // Prefix and number together are shorter than 40 bytes.
        let _ = write!(&mut buffer[..], "{text}{number}\0");
        cell.get().cast::<c_char>().cast_const()
    };
    BUFFER.try_with(write).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_ether_aton(text: *const c_char) -> *mut u8 {
    if text.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: a string, by the contract of pcap_ether_aton(3).
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    give(ethernet_address(text))
}

/// The bytes of an address. Like libpcap, it accepts any separators; unlike it, it writes at most
/// six bytes.
fn ethernet_address(text: &[u8]) -> [u8; 6] {
    let mut address = [0; 6];
    let mut rest = text.iter().copied().peekable();
    for byte in &mut address {
        rest.next_if(|c| matches!(c, b':' | b'.' | b'-'));
        let Some(first) = rest.next() else { break };
        *byte = digit(first);
        if let Some(second) = rest.next_if(u8::is_ascii_hexdigit) {
            *byte = *byte << 4 | digit(second);
        }
    }
    address
}

/// libpcap's `xdtoi`, for any byte.
fn digit(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => c - b'0',
        b'a'..=b'f' => c - b'a' + 10,
        _ => c.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_ether_hostton(name: *const c_char) -> *mut u8 {
    let mut address = [0; 6];
    // SAFETY: a string, by the contract of pcap_ether_hostton(3), and room for an address.
    let known = !name.is_null() && unsafe { ether_hostton(name, &mut address) } == 0;
    if known { give(address) } else { ptr::null_mut() }
}

unsafe extern "C" {
    /// ether_hostton(3): looks a host up in `/etc/ethers`.
    fn ether_hostton(name: *const c_char, address: *mut [u8; 6]) -> c_int;
}

/// A copy that the program frees.
fn give(address: [u8; 6]) -> *mut u8 {
    // SAFETY: memory of that size, or null.
    unsafe {
        let copy: *mut [u8; 6] = libc::malloc(size_of_val(&address)).cast();
        if !copy.is_null() {
            copy.write(address);
        }
        copy.cast()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::transmute;

    use wirelane_filter::libpcap::system::system;

    use super::*;

    fn text(pointer: *const c_char) -> Option<&'static str> {
        // SAFETY: null, or a string that stays until the next one.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_str().unwrap())
    }

    #[test]
    fn our_link_types_are_those_of_libpcap() {
        for (number, name, description) in OWN_LINKS {
            // SAFETY: numbers and strings.
            unsafe {
                assert_eq!(text(pcap_datalink_val_to_name(number)), name.to_str().ok());
                let said = text(pcap_datalink_val_to_description(number));
                assert_eq!(said, description.to_str().ok());
                assert_eq!(pcap_datalink_name_to_val(name.as_ptr()), number);
                assert_eq!(own_link_number(name.as_ptr()), number);
            }
        }
        // SAFETY: as above.
        unsafe {
            assert_eq!(text(pcap_datalink_val_to_description_or_dlt(-7)), Some("DLT -7"));
            assert_eq!(pcap_datalink_name_to_val(c"en10mb".as_ptr()), 1);
            assert_eq!(own_link_number(c"en10mb".as_ptr()), 1);
            assert_eq!(own_link_number(c"ETHERNET".as_ptr()), -1);
        }
    }

    #[test]
    fn statuses_without_a_text_show_their_number() {
        assert_eq!(text(pcap_statustostr(-8)).unwrap().split(' ').next(), Some("You"));
        assert_eq!(text(pcap_statustostr(c_int::MIN)), Some("Unknown error: -2147483648"));
        assert_eq!(text(pcap_strerror(libc::ENOENT)), Some("No such file or directory"));
    }

    #[test]
    fn types_of_time_stamps() {
        for (number, name, _) in TIMESTAMPS {
            // SAFETY: a string.
            assert_eq!(unsafe { pcap_tstamp_type_name_to_val(name.as_ptr()) }, number);
            assert_eq!(text(pcap_tstamp_type_val_to_name(number)), name.to_str().ok());
        }
        // SAFETY: a string.
        assert_eq!(unsafe { pcap_tstamp_type_name_to_val(c"Adapter".as_ptr()) }, 3);
        // SAFETY: a string.
        assert_eq!(unsafe { pcap_tstamp_type_name_to_val(c"sundial".as_ptr()) }, -1);
        assert!(pcap_tstamp_type_val_to_description(6).is_null());
    }

    #[test]
    fn ethernet_addresses_are_read_as_libpcap_does() {
        let stock = system().unwrap().symbol(c"pcap_ether_aton").unwrap();
        // SAFETY: its declaration.
        let stock: unsafe extern "C" fn(*const c_char) -> *mut u8 = unsafe { transmute(stock) };
        for address in ["02:00:5e:10:00:ff", "2-0-5E-10-0-F", "02.00.5e.10.00.ff", "02005e1000ff"] {
            let text = std::ffi::CString::new(address).unwrap();
            // SAFETY: a string of six numbers; both results are six bytes of malloc(3).
            unsafe {
                let results = [stock(text.as_ptr()), pcap_ether_aton(text.as_ptr())];
                let [stock, ours] = results.map(|result| {
                    let address: [u8; 6] = *result.cast();
                    libc::free(result.cast());
                    address
                });
                assert_eq!(stock, ours, "{address}");
            }
        }
        assert_eq!(ethernet_address(b"1:2:3:4:5:6:7:8"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(ethernet_address(b":"), [0; 6]);
    }
}
