//! The types and numbers of `pcap/pcap.h` (libpcap 1.10).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `PCAP_ERRBUF_SIZE`.
pub const ERRBUF_SIZE: usize = 256;

/// The status codes that functions return.
pub mod status {
    use std::ffi::CStr;

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

    /// The text of `pcap_statustostr` for a status; `None` if there is no such status.
    pub fn text(status: c_int) -> Option<&'static CStr> {
        Some(match status {
            WARNING => c"Generic warning",
            WARNING_TSTAMP_TYPE_NOTSUP => {
                c"That type of time stamp is not supported by that device"
            }
            WARNING_PROMISC_NOTSUP => c"That device doesn't support promiscuous mode",
            ERROR => c"Generic error",
            ERROR_BREAK => c"Loop terminated by pcap_breakloop",
            ERROR_NOT_ACTIVATED => c"The pcap_t has not been activated",
            ERROR_ACTIVATED => c"The setting can't be changed after the pcap_t is activated",
            ERROR_NO_SUCH_DEVICE => c"No such device exists",
            ERROR_RFMON_NOTSUP => c"That device doesn't support monitor mode",
            ERROR_NOT_RFMON => c"That operation is supported only in monitor mode",
            ERROR_PERM_DENIED => {
                c"You don't have permission to perform this capture on that device"
            }
            ERROR_IFACE_NOT_UP => c"That device is not up",
            ERROR_CANTSET_TSTAMP_TYPE => c"That device doesn't support setting the time stamp type",
            ERROR_PROMISC_PERM_DENIED => {
                c"You don't have permission to capture in promiscuous mode on that device"
            }
            ERROR_TSTAMP_PRECISION_NOTSUP => {
                c"That device doesn't support that time stamp precision"
            }
            _ => return None,
        })
    }
}

/// `PCAP_TSTAMP_…`: the source of a packet's time stamp.
pub mod timestamp {
    use super::c_int;

    /// The host.
    pub const HOST: c_int = 0;
    /// The adapter, in step with the host's clock.
    pub const ADAPTER: c_int = 3;
    /// The adapter, by its own clock.
    pub const ADAPTER_UNSYNCED: c_int = 4;
    /// `PCAP_TSTAMP_PRECISION_MICRO`.
    pub const PRECISION_MICRO: c_int = 0;
    /// `PCAP_TSTAMP_PRECISION_NANO`.
    pub const PRECISION_NANO: c_int = 1;
}

/// `PCAP_D_…`: which packets to capture.
pub mod direction {
    use super::c_int;

    /// Both.
    pub const INOUT: c_int = 0;
    /// Packets that the host receives.
    pub const IN: c_int = 1;
    /// Packets that the host sends.
    pub const OUT: c_int = 2;
}

/// `struct pcap_pkthdr`. The part below a second is in nanoseconds if the handle's precision is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PacketHeader {
    /// When it was captured.
    pub time: libc::timeval,
    /// Captured bytes.
    pub captured: u32,
    /// The packet's length on the wire.
    pub original: u32,
}

/// `pcap_handler`: takes the program's own pointer, the header and the bytes. It may throw an
/// exception, or end the thread.
pub type Handler = Option<unsafe extern "C-unwind" fn(*mut u8, *const PacketHeader, *const u8)>;

/// `struct bpf_program`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The number of instructions.
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
    /// Packets dropped for lack of buffer space.
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
    /// The name to open it by.
    pub name: *mut c_char,
    /// A text for users, or null.
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

/// `pcap_dumper_t`: a `FILE *`, as in libpcap.
pub type Dumper = c_void;
