//! What a driver says of itself: the read-only `SIOCETHTOOL` requests, and two that are not.
//!
//! Every request answers `None` when the driver does not implement it (`EOPNOTSUPP`), which is no error: most virtual
//! devices implement few. Any other failure is kept. The interface is looked up in the network namespace in which the
//! [`Ethtool`] was opened, and only [`Ethtool::set_gro`] and
//! [`Ethtool::set_features`] need a privilege.
//!
//! The kernel's structures are read at asserted offsets out of a buffer of words, so that parsing is safe code that a
//! test can feed with a recorded answer.

mod features;

use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::{OsError, Result};

/// A handle for questions about one interface.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    name: String,
}

/// `ETHTOOL_GDRVINFO`: who drives the interface. Empty strings mean that the driver left the field empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverInfo {
    /// The driver, e.g. `veth`, `ice`; for a device without one, its link kind.
    pub driver: String,
    /// The driver's version; drivers that follow the kernel give the kernel's.
    pub version: String,
    /// Firmware version of the device.
    pub firmware: String,
    /// Where the device sits, e.g. `0000:03:00.1`.
    pub bus: String,
}

/// `ETHTOOL_GCHANNELS`: a channel is an interrupt and the queues it serves. 0 as a maximum means that the driver has no
/// channels of that class.
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

/// `ETHTOOL_GRINGPARAM`: descriptors per queue. 0 as a maximum means that the driver has no such ring.
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

/// Receive-side scaling as the driver reports it (`ETHTOOL_GRSSH`, or `ETHTOOL_GRXFHINDIR` on drivers without it).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssConfig {
    /// The hash functions in use, a set of `ETH_RSS_HASH_*` bits; 0 when unknown.
    pub functions: u8,
    /// What the device does to the fields before hashing them, a set of `RXH_XFRM_*` bits; 0 for nothing.
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
    /// `RXH_XFRM_SYM_XOR` (Linux 6.8): source and destination fields are both replaced by their exclusive or.
    pub const SYMMETRIC_XOR: u8 = 1 << 0;
    /// `RXH_XFRM_SYM_OR_XOR` (Linux 6.15): one becomes the exclusive or of both, the other their inclusive or.
    pub const SYMMETRIC_OR_XOR: u8 = 1 << 1;
}

/// Offloads that change what a capture sees, from `ETHTOOL_GGRO` and `ETHTOOL_GFLAGS`.
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

impl Ethtool {
    /// A handle for the interface `name` of the calling thread's network namespace. Whether it exists shows at the
    /// first request, which fails with `ENODEV` otherwise.
    ///
    /// # Errors
    /// `ENODEV` when no interface can have this name, or what `socket` says.
    pub fn open(name: &str) -> Result<Ethtool> {
        // One byte of the kernel's array is for the terminating zero.
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(OsError::from_errno("ioctl SIOCETHTOOL", name, libc::ENODEV));
        }
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                // A kernel without IPv4 still takes the request on any socket.
                .or_else(|_| {
                    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                })
                .map_err(|errno| OsError::new("socket", name, errno))?;
        Ok(Ethtool { socket, name: name.to_owned() })
    }

    /// Driver, firmware and bus address.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn driver(&self) -> Result<Option<DriverInfo>> {
        let mut request = Request::new(ETHTOOL_GDRVINFO, size_of::<UapiDrvinfo>());
        let known = self.ask("ioctl ETHTOOL_GDRVINFO", &mut request)?;
        Ok(known.then(|| parse_driver(&request.bytes())).flatten())
    }

    /// Channel counts.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn channels(&self) -> Result<Option<Channels>> {
        let mut request = Request::new(ETHTOOL_GCHANNELS, size_of::<UapiChannels>());
        let known = self.ask("ioctl ETHTOOL_GCHANNELS", &mut request)?;
        Ok(known.then(|| parse_channels(&request.bytes())).flatten())
    }

    /// Ring sizes.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn rings(&self) -> Result<Option<Rings>> {
        let mut request = Request::new(ETHTOOL_GRINGPARAM, size_of::<UapiRingparam>());
        let known = self.ask("ioctl ETHTOOL_GRINGPARAM", &mut request)?;
        Ok(known.then(|| parse_rings(&request.bytes())).flatten())
    }

    /// Hash function, key and indirection table of the default RSS context.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn rss(&self) -> Result<Option<RssConfig>> {
        // Sizes of 0 ask for the sizes (ethtool_get_rxfh). They can change before the second request, which then fails
        // with EINVAL, hence the second try.
        for attempt in 0..2 {
            let mut sizes = Request::new(ETHTOOL_GRSSH, size_of::<UapiRxfh>());
            if !self.ask("ioctl ETHTOOL_GRSSH", &mut sizes)? {
                return self.indirection_only();
            }
            let bytes = sizes.bytes();
            let table =
                word(&bytes, offset_of!(UapiRxfh, indir_size)).unwrap_or(0).min(MOST_ENTRIES);
            let key = word(&bytes, offset_of!(UapiRxfh, key_size)).unwrap_or(0).min(MOST_ENTRIES);
            if table == 0 && key == 0 {
                return Ok(parse_rss(&bytes));
            }
            let length = size_of::<UapiRxfh>() + table as usize * 4 + key as usize;
            let mut whole = Request::new(ETHTOOL_GRSSH, length);
            whole.set(offset_of!(UapiRxfh, indir_size), table);
            whole.set(offset_of!(UapiRxfh, key_size), key);
            match self.ask("ioctl ETHTOOL_GRSSH", &mut whole) {
                Ok(known) => return Ok(known.then(|| parse_rss(&whole.bytes())).flatten()),
                Err(error) if attempt == 0 && error.errno() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Which offloads are on.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn offloads(&self) -> Result<Offloads> {
        let mut gro = Request::new(ETHTOOL_GGRO, size_of::<UapiValue>());
        let gro = self.ask("ioctl ETHTOOL_GGRO", &mut gro)?.then(|| gro.bytes());
        let mut flags = Request::new(ETHTOOL_GFLAGS, size_of::<UapiValue>());
        let flags = self.ask("ioctl ETHTOOL_GFLAGS", &mut flags)?.then(|| flags.bytes());
        Ok(parse_offloads(gro.as_deref(), flags.as_deref()))
    }

    /// Switches generic receive offload on or off. On a veth this also decides whether it runs NAPI, without which it
    /// takes no frames that its peer redirects (`veth_set_features`, `veth_xdp_xmit`).
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` when it cannot be changed.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        self.switch("ioctl ETHTOOL_SGRO", ETHTOOL_SGRO, on)
    }

    /// Switches on or off what the kernel leaves to the device of packets to be sent: checksums, and with them the
    /// segmentation of TCP, which needs them.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` when it cannot be changed.
    pub fn set_tx_offload(&self, on: bool) -> Result<()> {
        self.switch("ioctl ETHTOOL_STXCSUM", ETHTOOL_STXCSUM, on)?;
        self.switch("ioctl ETHTOOL_STSO", ETHTOOL_STSO, on)
    }

    fn switch(&self, call: &'static str, command: u32, on: bool) -> Result<()> {
        let mut request = Request::new(command, size_of::<UapiValue>());
        request.set(offset_of!(UapiValue, data), u32::from(on));
        match self.ask(call, &mut request)? {
            true => Ok(()),
            false => Err(OsError::from_errno(call, self.name.as_str(), libc::EOPNOTSUPP)),
        }
    }

    /// Whether the device has a link. Since Linux 6.8 what became of the link before has reached the interface's queues
    /// when this returns, on devices that leave the answer to the kernel as veth and TAP do (`ethtool_op_get_link`).
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn link(&self) -> Result<Option<bool>> {
        let mut request = Request::new(ETHTOOL_GLINK, size_of::<UapiValue>());
        let known = self.ask("ioctl ETHTOOL_GLINK", &mut request)?;
        let value = known.then(|| word(&request.bytes(), offset_of!(UapiValue, data))).flatten();
        Ok(value.map(|value| value != 0))
    }

    /// The link's speed in Mbit/s; `None` also while the link is down, or when the device has no notion of speed.
    ///
    /// # Errors
    /// What the kernel says, except `EOPNOTSUPP`.
    pub fn speed(&self) -> Result<Option<u32>> {
        let mut shape = Request::new(ETHTOOL_GLINKSETTINGS, size_of::<UapiLinkSettings>());
        if !self.ask("ioctl ETHTOOL_GLINKSETTINGS", &mut shape)? {
            return Ok(None);
        }
        // Asked with the wrong number of mask words, the kernel answers with minus the right number and nothing else
        // (ethtool_get_link_ksettings).
        let Some(words) = link_mode_words(&shape.bytes()) else { return Ok(None) };
        let length = size_of::<UapiLinkSettings>() + 3 * 4 * usize::from(words);
        let mut whole = Request::new(ETHTOOL_GLINKSETTINGS, length);
        whole.set_byte(offset_of!(UapiLinkSettings, link_mode_masks_nwords), words);
        let known = self.ask("ioctl ETHTOOL_GLINKSETTINGS", &mut whole)?;
        Ok(known.then(|| parse_speed(&whole.bytes())).flatten())
    }

    /// The indirection table alone, for drivers that predate `ETHTOOL_GRSSH`.
    fn indirection_only(&self) -> Result<Option<RssConfig>> {
        let mut size = Request::new(ETHTOOL_GRXFHINDIR, size_of::<UapiRxfhIndir>());
        if !self.ask("ioctl ETHTOOL_GRXFHINDIR", &mut size)? {
            return Ok(None);
        }
        let entries =
            word(&size.bytes(), offset_of!(UapiRxfhIndir, size)).unwrap_or(0).min(MOST_ENTRIES);
        let length = size_of::<UapiRxfhIndir>() + entries as usize * 4;
        let mut whole = Request::new(ETHTOOL_GRXFHINDIR, length);
        whole.set(offset_of!(UapiRxfhIndir, size), entries);
        let known = self.ask("ioctl ETHTOOL_GRXFHINDIR", &mut whole)?;
        Ok(known.then(|| parse_indirection(&whole.bytes())).flatten())
    }

    /// Makes the request; `false` when the driver does not implement it.
    fn ask(&self, call: &'static str, request: &mut Request) -> Result<bool> {
        // SAFETY: ifreq is plain data for which all zeroes is valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        // The array keeps a zero at its end, because open() bounds the name's length.
        for (to, from) in ifreq.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_data = request.words.as_mut_ptr().cast();
        // SAFETY: the descriptor is open, ifreq is a valid structure that the kernel reads, and ifru_data points to a
        // buffer that holds the whole structure of the command, including the variable part whose size the command's
        // header announces. The kernel writes no more than that, and nobody else has the buffer borrowed.
        let result =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut ifreq) };
        if result >= 0 {
            return Ok(true);
        }
        let error = OsError::last(call, self.name.as_str());
        match error.errno() {
            Some(libc::EOPNOTSUPP) => Ok(false),
            _ => Err(error),
        }
    }
}

/// A request's buffer: words, because that is the alignment of every structure of this interface.
struct Request {
    words: Vec<u32>,
}

impl Request {
    /// `bytes` zeroes but for the command. A partial word at the end is rounded up.
    fn new(command: u32, bytes: usize) -> Request {
        let mut words = vec![0; bytes.div_ceil(4).max(1)];
        words[0] = command;
        Request { words }
    }

    fn set(&mut self, offset: usize, value: u32) {
        if let Some(word) = self.words.get_mut(offset / 4) {
            *word = value;
        }
    }

    fn set_byte(&mut self, offset: usize, value: u8) {
        if let Some(word) = self.words.get_mut(offset / 4) {
            let mut bytes = word.to_ne_bytes();
            bytes[offset % 4] = value;
            *word = u32::from_ne_bytes(bytes);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// More buckets or key bytes than any device has; bounds what a broken driver can make us allocate.
const MOST_ENTRIES: u32 = 1 << 16;

fn parse_driver(bytes: &[u8]) -> Option<DriverInfo> {
    Some(DriverInfo {
        driver: text(bytes, offset_of!(UapiDrvinfo, driver), 32)?,
        version: text(bytes, offset_of!(UapiDrvinfo, version), 32)?,
        firmware: text(bytes, offset_of!(UapiDrvinfo, fw_version), 32)?,
        bus: text(bytes, offset_of!(UapiDrvinfo, bus_info), 32)?,
    })
}

fn parse_channels(bytes: &[u8]) -> Option<Channels> {
    Some(Channels {
        max_rx: word(bytes, offset_of!(UapiChannels, max_rx))?,
        max_tx: word(bytes, offset_of!(UapiChannels, max_tx))?,
        max_combined: word(bytes, offset_of!(UapiChannels, max_combined))?,
        rx: word(bytes, offset_of!(UapiChannels, rx_count))?,
        tx: word(bytes, offset_of!(UapiChannels, tx_count))?,
        combined: word(bytes, offset_of!(UapiChannels, combined_count))?,
    })
}

fn parse_rings(bytes: &[u8]) -> Option<Rings> {
    Some(Rings {
        max_rx: word(bytes, offset_of!(UapiRingparam, rx_max_pending))?,
        max_tx: word(bytes, offset_of!(UapiRingparam, tx_max_pending))?,
        rx: word(bytes, offset_of!(UapiRingparam, rx_pending))?,
        tx: word(bytes, offset_of!(UapiRingparam, tx_pending))?,
    })
}

fn parse_rss(bytes: &[u8]) -> Option<RssConfig> {
    let entries = word(bytes, offset_of!(UapiRxfh, indir_size))? as usize;
    let key_length = word(bytes, offset_of!(UapiRxfh, key_size))? as usize;
    let after = bytes.get(size_of::<UapiRxfh>()..)?;
    // A reply to a question for sizes has sizes and no contents.
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

fn parse_indirection(bytes: &[u8]) -> Option<RssConfig> {
    let entries = word(bytes, offset_of!(UapiRxfhIndir, size))? as usize;
    let table = bytes.get(size_of::<UapiRxfhIndir>()..)?.get(..entries.checked_mul(4)?)?;
    Some(RssConfig { indirection: words(table), ..RssConfig::default() })
}

fn parse_offloads(gro: Option<&[u8]>, flags: Option<&[u8]>) -> Offloads {
    let value = |bytes: Option<&[u8]>| word(bytes?, offset_of!(UapiValue, data));
    let flag = |bit: u32| value(flags).map(|flags| flags & bit != 0);
    Offloads {
        gro: value(gro).map(|value| value != 0),
        lro: flag(ETH_FLAG_LRO),
        rx_vlan: flag(ETH_FLAG_RXVLAN),
        tx_vlan: flag(ETH_FLAG_TXVLAN),
    }
}

/// How many words each link-mode mask has, from the answer to a request with none.
fn link_mode_words(bytes: &[u8]) -> Option<u8> {
    let words = *bytes.get(offset_of!(UapiLinkSettings, link_mode_masks_nwords))? as i8;
    words.checked_neg().and_then(|words| u8::try_from(words).ok()).filter(|words| *words > 0)
}

fn parse_speed(bytes: &[u8]) -> Option<u32> {
    // SPEED_UNKNOWN is -1; drivers without a link say 0 as well.
    word(bytes, offset_of!(UapiLinkSettings, speed))
        .filter(|speed| *speed != 0 && *speed != u32::MAX)
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// The text before the first zero byte of a fixed array.
fn text(bytes: &[u8], offset: usize, length: usize) -> Option<String> {
    let field = bytes.get(offset..)?.get(..length)?;
    let field = field.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(field).trim().to_owned())
}

// Requests, flags and structures of include/uapi/linux/ethtool.h.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GRSSH: u32 = 0x46;
/// Linux 4.6.
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const ETH_FLAG_TXVLAN: u32 = 1 << 7;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const ETH_FLAG_LRO: u32 = 1 << 15;
/// Linux 6.8.
const RXH_XFRM_NO_CHANGE: u8 = 0xff;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct UapiDrvinfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    n_priv_flags: u32,
    n_stats: u32,
    testinfo_len: u32,
    eedump_len: u32,
    regdump_len: u32,
}

/// `struct ethtool_channels`.
#[repr(C)]
struct UapiChannels {
    cmd: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx_count: u32,
    tx_count: u32,
    other_count: u32,
    combined_count: u32,
}

/// `struct ethtool_ringparam`.
#[repr(C)]
struct UapiRingparam {
    cmd: u32,
    rx_max_pending: u32,
    rx_mini_max_pending: u32,
    rx_jumbo_max_pending: u32,
    tx_max_pending: u32,
    rx_pending: u32,
    rx_mini_pending: u32,
    rx_jumbo_pending: u32,
    tx_pending: u32,
}

/// `struct ethtool_rxfh`, before the table and the key. `input_xfrm` was reserved, and 0, until Linux 6.8.
#[repr(C)]
struct UapiRxfh {
    cmd: u32,
    rss_context: u32,
    indir_size: u32,
    key_size: u32,
    hfunc: u8,
    input_xfrm: u8,
    rsvd8: [u8; 2],
    rsvd32: u32,
}

/// `struct ethtool_rxfh_indir`, before the table.
#[repr(C)]
struct UapiRxfhIndir {
    cmd: u32,
    size: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct UapiValue {
    cmd: u32,
    data: u32,
}

/// `struct ethtool_link_settings`, before its three masks.
#[repr(C)]
struct UapiLinkSettings {
    cmd: u32,
    speed: u32,
    duplex: u8,
    port: u8,
    phy_address: u8,
    autoneg: u8,
    mdio_support: u8,
    eth_tp_mdix: u8,
    eth_tp_mdix_ctrl: u8,
    link_mode_masks_nwords: i8,
    transceiver: u8,
    master_slave_cfg: u8,
    master_slave_state: u8,
    rate_matching: u8,
    reserved: [u32; 7],
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

#[cfg(test)]
#[path = "ethtool_tests.rs"]
mod tests;
