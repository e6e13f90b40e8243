//! Version texts, libpcap's exported data, and the symbol that identifies this library.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::guard;
use crate::abi::status;

/// `wirelane_filter::libpcap::system` tells this library from libpcap by this symbol.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static wirelane_libpcap: u8 = 1;

/// The interface version. Old programs print it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static pcap_version: [u8; 7] = *b"1.10.3\0";

/// `struct eproto` of `nametoaddr.c`. libpcap exports it, though no header declares it.
#[repr(C)]
pub(crate) struct EthernetProtocol {
    name: *const c_char,
    number: u16,
}

// SAFETY: the names are constants.
unsafe impl Sync for EthernetProtocol {}

const fn protocol(name: &'static CStr, number: u16) -> EthernetProtocol {
    EthernetProtocol { name: name.as_ptr(), number }
}

/// Names of protocols above Ethernet; a null name ends the list.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub(crate) static eproto_db: [EthernetProtocol; 13] = [
    protocol(c"aarp", 0x80f3),
    protocol(c"arp", 0x0806),
    protocol(c"atalk", 0x809b),
    protocol(c"decnet", 0x6003),
    protocol(c"ip", 0x0800),
    protocol(c"ip6", 0x86dd),
    protocol(c"lat", 0x6004),
    protocol(c"loopback", 0x9000),
    protocol(c"mopdl", 0x6001),
    protocol(c"moprc", 0x6002),
    protocol(c"rarp", 0x8035),
    protocol(c"sca", 0x6007),
    EthernetProtocol { name: ptr::null(), number: 0 },
];

/// Starts like libpcap's text, because some programs parse the number.
const VERSION: &str =
    concat!("libpcap version 1.10.3 (with Wirelane ", env!("CARGO_PKG_VERSION"), ")\0");

#[unsafe(no_mangle)]
pub(crate) extern "C" fn pcap_lib_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// The requested text encoding: 0 is none yet, 1 the locale's, 2 UTF-8.
static ENCODING: AtomicU32 = AtomicU32::new(0);

/// Whether the program has called `pcap_init`. `pcap_lookupdev` fails after that.
pub(crate) fn is_initialized() -> bool {
    ENCODING.load(Ordering::Relaxed) != 0
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_init(options: c_uint, error: *mut c_char) -> c_int {
    // SAFETY: a buffer for a text, by the contract of pcap_init(3).
    let fail = |text: &str| unsafe {
        guard::report(error, text.as_bytes());
        status::ERROR
    };
    if options > 1 {
        return fail("Unknown options specified");
    }
    let encoding = options + 1;
    match ENCODING.compare_exchange(0, encoding, Ordering::Relaxed, Ordering::Relaxed) {
        Err(other) if other != encoding => {
            fail("Multiple pcap_init calls with different character encodings")
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::transmute;

    use wirelane_filter::libpcap::system::system;

    use super::*;
    use crate::real;

    #[test]
    fn we_begin_as_libpcap_does() {
        // SAFETY: strings that stay.
        let versions = unsafe {
            let stock = system().unwrap().symbol(c"pcap_lib_version").unwrap();
            let stock: unsafe extern "C" fn() -> *const c_char = transmute(stock);
            [pcap_lib_version(), stock()].map(|text| CStr::from_ptr(text).to_str().unwrap())
        };
        let numbers = versions.map(|text| text.split('.').next().unwrap());
        assert_eq!(numbers, ["libpcap version 1"; 2]);
    }

    #[test]
    fn protocols_of_ethernet_are_those_of_libpcap() {
        let library = real::library().unwrap();
        for protocol in &eproto_db[..eproto_db.len() - 1] {
            // SAFETY: a string.
            let number = unsafe { (library.pcap_nametoeproto)(protocol.name) };
            assert_eq!(number, c_int::from(protocol.number));
        }
    }

    #[test]
    fn the_encoding_is_chosen_once() {
        let mut error = [0; crate::abi::ERRBUF_SIZE];
        // SAFETY: a buffer of that size.
        let mut init = |options| unsafe { pcap_init(options, error.as_mut_ptr()) };
        assert!(!is_initialized());
        assert_eq!([init(7), init(1), init(1), init(0)], [-1, 0, 0, -1]);
        assert!(is_initialized());
    }
}
