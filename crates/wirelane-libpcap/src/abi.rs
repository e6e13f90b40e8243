//! The types and numbers of `pcap/pcap.h` (libpcap 1.10).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `PCAP_ERRBUF_SIZE`.
pub const ERRBUF_SIZE: usize = 256;

/// The status codes that functions return.
pub mod status {
    use super::c_int;

    /// It failed; `pcap_geterr` says why.
    pub const ERROR: c_int = -1;
    /// `pcap_breakloop` ended the loop.
    pub const ERROR_BREAK: c_int = -2;
    /// The handle has to be activated first.
    pub const ERROR_NOT_ACTIVATED: c_int = -3;
    /// The handle is activated already.
    pub const ERROR_ACTIVATED: c_int = -4;
    /// There is no such device.
    pub const ERROR_NO_SUCH_DEVICE: c_int = -5;
    /// The device has no monitor mode.
    pub const ERROR_RFMON_NOTSUP: c_int = -6;
    /// Only for a handle in monitor mode.
    pub const ERROR_NOT_RFMON: c_int = -7;
    /// The user may not open the device.
    pub const ERROR_PERM_DENIED: c_int = -8;
    /// The device is down.
    pub const ERROR_IFACE_NOT_UP: c_int = -9;
    /// The device has no such type of time stamps.
    pub const ERROR_CANTSET_TSTAMP_TYPE: c_int = -10;
    /// The user may not capture in promiscuous mode.
    pub const ERROR_PROMISC_PERM_DENIED: c_int = -11;
    /// The device has no time stamps of that precision.
    pub const ERROR_TSTAMP_PRECISION_NOTSUP: c_int = -12;
    /// It worked; `pcap_geterr` has a warning.
    pub const WARNING: c_int = 1;
    /// The device cannot be promiscuous.
    pub const WARNING_PROMISC_NOTSUP: c_int = 2;
    /// The type of time stamps was not set.
    pub const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;
}

/// `struct pcap_pkthdr`. The part below a second is in nanoseconds if the handle's precision is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PacketHeader {
    /// When it was captured.
    pub time: libc::timeval,
    /// Bytes that are there.
    pub captured: u32,
    /// Bytes that it had.
    pub original: u32,
}

/// `pcap_handler`: takes the program's own pointer, the header and the bytes.
pub type Handler = Option<unsafe extern "C" fn(*mut u8, *const PacketHeader, *const u8)>;

/// `struct bpf_program`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// How many instructions there are.
    pub len: c_uint,
    /// `struct bpf_insn`, laid out as the kernel's `struct sock_filter`.
    pub instructions: *mut libc::sock_filter,
}

/// `struct pcap_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Packets that passed the filter, dropped ones included.
    pub received: c_uint,
    /// Packets for which there was no room.
    pub dropped: c_uint,
    /// Packets that the interface dropped.
    pub interface_dropped: c_uint,
}

/// `pcap_if_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Interface {
    /// The next one, or null.
    pub next: *mut Interface,
    /// What to open it by.
    pub name: *mut c_char,
    /// What it is, or null.
    pub description: *mut c_char,
    /// Its addresses.
    pub addresses: *mut Address,
    /// `PCAP_IF_…`.
    pub flags: u32,
}

/// `pcap_addr_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Address {
    /// The next one, or null.
    pub next: *mut Address,
    /// The address.
    pub address: *mut libc::sockaddr,
    /// Its netmask, or null.
    pub netmask: *mut libc::sockaddr,
    /// Its broadcast address, or null.
    pub broadcast: *mut libc::sockaddr,
    /// Its other end, or null.
    pub destination: *mut libc::sockaddr,
}

/// `pcap_dumper_t`: always one of the real library.
pub type Dumper = c_void;
