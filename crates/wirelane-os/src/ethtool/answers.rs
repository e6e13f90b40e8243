//! Answers of a driver, and their parsers.

use std::mem::{offset_of, size_of};

use super::request::{text, word, words};
use super::uapi::{
    ETH_FLAG_LRO, ETH_FLAG_RXVLAN, ETH_FLAG_TXVLAN, RXH_XFRM_NO_CHANGE, UapiChannels, UapiDrvinfo,
    UapiLinkSettings, UapiRingparam, UapiRxfh, UapiRxfhIndir, UapiValue,
};

/// `ETHTOOL_GDRVINFO`: the driver of the interface. Empty strings mean that the driver left the
/// field empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver, e.g. `veth`, `ice`; for a device without one, its link kind.
    pub driver: String,
    /// The driver's version; drivers without a version report the kernel's.
    pub version: String,
    /// Firmware version of the device.
    pub firmware: String,
    /// Bus address of the device, e.g. `0000:03:00.1`.
    pub bus: String,
}

/// `ETHTOOL_GCHANNELS`: a channel is an interrupt and the queues it serves. 0 as a maximum means
/// that the driver has no channels of that class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Most receive-only channels.
    pub max_rx: u32,
    /// Most transmit-only channels.
    pub max_tx: u32,
    /// Most channels that serve one receive and one transmit queue.
    pub max_combined: u32,
    /// Receive-only channels in use.
    pub rx: u32,
    /// Transmit-only channels in use.
    pub tx: u32,
    /// Combined channels in use.
    pub combined: u32,
}

/// `ETHTOOL_GRINGPARAM`: descriptors per queue. 0 as a maximum means that the driver has no such
/// ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Largest receive ring.
    pub max_rx: u32,
    /// Largest transmit ring.
    pub max_tx: u32,
    /// Receive ring in use.
    pub rx: u32,
    /// Transmit ring in use.
    pub tx: u32,
}

/// Receive-side scaling as the driver reports it (`ETHTOOL_GRSSH`, or `ETHTOOL_GRXFHINDIR` on
/// drivers without it).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssConfig {
    /// The hash functions in use, a set of `ETH_RSS_HASH_*` bits; 0 when unknown.
    pub functions: u8,
    /// The device's transformation of the fields before hashing, a set of `RXH_XFRM_*` bits; 0 for
    /// none.
    pub input_transform: u8,
    /// The hash key; empty when unknown.
    pub key: Vec<u8>,
    /// The receive queue of each hash bucket; empty when unknown.
    pub indirection: Vec<u32>,
}

impl RssConfig {
    /// `ETH_RSS_HASH_TOP_BIT`: the Toeplitz hash.
    pub const TOEPLITZ: u8 = 1 << 0;
    /// `ETH_RSS_HASH_XOR_BIT`: exclusive or of the fields.
    pub const XOR: u8 = 1 << 1;
    /// `ETH_RSS_HASH_CRC32_BIT`: CRC-32 of the fields.
    pub const CRC32: u8 = 1 << 2;
    /// `RXH_XFRM_SYM_XOR` (Linux 6.8): source and destination fields are both replaced by their
    /// exclusive or.
    pub const SYMMETRIC_XOR: u8 = 1 << 0;
    /// `RXH_XFRM_SYM_OR_XOR` (Linux 6.15): one field becomes the exclusive or of both, the other
    /// their inclusive or.
    pub const SYMMETRIC_OR_XOR: u8 = 1 << 1;
}

/// Offloads that affect captured packets, from `ETHTOOL_GGRO` and `ETHTOOL_GFLAGS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Generic receive offload: the kernel merges segments of a flow.
    pub gro: Option<bool>,
    /// Large receive offload: the device merges segments of a flow.
    pub lro: Option<bool>,
    /// The device strips VLAN tags on receive.
    pub rx_vlan: Option<bool>,
    /// The device inserts VLAN tags on transmit.
    pub tx_vlan: Option<bool>,
}

pub(super) fn parse_driver(bytes: &[u8]) -> Option<DriverInfo> {
    Some(DriverInfo {
        driver: text(bytes, offset_of!(UapiDrvinfo, driver), 32)?,
        version: text(bytes, offset_of!(UapiDrvinfo, version), 32)?,
        firmware: text(bytes, offset_of!(UapiDrvinfo, fw_version), 32)?,
        bus: text(bytes, offset_of!(UapiDrvinfo, bus_info), 32)?,
    })
}

pub(super) fn parse_channels(bytes: &[u8]) -> Option<Channels> {
    Some(Channels {
        max_rx: word(bytes, offset_of!(UapiChannels, max_rx))?,
        max_tx: word(bytes, offset_of!(UapiChannels, max_tx))?,
        max_combined: word(bytes, offset_of!(UapiChannels, max_combined))?,
        rx: word(bytes, offset_of!(UapiChannels, rx_count))?,
        tx: word(bytes, offset_of!(UapiChannels, tx_count))?,
        combined: word(bytes, offset_of!(UapiChannels, combined_count))?,
    })
}

pub(super) fn parse_rings(bytes: &[u8]) -> Option<Rings> {
    Some(Rings {
        max_rx: word(bytes, offset_of!(UapiRingparam, rx_max_pending))?,
        max_tx: word(bytes, offset_of!(UapiRingparam, tx_max_pending))?,
        rx: word(bytes, offset_of!(UapiRingparam, rx_pending))?,
        tx: word(bytes, offset_of!(UapiRingparam, tx_pending))?,
    })
}

pub(super) fn parse_rss(bytes: &[u8]) -> Option<RssConfig> {
    let entries = word(bytes, offset_of!(UapiRxfh, indir_size))? as usize;
    let key_length = word(bytes, offset_of!(UapiRxfh, key_size))? as usize;
    let after = bytes.get(size_of::<UapiRxfh>()..)?;
    // The answer to a request for sizes has no contents.
    let (table, key) = if after.is_empty() {
        (after, after)
    } else {
        let (table, rest) = after.split_at_checked(entries.checked_mul(4)?)?;
        (table, rest.get(..key_length)?)
    };
    Some(RssConfig {
        functions: *bytes.get(offset_of!(UapiRxfh, hfunc))?,
        input_transform: match *bytes.get(offset_of!(UapiRxfh, input_xfrm))? {
            RXH_XFRM_NO_CHANGE => 0,
            transform => transform,
        },
        key: key.to_vec(),
        indirection: words(table),
    })
}

pub(super) fn parse_indirection(bytes: &[u8]) -> Option<RssConfig> {
    let entries = word(bytes, offset_of!(UapiRxfhIndir, size))? as usize;
    let table = bytes.get(size_of::<UapiRxfhIndir>()..)?.get(..entries.checked_mul(4)?)?;
    Some(RssConfig { indirection: words(table), ..RssConfig::default() })
}

pub(super) fn parse_offloads(gro: Option<&[u8]>, flags: Option<&[u8]>) -> Offloads {
    let value = |bytes: Option<&[u8]>| word(bytes?, offset_of!(UapiValue, data));
    let flag = |bit: u32| value(flags).map(|flags| flags & bit != 0);
    Offloads {
        gro: value(gro).map(|value| value != 0),
        lro: flag(ETH_FLAG_LRO),
        rx_vlan: flag(ETH_FLAG_RXVLAN),
        tx_vlan: flag(ETH_FLAG_TXVLAN),
    }
}

/// The number of words of each link-mode mask, from the answer to a request without masks.
pub(super) fn link_mode_words(bytes: &[u8]) -> Option<u8> {
    let words = *bytes.get(offset_of!(UapiLinkSettings, link_mode_masks_nwords))? as i8;
    words.checked_neg().and_then(|words| u8::try_from(words).ok()).filter(|words| *words > 0)
}

pub(super) fn parse_speed(bytes: &[u8]) -> Option<u32> {
    // SPEED_UNKNOWN is -1; drivers without a link also report 0.
    word(bytes, offset_of!(UapiLinkSettings, speed))
        .filter(|speed| *speed != 0 && *speed != u32::MAX)
}
