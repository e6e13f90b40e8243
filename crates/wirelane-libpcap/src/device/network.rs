//! The IPv4 network of a device, for `pcap_lookupnet`.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use super::addresses;
use super::name::{NamedDevice, PREFIX, find};
use crate::failure::{PcapFailure, strerror};

/// The network and netmask of `device`, in network byte order; zeroes for `any`, Bluetooth and
/// usbmon devices.
///
/// # Errors
/// There is no such interface, or it has no IPv4 address.
pub(crate) fn network(device: &CStr) -> Result<(u32, u32), PcapFailure> {
    let bytes = device.to_bytes();
    let contains = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    if bytes == b"any" || contains(b"bluetooth") || contains(b"usbmon") {
        return Ok((0, 0));
    }
    let mut interface = device.to_owned();
    if bytes.starts_with(PREFIX.as_bytes()) {
        let found = find(OsStr::from_bytes(bytes)).map_err(PcapFailure::new)?;
        let own = match &found {
            NamedDevice::Port(opening) => {
                opening.interface().and_then(|name| CString::new(name).ok())
            }
            NamedDevice::Real => None,
        };
        match own {
            Some(own) => interface = own,
            None => return Ok((0, 0)),
        }
    }
    let (address, netmask) = addresses::ipv4_network(&interface).map_err(|error| {
        let (name, errno) = (device.to_string_lossy(), error.errno().unwrap_or(0));
        match (error.call, errno) {
            ("socket", _) => PcapFailure::errno("socket", errno),
            ("SIOCGIFADDR", libc::EADDRNOTAVAIL) => {
                PcapFailure::new(format!("{name}: no IPv4 address assigned"))
            }
            (call, _) => PcapFailure::new(format!("{call}: {name}: {}", strerror(errno))),
        }
    })?;
    let netmask = match netmask {
        0 => of_class(address)
            .ok_or_else(|| PcapFailure::new(format!("inet class for 0x{address:x} unknown")))?,
        netmask => netmask,
    };
    Ok((address & netmask, netmask))
}

/// The netmask of an address's class.
fn of_class(address: u32) -> Option<u32> {
    let [first, ..] = address.to_ne_bytes();
    let netmask = match first {
        0..=127 => [255, 0, 0, 0],
        128..=191 => [255, 255, 0, 0],
        192..=223 => [255, 255, 255, 0],
        _ => return None,
    };
    Some(u32::from_ne_bytes(netmask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let lo = (u32::from_ne_bytes([127, 0, 0, 0]), u32::from_ne_bytes([255, 0, 0, 0]));
        for (name, expected) in [
            (c"lo", lo),
            (c"wirelane:packet:lo@0", lo),
            (c"wirelane:sim:4", (0, 0)),
            (c"any", (0, 0)),
            (c"usbmon1", (0, 0)),
        ] {
            assert_eq!(network(name).unwrap(), expected, "{name:?}");
        }
        let text = |name| network(name).unwrap_err().text;
        assert_eq!(text(c"no-such-if"), "SIOCGIFADDR: no-such-if: No such device");
        assert!(text(c"wirelane:nothing:x").contains("no backend"));
    }

    #[test]
    fn classes() {
        let of = |first| of_class(u32::from_ne_bytes([first, 1, 2, 3])).map(u32::to_ne_bytes);
        assert_eq!(of(10), Some([255, 0, 0, 0]));
        assert_eq!(of(172), Some([255, 255, 0, 0]));
        assert_eq!(of(192), Some([255, 255, 255, 0]));
        assert_eq!(of(224), None);
    }
}
