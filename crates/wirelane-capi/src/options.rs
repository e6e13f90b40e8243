//! How to open a port, as a structure that later versions can make longer.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::time::Duration;

use wirelane::filter::Filter;
use wirelane::port::{OpenOptions, Take};

use crate::call;
use crate::error::{Failure, Result};
use crate::mask::MaskValue;

/// The program only looks.
pub const WIRELANE_TAKE_NOTHING: u32 = 0;
/// The program takes the packets that the filter accepts away from the host.
pub const WIRELANE_TAKE_MATCHING: u32 = 1;
/// The program takes all packets, or those that the filter accepts.
pub const WIRELANE_TAKE_ALL: u32 = 2;

/// How to open a port. wirelane_options_init() sets the defaults; then the program changes what it
/// wants.
///
/// The structure belongs to the program, and so does what it points to: both are read while the
/// port is opened. What is 0 or 1 is "yes" for every value but 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OptionsValue {
    /// Bytes of the structure, as the program knows it.
    pub size: usize,
    /// Which packets to receive: an expression of pcap-filter(7), or what `tcpdump -ddd` prints.
    /// NULL: all.
    pub filter: *const c_char,
    /// Which queues and classes to select. NULL: all.
    pub mask: *const MaskValue,
    /// Bytes of receive memory per queue. 0: the backend's choice.
    pub ring_bytes: u64,
    /// How many nanoseconds a received packet may wait for others, about. 0: the backend's choice.
    pub latency: u64,
    /// Longest part of a packet to keep, in bytes.
    pub snaplen: u32,
    /// Which packets to take away from the host (only `xdp:` does): WIRELANE_TAKE_...
    pub take: u32,
    /// 1: open for receiving. The default.
    pub receive: u8,
    /// 1: open for transmitting.
    pub transmit: u8,
    /// 1: packets that the host itself sends can be selected. The default.
    pub outgoing: u8,
    /// 1: promiscuous mode while the port is open.
    pub promiscuous: u8,
    /// 1: when the interface is removed, wait for another one of its name (`packet:` only).
    pub wait: u8,
    /// 1: with `take`, also take what keeps the host reachable: ARP, neighbour discovery, SSH, DNS
    /// and DHCP.
    pub take_management: u8,
    /// 1: the program forwards. Packets arrive as they were on the wire or marked to be cut, which
    /// the transmitting ends of such a port do. wirelane_options_forwarder() sets it, and what goes
    /// with it.
    pub forward: u8,
    /// 0.
    pub reserved: u8,
}

/// As much had the structure in the first version.
const FIRST: usize = 56;

const _: () = assert!(size_of::<OptionsValue>() >= FIRST);

impl OptionsValue {
    /// For a program that receives copies of everything, or for one that forwards.
    pub(crate) fn new(forward: bool) -> Self {
        let options = if forward { OpenOptions::forwarder() } else { OpenOptions::default() };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            size: size_of::<Self>(),
            filter: std::ptr::null(),
            mask: std::ptr::null(),
            ring_bytes: 0,
            latency: options.latency.map_or(0, nanoseconds),
            snaplen: options.snaplen,
            take: WIRELANE_TAKE_NOTHING,
            receive: options.receive.into(),
            transmit: options.transmit.into(),
            outgoing: options.outgoing.into(),
            promiscuous: options.promiscuous.into(),
            wait: 0,
            take_management: 0,
            forward: forward.into(),
            reserved: 0,
        }
    }

    /// The structure that a program of any version has filled in.
    ///
    /// # Safety
    /// NULL for the defaults, or what [`OptionsValue::new`] was written to, with its `size`.
    pub(crate) unsafe fn read(from: *const Self) -> Result<Self> {
        let mut value = Self::new(false);
        if from.is_null() {
            return Ok(value);
        }
        // SAFETY: by contract; the size comes first in every version.
        let size = unsafe { from.cast::<usize>().read() };
        if !(FIRST..=call::MOST).contains(&size) {
            return Err(Failure::Argument(
                "options: wirelane_options_init() has to set them first",
            ));
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: by contract there are `size` bytes.
        unsafe { (&raw mut value).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
        Ok(value)
    }

    /// As the library has them.
    ///
    /// # Safety
    /// What it points to is there.
    pub(crate) unsafe fn to_options(self) -> Result<OpenOptions> {
        let base =
            if self.forward != 0 { OpenOptions::forwarder() } else { OpenOptions::default() };
        let take = match self.take {
            WIRELANE_TAKE_NOTHING => Take::Nothing,
            WIRELANE_TAKE_MATCHING => Take::Matching,
            WIRELANE_TAKE_ALL => Take::All,
            _ => return Err(Failure::Argument("options: there is no such value of take")),
        };
        let mut options = base
            .latency((self.latency != 0).then(|| Duration::from_nanos(self.latency)))
            .ring_bytes(usize::try_from(self.ring_bytes).ok().filter(|bytes| *bytes != 0))
            .snaplen(self.snaplen)
            .take(take)
            .receive(self.receive != 0)
            .transmit(self.transmit != 0)
            .outgoing(self.outgoing != 0)
            .promiscuous(self.promiscuous != 0)
            .wait(self.wait != 0)
            .take_management(self.take_management != 0);
        // SAFETY: by contract.
        if let Some(mask) = unsafe { self.mask.as_ref() } {
            options.mask = mask.to_mask();
        }
        // SAFETY: by contract.
        options.filter = unsafe { filter(self.filter) }?;
        Ok(options)
    }
}

/// A filter in words; none for NULL.
///
/// # Safety
/// NULL, or a string that ends with NUL.
pub(crate) unsafe fn filter(text: *const c_char) -> Result<Option<Filter>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: by contract.
    let text = unsafe { call::text(text, "filter") }?;
    let filter = text.parse::<Filter>().map_err(wirelane::Error::from)?;
    Ok(Some(filter))
}
