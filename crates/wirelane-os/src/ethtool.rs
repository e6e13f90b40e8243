//! Information from a driver: the read-only `SIOCETHTOOL` requests, and three that change settings.
//!
//! Every request returns `None` when the driver does not implement it (`EOPNOTSUPP`), which is no
//! error: most virtual devices implement few. Other failures are errors. The interface is looked up
//! in the network namespace in which the [`Ethtool`] was opened. Only [`Ethtool::set_gro`],
//! [`Ethtool::set_tx_offload`] and [`Ethtool::set_features`] need a privilege.
//!
//! The kernel's structures are read at asserted offsets from a buffer of words, so that parsing is
//! safe code that tests can run on recorded answers.

mod answers;
mod features;
mod request;
mod uapi;

use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub use self::answers::{Channels, DriverInfo, Offloads, Rings, RssConfig};
use self::answers::{
    link_mode_words, parse_channels, parse_driver, parse_indirection, parse_offloads, parse_rings,
    parse_rss, parse_speed,
};
use self::request::{RequestBuffer, word};
use self::uapi::{
    ETHTOOL_GCHANNELS, ETHTOOL_GDRVINFO, ETHTOOL_GET_TS_INFO, ETHTOOL_GFLAGS, ETHTOOL_GGRO,
    ETHTOOL_GLINK, ETHTOOL_GLINKSETTINGS, ETHTOOL_GRINGPARAM, ETHTOOL_GRSSH, ETHTOOL_GRXFHINDIR,
    ETHTOOL_SGRO, ETHTOOL_STSO, ETHTOOL_STXCSUM, UapiChannels, UapiDrvinfo, UapiLinkSettings,
    UapiRingparam, UapiRxfh, UapiRxfhIndir, UapiValue,
};
use crate::error::{OsError, Result};

/// More buckets or key bytes than any device has; bounds allocations for a broken driver.
const MOST_ENTRIES: u32 = 1 << 16;

/// A handle for requests about one interface.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    name: String,
}

impl Ethtool {
    /// A handle for the interface `name` of the calling thread's network namespace. If it does not
    /// exist, the first request fails with `ENODEV`.
    ///
    /// # Errors
    /// `ENODEV` when no interface can have this name, or an error of socket(2).
    pub fn open(name: &str) -> Result<Ethtool> {
        // The last byte of the kernel's array is the terminating zero.
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(OsError::from_errno("ioctl SIOCETHTOOL", name, libc::ENODEV));
        }
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                // A kernel without IPv4 accepts the request on any socket.
                .or_else(|_| {
                    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                })
                .map_err(|errno| OsError::new("socket", name, errno))?;
        Ok(Ethtool { socket, name: name.to_owned() })
    }

    /// Driver, firmware and bus address.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn driver(&self) -> Result<Option<DriverInfo>> {
        let mut request = RequestBuffer::new(ETHTOOL_GDRVINFO, size_of::<UapiDrvinfo>());
        let known = self.ask("ioctl ETHTOOL_GDRVINFO", &mut request)?;
        Ok(known.then(|| parse_driver(&request.bytes())).flatten())
    }

    /// Channel counts.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn channels(&self) -> Result<Option<Channels>> {
        let mut request = RequestBuffer::new(ETHTOOL_GCHANNELS, size_of::<UapiChannels>());
        let known = self.ask("ioctl ETHTOOL_GCHANNELS", &mut request)?;
        Ok(known.then(|| parse_channels(&request.bytes())).flatten())
    }

    /// Ring sizes.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn rings(&self) -> Result<Option<Rings>> {
        let mut request = RequestBuffer::new(ETHTOOL_GRINGPARAM, size_of::<UapiRingparam>());
        let known = self.ask("ioctl ETHTOOL_GRINGPARAM", &mut request)?;
        Ok(known.then(|| parse_rings(&request.bytes())).flatten())
    }

    /// Hash function, key and indirection table of the default RSS context.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn rss(&self) -> Result<Option<RssConfig>> {
        // Sizes of 0 request the sizes (ethtool_get_rxfh). They can change before the second
        // request, which then fails with EINVAL, hence the second attempt.
        for attempt in 0..2 {
            let mut sizes = RequestBuffer::new(ETHTOOL_GRSSH, size_of::<UapiRxfh>());
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
            let mut whole = RequestBuffer::new(ETHTOOL_GRSSH, length);
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

    /// The offloads that are on.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn offloads(&self) -> Result<Offloads> {
        let mut gro = RequestBuffer::new(ETHTOOL_GGRO, size_of::<UapiValue>());
        let gro = self.ask("ioctl ETHTOOL_GGRO", &mut gro)?.then(|| gro.bytes());
        let mut flags = RequestBuffer::new(ETHTOOL_GFLAGS, size_of::<UapiValue>());
        let flags = self.ask("ioctl ETHTOOL_GFLAGS", &mut flags)?.then(|| flags.bytes());
        Ok(parse_offloads(gro.as_deref(), flags.as_deref()))
    }

    /// Switches generic receive offload on or off. On a veth this also decides whether it runs
    /// NAPI, without which it refuses redirected frames from its peer (`veth_set_features`,
    /// `veth_xdp_xmit`).
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` when it cannot be changed.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        self.switch("ioctl ETHTOOL_SGRO", ETHTOOL_SGRO, on)
    }

    /// Switches the device's transmit checksum offload on or off, and with it TCP segmentation,
    /// which needs it.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` when it cannot be changed.
    pub fn set_tx_offload(&self, on: bool) -> Result<()> {
        self.switch("ioctl ETHTOOL_STXCSUM", ETHTOOL_STXCSUM, on)?;
        self.switch("ioctl ETHTOOL_STSO", ETHTOOL_STSO, on)
    }

    fn switch(&self, call: &'static str, command: u32, on: bool) -> Result<()> {
        let mut request = RequestBuffer::new(command, size_of::<UapiValue>());
        request.set(offset_of!(UapiValue, data), u32::from(on));
        match self.ask(call, &mut request)? {
            true => Ok(()),
            false => Err(OsError::from_errno(call, self.name.as_str(), libc::EOPNOTSUPP)),
        }
    }

    /// Whether the device has a link. Since Linux 6.8, on devices that leave the answer to the
    /// kernel, such as veth and TAP (`ethtool_op_get_link`), earlier changes of the link have
    /// reached the interface's queues when this returns.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn link(&self) -> Result<Option<bool>> {
        let mut request = RequestBuffer::new(ETHTOOL_GLINK, size_of::<UapiValue>());
        let known = self.ask("ioctl ETHTOOL_GLINK", &mut request)?;
        let value = known.then(|| word(&request.bytes(), offset_of!(UapiValue, data))).flatten();
        Ok(value.map(|value| value != 0))
    }

    /// The link's speed in Mbit/s; `None` also while the link is down, or for a device without a
    /// speed.
    ///
    /// # Errors
    /// The error of the kernel, except `EOPNOTSUPP`.
    pub fn speed(&self) -> Result<Option<u32>> {
        let mut shape = RequestBuffer::new(ETHTOOL_GLINKSETTINGS, size_of::<UapiLinkSettings>());
        if !self.ask("ioctl ETHTOOL_GLINKSETTINGS", &mut shape)? {
            return Ok(None);
        }
        // For a wrong number of mask words, the kernel only returns the negated right number
        // (ethtool_get_link_ksettings).
        let Some(words) = link_mode_words(&shape.bytes()) else { return Ok(None) };
        let length = size_of::<UapiLinkSettings>() + 3 * 4 * usize::from(words);
        let mut whole = RequestBuffer::new(ETHTOOL_GLINKSETTINGS, length);
        whole.set_byte(offset_of!(UapiLinkSettings, link_mode_masks_nwords), words);
        let known = self.ask("ioctl ETHTOOL_GLINKSETTINGS", &mut whole)?;
        Ok(known.then(|| parse_speed(&whole.bytes())).flatten())
    }

    /// The number of the device's clock (`/dev/ptpN`); `None` if it has none.
    ///
    /// # Errors
    /// The error of the kernel, unless the driver does not implement the request.
    pub fn clock(&self) -> Result<Option<u32>> {
        let number = self.timestamping()?.and_then(|answer| word(&answer, 2 * 4));
        // -1 means none.
        Ok(number.filter(|number| number.cast_signed() >= 0))
    }

    /// The components that can time-stamp every received packet, as bits `SOF_TIMESTAMPING_…` of
    /// `linux/net_tstamp.h`: none if the device stamps only some packets. `None` if the driver does
    /// not implement the request.
    ///
    /// # Errors
    /// The error of the kernel, unless the driver does not implement the request.
    pub fn timestamps(&self) -> Result<Option<u32>> {
        /// `HWTSTAMP_FILTER_ALL`
        const ALL: u32 = 1 << 1;
        let Some(answer) = self.timestamping()? else { return Ok(None) };
        let all = word(&answer, 7 * 4).is_some_and(|filters| filters & ALL != 0);
        Ok(Some(word(&answer, 4).filter(|_| all).unwrap_or(0)))
    }

    /// `struct ethtool_ts_info`: cmd, so_timestamping, phc_index, tx_types, three reserved words,
    /// rx_filters, three reserved words.
    fn timestamping(&self) -> Result<Option<Vec<u8>>> {
        let mut request = RequestBuffer::new(ETHTOOL_GET_TS_INFO, 11 * 4);
        let known = self.ask("ioctl ETHTOOL_GET_TS_INFO", &mut request)?;
        Ok(known.then(|| request.bytes()))
    }

    /// Only the indirection table, for drivers without `ETHTOOL_GRSSH`.
    fn indirection_only(&self) -> Result<Option<RssConfig>> {
        let mut size = RequestBuffer::new(ETHTOOL_GRXFHINDIR, size_of::<UapiRxfhIndir>());
        if !self.ask("ioctl ETHTOOL_GRXFHINDIR", &mut size)? {
            return Ok(None);
        }
        let entries =
            word(&size.bytes(), offset_of!(UapiRxfhIndir, size)).unwrap_or(0).min(MOST_ENTRIES);
        let length = size_of::<UapiRxfhIndir>() + entries as usize * 4;
        let mut whole = RequestBuffer::new(ETHTOOL_GRXFHINDIR, length);
        whole.set(offset_of!(UapiRxfhIndir, size), entries);
        let known = self.ask("ioctl ETHTOOL_GRXFHINDIR", &mut whole)?;
        Ok(known.then(|| parse_indirection(&whole.bytes())).flatten())
    }

    /// Makes the request; `false` when the driver does not implement it.
    fn ask(&self, call: &'static str, request: &mut RequestBuffer) -> Result<bool> {
        // SAFETY: ifreq is plain data for which all zeroes is valid.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        // The array ends with a zero, because open() limits the length of the name.
        for (to, from) in ifreq.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_data = request.words.as_mut_ptr().cast();
        // SAFETY: the descriptor is open, ifreq is a valid structure that the kernel reads, and
        // ifru_data points to a buffer that holds the whole structure of the command, including the
        // variable part whose size the command's header announces. The kernel writes no more than
        // that, and nobody else has the buffer borrowed.
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

#[cfg(test)]
#[path = "ethtool_tests.rs"]
mod tests;
