//! The network interfaces of this namespace, with the addresses and flags that libpcap gives them.

use std::ffi::{CString, c_int};
use std::fs;
use std::path::Path;

use wirelane_os::ethtool::Ethtool;

use super::addresses;
use super::entry::{AddressEntry, DeviceEntry, flag};
use crate::failure::PcapFailure;

/// All interfaces, in the order of the C library.
///
/// # Errors
/// The system does not list them.
pub(super) fn interfaces() -> Result<Vec<DeviceEntry>, PcapFailure> {
    let listed = addresses::entries()
        .map_err(|error| PcapFailure::errno("getifaddrs", error.errno().unwrap_or(0)))?;
    let mut found: Vec<DeviceEntry> = Vec::new();
    for entry in listed {
        let name = without_label(entry.name);
        let place = found.iter().position(|known| known.name == name);
        let place = match place {
            Some(place) => place,
            None => {
                let flags = flags(name.to_str().ok(), entry.flags)?;
                found.push(DeviceEntry::new(name, flags));
                found.len() - 1
            }
        };
        let addresses::InterfaceAddress { address, netmask, broadcast, destination, .. } = entry;
        let Some(device) = found.get_mut(place).filter(|_| address.is_some()) else { continue };
        device.addresses.push(AddressEntry { address, netmask, broadcast, destination });
    }
    Ok(found)
}

/// `eth0:1` is another address of `eth0`.
fn without_label(name: CString) -> CString {
    let bytes = name.as_bytes();
    let Some(colon) = bytes.iter().position(|byte| *byte == b':') else { return name };
    let (own, label) = bytes.split_at(colon);
    if !label.iter().skip(1).all(u8::is_ascii_digit) {
        return name;
    }
    CString::new(own).unwrap_or_default()
}

/// `PCAP_IF_…` of an interface with these `IFF_…`.
fn flags(name: Option<&str>, system: u32) -> Result<u32, PcapFailure> {
    let own = [
        (libc::IFF_LOOPBACK, flag::LOOPBACK),
        (libc::IFF_UP, flag::UP),
        (libc::IFF_RUNNING, flag::RUNNING),
    ];
    let has = |(theirs, _): &(c_int, u32)| system & theirs.cast_unsigned() != 0;
    let flags = own.into_iter().filter(has).fold(0, |flags, (_, ours)| flags | ours);
    if flags & flag::LOOPBACK != 0 {
        return Ok(flags | flag::CONNECTION_NOT_APPLICABLE);
    }
    let Some(name) = name else { return Ok(flags) };
    let directory = Path::new("/sys/class/net").join(name);
    let mut wireless = directory.join("wireless").exists();
    if !wireless {
        let kind = fs::read_to_string(directory.join("type")).unwrap_or_default();
        match kind.trim().parse::<u16>() {
            Ok(libc::ARPHRD_LOOPBACK) => return Ok(flags),
            Ok(kind) => wireless = WIRELESS.contains(&kind),
            Err(_) => {}
        }
    }
    let flags = if wireless { flags | flag::WIRELESS } else { flags };
    Ok(flags | connection(name)?)
}

/// `ARPHRD_*` of wireless types: IrDA, three of IEEE 802.11, two of 802.15.4, 6LoWPAN.
const WIRELESS: [u16; 7] = [783, 801, 802, 803, 804, 805, 825];

/// The carrier state that the driver reports.
fn connection(name: &str) -> Result<u32, PcapFailure> {
    let link = Ethtool::open(name).and_then(|ethtool| ethtool.link());
    let error = match link {
        Ok(Some(true)) => return Ok(flag::CONNECTED),
        Ok(Some(false)) => return Ok(flag::DISCONNECTED),
        Ok(None) => return Ok(flag::CONNECTION_NOT_APPLICABLE),
        Err(error) => error,
    };
    match error.errno() {
        Some(libc::EINVAL) => Ok(flag::CONNECTION_NOT_APPLICABLE),
        // The interface has just disappeared; opening it will fail.
        Some(libc::ENODEV) => Ok(0),
        errno => {
            let what = format!("{name}: SIOCETHTOOL(ETHTOOL_GLINK) ioctl failed");
            Err(PcapFailure::errno(&what, errno.unwrap_or(0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_no_interfaces() {
        for (name, own) in [
            (c"eth0", c"eth0"),
            (c"eth0:1", c"eth0"),
            (c"eth0:", c"eth0"),
            (c"eth0:a", c"eth0:a"),
            (c"eth0:1a", c"eth0:1a"),
        ] {
            assert_eq!(without_label(name.to_owned()).as_c_str(), own);
        }
    }

    #[test]
    fn loopback_is_up() {
        let interfaces = interfaces().unwrap();
        let lo = interfaces.iter().find(|entry| entry.name.as_c_str() == c"lo").unwrap();
        let expected = flag::LOOPBACK | flag::UP | flag::RUNNING | flag::CONNECTION_NOT_APPLICABLE;
        assert_eq!(lo.flags, expected);
        assert!(lo.addresses.len() > 1);
    }
}
