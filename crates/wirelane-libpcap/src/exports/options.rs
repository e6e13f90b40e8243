//! Options set between `pcap_create` and `pcap_activate`.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::guard::{self, forward};
use crate::abi::{status, timestamp};
use crate::handle::PcapHandle;
use crate::live::TimestampPrecision;

/// Setters that check nothing.
macro_rules! setters {
    ($(fn $name:ident($value:ident) { $option:ident = $new:expr })*) => {$(
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(handle: *mut PcapHandle, $value: c_int) -> c_int {
            let set = |handle: &PcapHandle| {
                forward!(handle, $name($value));
                let set = handle.with_options(|options| options.$option = $new);
                set.map_or_else(|status| status, |()| 0)
            };
            // SAFETY: a handle, by the contract of the function.
            unsafe { guard::status(handle, set) }
        }
    )*};
}

setters! {
    fn pcap_set_snaplen(snaplen) { snaplen = snaplen }
    fn pcap_set_promisc(on) { promiscuous = on != 0 }
    fn pcap_set_rfmon(on) { monitor = on != 0 }
    fn pcap_set_timeout(timeout_ms) { timeout_ms = timeout_ms }
    fn pcap_set_immediate_mode(on) { immediate = on != 0 }
    fn pcap_set_protocol_linux(protocol) { protocol = protocol }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_buffer_size(
    handle: *mut PcapHandle,
    bytes: c_int,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_set_buffer_size(bytes));
        let set = handle.with_options(|options| {
            // libpcap ignores other sizes without an error.
            if bytes > 0 {
                options.buffer_size = bytes;
            }
        });
        set.map_or_else(|status| status, |()| 0)
    };
    // SAFETY: the contract of pcap_set_buffer_size(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_tstamp_type(
    handle: *mut PcapHandle,
    kind: c_int,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_set_tstamp_type(kind));
        let set = handle.with_options(|options| {
            let known = match options.timestamp_types.as_slice() {
                [] => kind == timestamp::HOST,
                types => types.contains(&kind),
            };
            if known {
                options.timestamp_type = Some(kind);
            }
            known
        });
        match set {
            Ok(true) => 0,
            Ok(false) => status::WARNING_TSTAMP_TYPE_NOTSUP,
            Err(status) => status,
        }
    };
    // SAFETY: the contract of pcap_set_tstamp_type(3).
    unsafe { guard::status(handle, set) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pcap_set_tstamp_precision(
    handle: *mut PcapHandle,
    precision: c_int,
) -> c_int {
    let set = |handle: &PcapHandle| {
        forward!(handle, pcap_set_tstamp_precision(precision));
        let set = handle.with_options(|options| match precision {
            timestamp::PRECISION_MICRO => {
                options.precision = TimestampPrecision::Micro;
                0
            }
            timestamp::PRECISION_NANO => {
                options.precision = TimestampPrecision::Nano;
                0
            }
            _ => status::ERROR_TSTAMP_PRECISION_NOTSUP,
        });
        set.unwrap_or_else(|status| status)
    };
    // SAFETY: the contract of pcap_set_tstamp_precision(3).
    unsafe { guard::status(handle, set) }
}
