//! The properties of a handle that compiling and writing need.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::abi::status;
use crate::handle::{HandleState, PcapHandle};

/// The properties of an activated handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandleProperties {
    /// `DLT_…`.
    pub(super) link: c_int,
    /// The extension bits that a savefile stores with the link type.
    pub(super) link_extension: c_int,
    pub(super) snaplen: c_int,
    /// `PCAP_TSTAMP_PRECISION_…`.
    pub(super) precision: c_int,
    /// Whether its filter runs in the kernel, which removes the outer VLAN tag.
    pub(super) in_kernel: bool,
}

impl HandleProperties {
    /// `None` if it is not activated.
    pub(super) fn of(handle: &PcapHandle) -> Option<Self> {
        if let Some(real) = handle.real() {
            let (library, pcap) = (real.library, real.as_ptr());
            // SAFETY: the handle is open. All of these give any number, but that one.
            return unsafe {
                let is_activated = (library.pcap_is_swapped)(pcap) != status::ERROR_NOT_ACTIVATED;
                is_activated.then(|| Self {
                    link: (library.pcap_datalink)(pcap),
                    link_extension: (library.pcap_datalink_ext)(pcap),
                    snaplen: (library.pcap_snapshot)(pcap),
                    precision: (library.pcap_get_tstamp_precision)(pcap),
                    in_kernel: false,
                })
            };
        }
        handle.with(|inner| match &inner.state {
            HandleState::Live(live) => Some(Self {
                link: live.datalink(),
                link_extension: 0,
                snaplen: live.options.snaplen,
                precision: live.options.precision.number(),
                in_kernel: true,
            }),
            HandleState::Created(..) | HandleState::Forwarded => None,
        })?
    }

    /// libpcap's values for a handle that is not activated, in functions that do not check.
    pub(super) fn not_activated(handle: &PcapHandle) -> Self {
        let options = handle.with(|inner| match &inner.state {
            HandleState::Created(options, _) => Some((options.snaplen, options.precision.number())),
            HandleState::Live(_) | HandleState::Forwarded => None,
        });
        let (snaplen, precision) = options.flatten().unwrap_or_default();
        Self { link: 0, link_extension: 0, snaplen, precision, in_kernel: false }
    }
}
