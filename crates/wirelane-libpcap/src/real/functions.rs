//! The functions of the real library, each under its own name.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::NonNull;

use wirelane_filter::libpcap::system::System;

use crate::abi::{Handler, Interface, PacketHeader, Program, Statistics};

/// A `pcap_t` of the real library.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pcap {
    _opaque: [u8; 0],
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, valid for the life of the process. Functions with callbacks may unwind,
        /// by a C++ exception or pthread_exit(3).
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks up all functions.
            ///
            /// # Errors
            /// The library is too old, and lacks one.
            pub(crate) fn of(system: &System) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        let name = CStr::from_bytes_with_nul(name).map_err(|error| error.to_string())?;
                        let symbol = system.symbol(name)?;
                        // SAFETY: the type is that of the declaration in pcap/pcap.h, pcap/bpf.h or
                        // pcap/namedb.h. The library is never unloaded, so the function stays.
                        unsafe {
                            transmute::<NonNull<c_void>, unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    // Savefiles, and handles that only compile.
    fn pcap_open_offline_with_tstamp_precision(*const c_char, c_uint, *mut c_char) -> *mut Pcap;
    fn pcap_fopen_offline_with_tstamp_precision(*mut libc::FILE, c_uint, *mut c_char) -> *mut Pcap;
    fn pcap_open_dead_with_tstamp_precision(c_int, c_int, c_uint) -> *mut Pcap;
    fn pcap_file(*mut Pcap) -> *mut libc::FILE;
    fn pcap_is_swapped(*mut Pcap) -> c_int;
    fn pcap_major_version(*mut Pcap) -> c_int;
    fn pcap_minor_version(*mut Pcap) -> c_int;

    // Opening, options, and queries of a handle.
    fn pcap_create(*const c_char, *mut c_char) -> *mut Pcap;
    fn pcap_activate(*mut Pcap) -> c_int;
    fn pcap_close(*mut Pcap);
    fn pcap_set_snaplen(*mut Pcap, c_int) -> c_int;
    fn pcap_set_promisc(*mut Pcap, c_int) -> c_int;
    fn pcap_can_set_rfmon(*mut Pcap) -> c_int;
    fn pcap_set_rfmon(*mut Pcap, c_int) -> c_int;
    fn pcap_set_timeout(*mut Pcap, c_int) -> c_int;
    fn pcap_set_tstamp_type(*mut Pcap, c_int) -> c_int;
    fn pcap_set_immediate_mode(*mut Pcap, c_int) -> c_int;
    fn pcap_set_buffer_size(*mut Pcap, c_int) -> c_int;
    fn pcap_set_tstamp_precision(*mut Pcap, c_int) -> c_int;
    fn pcap_get_tstamp_precision(*mut Pcap) -> c_int;
    fn pcap_set_protocol_linux(*mut Pcap, c_int) -> c_int;
    fn pcap_list_tstamp_types(*mut Pcap, *mut *mut c_int) -> c_int;
    fn pcap_free_tstamp_types(*mut c_int);
    fn pcap_datalink(*mut Pcap) -> c_int;
    fn pcap_datalink_ext(*mut Pcap) -> c_int;
    fn pcap_list_datalinks(*mut Pcap, *mut *mut c_int) -> c_int;
    fn pcap_free_datalinks(*mut c_int);
    fn pcap_set_datalink(*mut Pcap, c_int) -> c_int;
    fn pcap_snapshot(*mut Pcap) -> c_int;
    fn pcap_bufsize(*mut Pcap) -> c_int;
    fn pcap_fileno(*mut Pcap) -> c_int;
    fn pcap_get_selectable_fd(*mut Pcap) -> c_int;
    fn pcap_get_required_select_timeout(*mut Pcap) -> *const libc::timeval;
    fn pcap_geterr(*mut Pcap) -> *mut c_char;

    // Packets.
    fn pcap_loop(*mut Pcap, c_int, Handler, *mut u8) -> c_int;
    fn pcap_dispatch(*mut Pcap, c_int, Handler, *mut u8) -> c_int;
    fn pcap_next(*mut Pcap, *mut PacketHeader) -> *const u8;
    fn pcap_next_ex(*mut Pcap, *mut *mut PacketHeader, *mut *const u8) -> c_int;
    fn pcap_breakloop(*mut Pcap);
    fn pcap_stats(*mut Pcap, *mut Statistics) -> c_int;
    fn pcap_setfilter(*mut Pcap, *mut Program) -> c_int;
    fn pcap_setdirection(*mut Pcap, c_uint) -> c_int;
    fn pcap_getnonblock(*mut Pcap, *mut c_char) -> c_int;
    fn pcap_setnonblock(*mut Pcap, c_int, *mut c_char) -> c_int;
    fn pcap_inject(*mut Pcap, *const c_void, usize) -> c_int;
    fn pcap_sendpacket(*mut Pcap, *const u8, c_int) -> c_int;

    // Expressions and programs.
    fn pcap_compile(*mut Pcap, *mut Program, *const c_char, c_int, u32) -> c_int;
    fn pcap_freecode(*mut Program);
    fn bpf_filter(*const libc::sock_filter, *const u8, c_uint, c_uint) -> c_uint;
    fn bpf_validate(*const libc::sock_filter, c_int) -> c_int;
    fn bpf_image(*const libc::sock_filter, c_int) -> *mut c_char;
    fn bpf_dump(*const Program, c_int);

    // These also list devices that are not network interfaces.
    fn pcap_findalldevs(*mut *mut Interface, *mut c_char) -> c_int;
    fn pcap_freealldevs(*mut Interface);

    // Names.
    fn pcap_datalink_name_to_val(*const c_char) -> c_int;
    fn pcap_datalink_val_to_name(c_int) -> *const c_char;
    fn pcap_datalink_val_to_description(c_int) -> *const c_char;
    fn pcap_nametoaddr(*const c_char) -> *mut *mut u32;
    fn pcap_nametoaddrinfo(*const c_char) -> *mut libc::addrinfo;
    fn pcap_nametonetaddr(*const c_char) -> u32;
    fn pcap_nametoport(*const c_char, *mut c_int, *mut c_int) -> c_int;
    fn pcap_nametoportrange(*const c_char, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    fn pcap_nametoproto(*const c_char) -> c_int;
    fn pcap_nametoeproto(*const c_char) -> c_int;
    fn pcap_nametollc(*const c_char) -> c_int;
    fn pcap_next_etherent(*mut libc::FILE) -> *mut c_void;
}
