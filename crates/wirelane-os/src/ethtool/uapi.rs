//! Requests, flags and structures of `include/uapi/linux/ethtool.h`.

use std::mem::{offset_of, size_of};

pub(super) const ETHTOOL_GDRVINFO: u32 = 0x03;
pub(super) const ETHTOOL_GRINGPARAM: u32 = 0x10;
pub(super) const ETHTOOL_GFLAGS: u32 = 0x25;
pub(super) const ETHTOOL_GLINK: u32 = 0x0a;
pub(super) const ETHTOOL_GGRO: u32 = 0x2b;
pub(super) const ETHTOOL_STXCSUM: u32 = 0x17;
pub(super) const ETHTOOL_STSO: u32 = 0x1f;
pub(super) const ETHTOOL_SGRO: u32 = 0x2c;
pub(super) const ETHTOOL_GRXFHINDIR: u32 = 0x38;
pub(super) const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// Linux 3.5.
pub(super) const ETHTOOL_GET_TS_INFO: u32 = 0x41;
pub(super) const ETHTOOL_GRSSH: u32 = 0x46;
/// Linux 4.6.
pub(super) const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
pub(super) const ETH_FLAG_TXVLAN: u32 = 1 << 7;
pub(super) const ETH_FLAG_RXVLAN: u32 = 1 << 8;
pub(super) const ETH_FLAG_LRO: u32 = 1 << 15;
/// Linux 6.8.
pub(super) const RXH_XFRM_NO_CHANGE: u8 = 0xff;

/// `struct ethtool_drvinfo`.
#[repr(C)]
pub(super) struct UapiDrvinfo {
    pub(super) cmd: u32,
    pub(super) driver: [u8; 32],
    pub(super) version: [u8; 32],
    pub(super) fw_version: [u8; 32],
    pub(super) bus_info: [u8; 32],
    pub(super) erom_version: [u8; 32],
    pub(super) reserved2: [u8; 12],
    pub(super) n_priv_flags: u32,
    pub(super) n_stats: u32,
    pub(super) testinfo_len: u32,
    pub(super) eedump_len: u32,
    pub(super) regdump_len: u32,
}

/// `struct ethtool_channels`.
#[repr(C)]
pub(super) struct UapiChannels {
    pub(super) cmd: u32,
    pub(super) max_rx: u32,
    pub(super) max_tx: u32,
    pub(super) max_other: u32,
    pub(super) max_combined: u32,
    pub(super) rx_count: u32,
    pub(super) tx_count: u32,
    pub(super) other_count: u32,
    pub(super) combined_count: u32,
}

/// `struct ethtool_ringparam`.
#[repr(C)]
pub(super) struct UapiRingparam {
    pub(super) cmd: u32,
    pub(super) rx_max_pending: u32,
    pub(super) rx_mini_max_pending: u32,
    pub(super) rx_jumbo_max_pending: u32,
    pub(super) tx_max_pending: u32,
    pub(super) rx_pending: u32,
    pub(super) rx_mini_pending: u32,
    pub(super) rx_jumbo_pending: u32,
    pub(super) tx_pending: u32,
}

/// `struct ethtool_rxfh`, before the table and the key. `input_xfrm` was reserved, and 0, until
/// Linux 6.8.
#[repr(C)]
pub(super) struct UapiRxfh {
    pub(super) cmd: u32,
    pub(super) rss_context: u32,
    pub(super) indir_size: u32,
    pub(super) key_size: u32,
    pub(super) hfunc: u8,
    pub(super) input_xfrm: u8,
    pub(super) rsvd8: [u8; 2],
    pub(super) rsvd32: u32,
}

/// `struct ethtool_rxfh_indir`, before the table.
#[repr(C)]
pub(super) struct UapiRxfhIndir {
    pub(super) cmd: u32,
    pub(super) size: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
pub(super) struct UapiValue {
    pub(super) cmd: u32,
    pub(super) data: u32,
}

/// `struct ethtool_link_settings`, before its three masks.
#[repr(C)]
pub(super) struct UapiLinkSettings {
    pub(super) cmd: u32,
    pub(super) speed: u32,
    pub(super) duplex: u8,
    pub(super) port: u8,
    pub(super) phy_address: u8,
    pub(super) autoneg: u8,
    pub(super) mdio_support: u8,
    pub(super) eth_tp_mdix: u8,
    pub(super) eth_tp_mdix_ctrl: u8,
    pub(super) link_mode_masks_nwords: i8,
    pub(super) transceiver: u8,
    pub(super) master_slave_cfg: u8,
    pub(super) master_slave_state: u8,
    pub(super) rate_matching: u8,
    pub(super) reserved: [u32; 7],
}

const _: () = {
    assert!(size_of::<UapiDrvinfo>() == 196);
    assert!(offset_of!(UapiDrvinfo, bus_info) == 100);
    assert!(offset_of!(UapiDrvinfo, n_priv_flags) == 176);
    assert!(size_of::<UapiChannels>() == 36);
    assert!(offset_of!(UapiChannels, max_combined) == 16);
    assert!(offset_of!(UapiChannels, combined_count) == 32);
    assert!(size_of::<UapiRingparam>() == 36);
    assert!(offset_of!(UapiRingparam, tx_max_pending) == 16);
    assert!(offset_of!(UapiRingparam, tx_pending) == 32);
    assert!(size_of::<UapiRxfh>() == 24);
    assert!(offset_of!(UapiRxfh, hfunc) == 16);
    assert!(offset_of!(UapiRxfh, input_xfrm) == 17);
    assert!(size_of::<UapiRxfhIndir>() == 8);
    assert!(size_of::<UapiValue>() == 8);
    assert!(size_of::<UapiLinkSettings>() == 48);
    assert!(offset_of!(UapiLinkSettings, link_mode_masks_nwords) == 15);
};
