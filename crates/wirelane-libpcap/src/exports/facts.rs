//! The properties of a handle that compiling and writing need.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::abi::status;
use crate::handle::{Handle, State};

/// The properties of an activated handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
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

impl Facts {
    /// `None` if it is not activated.
    pub(super) fn of(handle: &Handle) -> Option<Self> {
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
            State::Live(live) => Some(Self {
                link: live.datalink(),
                link_extension: 0,
                snaplen: live.options.snaplen,
                precision: live.options.precision.number(),
                in_kernel: true,
            }),
            State::Created(..) | State::Forwarded => None,
        })?
    }

    /// libpcap's values for a handle that is not activated, in functions that do not check.
    pub(super) fn not_activated(handle: &Handle) -> Self {
        let options = handle.with(|inner| match &inner.state {
            State::Created(options, _) => Some((options.snaplen, options.precision.number())),
            State::Live(_) | State::Forwarded => None,
        });
        let (snaplen, precision) = options.flatten().unwrap_or_default();
        Self { link: 0, link_extension: 0, snaplen, precision, in_kernel: false }
    }
}
