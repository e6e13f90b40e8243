//! Options between `pcap_create` and `pcap_activate`.

use std::ffi::{CStr, CString, c_int};

use super::timestamps;
use crate::abi::timestamp;
use crate::device::PortOpening;

/// The options of a handle, as the program gave them.
#[derive(Clone, Debug)]
pub(crate) struct HandleOptions {
    /// The device.
    pub(crate) device: CString,
    /// `pcap_set_snaplen`; once activated, the one in force.
    pub(crate) snaplen: c_int,
    /// `pcap_set_promisc`.
    pub(crate) promiscuous: bool,
    /// `pcap_set_rfmon`.
    pub(crate) monitor: bool,
    /// `pcap_set_timeout`, in milliseconds: 0 waits for a packet; with a negative value libpcap
    /// does not wait.
    pub(crate) timeout_ms: c_int,
    /// `pcap_set_immediate_mode`.
    pub(crate) immediate: bool,
    /// `pcap_set_buffer_size`; 0 is the default.
    pub(crate) buffer_size: c_int,
    /// `pcap_set_tstamp_type`.
    pub(crate) timestamp_type: Option<c_int>,
    /// The types that the device has; empty if there is no choice.
    pub(crate) timestamp_types: Vec<c_int>,
    /// `pcap_set_tstamp_precision`.
    pub(crate) precision: TimestampPrecision,
    /// `pcap_setnonblock`.
    pub(crate) nonblock: bool,
    /// `pcap_set_protocol_linux`; 0 is all protocols.
    pub(crate) protocol: c_int,
}

/// The unit of the part of a time below a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimestampPrecision {
    Micro,
    Nano,
}

impl TimestampPrecision {
    /// As `PCAP_TSTAMP_PRECISION_…`.
    pub(crate) fn number(self) -> c_int {
        match self {
            Self::Micro => timestamp::PRECISION_MICRO,
            Self::Nano => timestamp::PRECISION_NANO,
        }
    }
}

impl HandleOptions {
    /// The defaults for a device.
    pub(crate) fn new(device: &CStr, opening: &PortOpening) -> Self {
        let interface = opening.interface().filter(|_| opening.is_packet());
        Self {
            device: device.to_owned(),
            snaplen: 0,
            promiscuous: false,
            monitor: false,
            timeout_ms: 0,
            immediate: false,
            buffer_size: 0,
            timestamp_type: None,
            timestamp_types: interface.map(timestamps::types).unwrap_or_default(),
            precision: TimestampPrecision::Micro,
            nonblock: false,
            protocol: 0,
        }
    }
}
