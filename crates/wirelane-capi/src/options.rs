//! Options of a port, in a structure that later versions can extend.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::time::Duration;

use wirelane::filter::Filter;
use wirelane::port::{OpenOptions, Take};

use crate::call;
use crate::error::{CallFailure, Result};
use crate::mask::MaskValue;

/// The host keeps all packets; the program gets copies.
pub const WIRELANE_TAKE_NOTHING: u32 = 0;
/// The program takes packets that the filter accepts; the host keeps the others.
pub const WIRELANE_TAKE_MATCHING: u32 = 1;
/// The program takes all packets. While there is a filter, it takes packets that the filter
/// accepts.
pub const WIRELANE_TAKE_ALL: u32 = 2;

/// Options of wirelane_open(). wirelane_options_init() sets the defaults; then the program changes
/// some fields.
///
/// The program owns the structure and the objects that it points to; wirelane_open() only reads
/// them. In fields that are 0 or 1, any non-zero value means 1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OptionsValue {
    /// Size of the structure in bytes, in the program's version.
    pub size: usize,
    /// Which packets to receive: an expression of pcap-filter(7), or the output of `tcpdump -ddd`.
    /// NULL: all.
    pub filter: *const c_char,
    /// Which queues and classes to select. NULL: all.
    pub mask: *const MaskValue,
    /// Bytes of receive memory per queue. 0: the backend's default.
    pub ring_bytes: u64,
    /// How long a received packet may wait for others, in nanoseconds, approximately. 0: the
    /// backend's default.
    pub latency: u64,
    /// The most bytes to keep of a packet.
    pub snaplen: u32,
    /// Which packets to take from the host (only `xdp:` takes any): WIRELANE_TAKE_...
    pub take: u32,
    /// 1: open for receiving. The default.
    pub receive: u8,
    /// 1: open for transmitting.
    pub transmit: u8,
    /// 1: packets that the host itself sends can be selected. The default.
    pub outgoing: u8,
    /// 1: promiscuous mode while the port is open.
    pub promiscuous: u8,
    /// 1: if the interface is removed, wait for a new one with its name (`packet:` only).
    pub wait: u8,
    /// 1: with `take`, also take the packets that keep the host reachable: ARP, neighbour
    /// discovery, SSH, DNS and DHCP.
    pub take_management: u8,
    /// 1: the program forwards. Packets arrive intact as on the wire, or marked for segmentation,
    /// which the port's transmitting ends do. Use wirelane_options_forwarder(), which also sets the
    /// other fields for forwarding.
    pub forward: u8,
    /// 0.
    pub reserved: u8,
}

/// Size of the structure in the first version.
const FIRST: usize = 56;

const _: () = assert!(size_of::<OptionsValue>() >= FIRST);

impl OptionsValue {
    /// For a program that receives copies of all packets, or for one that forwards.
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
            outgoing: options.internal.outgoing.into(),
            promiscuous: options.promiscuous.into(),
            wait: 0,
            take_management: 0,
            forward: forward.into(),
            reserved: 0,
        }
    }

    /// Reads the structure of a program of any version.
    ///
    /// # Safety
    /// NULL for the defaults, or a structure initialised from [`OptionsValue::new`], with its
    /// `size`.
    pub(crate) unsafe fn read(from: *const Self) -> Result<Self> {
        let mut value = Self::new(false);
        if from.is_null() {
            return Ok(value);
        }
        // SAFETY: by contract; the size comes first in every version.
        let size = unsafe { from.cast::<usize>().read() };
        if !(FIRST..=call::MOST).contains(&size) {
            return Err(CallFailure::Argument(
                "options: wirelane_options_init() has to set them first",
            ));
        }
        let known = size.min(size_of::<Self>());
        // SAFETY: by contract there are `size` bytes.
        unsafe { (&raw mut value).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
        Ok(value)
    }

    /// Converts to the library's options.
    ///
    /// # Safety
    /// Its pointers are valid.
    pub(crate) unsafe fn to_options(self) -> Result<OpenOptions> {
        let base =
            if self.forward != 0 { OpenOptions::forwarder() } else { OpenOptions::default() };
        let take = match self.take {
            WIRELANE_TAKE_NOTHING => Take::Nothing,
            WIRELANE_TAKE_MATCHING => Take::Matching,
            WIRELANE_TAKE_ALL => Take::All,
            _ => return Err(CallFailure::Argument("options: there is no such value of take")),
        };
        let mut options = base
            .latency((self.latency != 0).then(|| Duration::from_nanos(self.latency)))
            .ring_bytes(usize::try_from(self.ring_bytes).ok().filter(|bytes| *bytes != 0))
            .snaplen(self.snaplen)
            .take(take.management(self.take_management != 0))
            .receive(self.receive != 0)
            .transmit(self.transmit != 0)
            .promiscuous(self.promiscuous != 0)
            .wait(self.wait != 0);
        options.internal.outgoing = self.outgoing != 0;
        // SAFETY: by contract.
        if let Some(mask) = unsafe { self.mask.as_ref() } {
            options.mask = mask.to_mask();
        }
        // SAFETY: by contract.
        options.filter = unsafe { filter(self.filter) }?;
        Ok(options)
    }
}

/// The filter of an expression; `None` for NULL.
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
