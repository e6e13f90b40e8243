//! The addresses of all interfaces, as getifaddrs(3) gives them, and the IPv4 network of one.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use wirelane_os::{OsError, Result};

/// One address of an interface, or an interface without one. All entries of an interface have its
/// name and flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// The name; `eth0:1` for an address with such a label.
    pub(crate) name: CString,
    /// `IFF_*` flags.
    pub(crate) flags: u32,
    /// The address: a `struct sockaddr` of the size that its family has. The others are as long.
    pub(crate) address: Option<Vec<u8>>,
    /// Its netmask.
    pub(crate) netmask: Option<Vec<u8>>,
    /// The broadcast address, of an interface that has such ones.
    pub(crate) broadcast: Option<Vec<u8>>,
    /// The address of the other end, of an interface from point to point.
    pub(crate) destination: Option<Vec<u8>>,
}

/// All entries, in the order of the C library: the interfaces with their link-layer addresses, then
/// IP addresses.
///
/// # Errors
/// What getifaddrs(3) gives.
pub(crate) fn entries() -> Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list of its own, which is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(OsError::last("getifaddrs", ""));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: every element of the list is valid until it is freed, and its end is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        // SAFETY: the name of an element is a string, and an address is null or as long as its
        // family says. Netmask and address are of one family.
        found.push(unsafe {
            let other = |address| copy(address, None);
            let size = entry.ifa_addr.as_ref().map(|address| size_of_family(address.sa_family));
            InterfaceAddress {
                name: CStr::from_ptr(entry.ifa_name).to_owned(),
                flags: entry.ifa_flags,
                address: other(entry.ifa_addr),
                netmask: size.and_then(|size| copy(entry.ifa_netmask, Some(size))),
                broadcast: has(libc::IFF_BROADCAST).then(|| other(entry.ifa_ifu)).flatten(),
                destination: has(libc::IFF_POINTOPOINT).then(|| other(entry.ifa_ifu)).flatten(),
            }
        });
    }
    // SAFETY: the list from above, freed once.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The first IPv4 address of the interface `name` and its netmask, both in network byte order.
/// `name` may be a label such as `eth0:1`; beyond what the kernel knows of a name it is cut.
///
/// # Errors
/// `EADDRNOTAVAIL` if it has none, `ENODEV` if there is no such interface.
pub(crate) fn ipv4_network(name: &CStr) -> Result<(u32, u32)> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let socket = socket.map_err(|errno| OsError::new("socket", "AF_INET", errno))?;
    let ask = |command, call: &'static str| {
        // SAFETY: `ifreq` is plain data, of which all zeroes is a valid value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.to_bytes()) {
            *to = from.cast_signed() as libc::c_char;
        }
        request.ifr_ifru.ifru_addr.sa_family = libc::AF_INET as libc::sa_family_t;
        // SAFETY: both commands take an `ifreq` and write nothing beyond it.
        if unsafe { libc::ioctl(socket.as_raw_fd(), command, &mut request) } != 0 {
            return Err(OsError::last(call, name.to_string_lossy()));
        }
        // SAFETY: the command filled this member of the union with a `sockaddr_in`, which is as
        // large as a `sockaddr`.
        let address: libc::sockaddr_in = unsafe {
            std::ptr::from_ref(&request.ifr_ifru.ifru_addr)
                .cast::<libc::sockaddr_in>()
                .read_unaligned()
        };
        Ok(address.sin_addr.s_addr)
    };
    Ok((ask(libc::SIOCGIFADDR, "SIOCGIFADDR")?, ask(libc::SIOCGIFNETMASK, "SIOCGIFNETMASK")?))
}

/// The bytes of an address, of the size of its family or of another one.
///
/// # Safety
/// It is null or so long.
unsafe fn copy(address: *const libc::sockaddr, size: Option<usize>) -> Option<Vec<u8>> {
    // SAFETY: by contract.
    let family = unsafe { address.as_ref() }?.sa_family;
    let size = size.unwrap_or_else(|| size_of_family(family));
    // SAFETY: by contract.
    Some(unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) }.to_vec())
}

fn size_of_family(family: libc::sa_family_t) -> usize {
    match libc::c_int::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        libc::AF_PACKET => size_of::<libc::sockaddr_ll>(),
        _ => size_of::<libc::sockaddr>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no getifaddrs")]
    fn loopback_has_its_addresses() {
        let entries = entries().unwrap();
        let of = |family: libc::c_int| {
            entries.iter().find(|entry| {
                let address = entry.address.as_deref().unwrap_or_default();
                let expected = (family as libc::sa_family_t).to_ne_bytes();
                entry.name.as_c_str() == c"lo" && address.starts_with(&expected)
            })
        };
        let hardware = of(libc::AF_PACKET).unwrap();
        assert_eq!(hardware.address.as_ref().unwrap().len(), 20);
        assert_eq!(hardware.netmask, None);
        let ip = of(libc::AF_INET).unwrap();
        assert_eq!(ip.address.as_ref().unwrap()[4..8], [127, 0, 0, 1]);
        assert_eq!(ip.netmask.as_ref().unwrap()[4..8], [255, 0, 0, 0]);
        assert_eq!((&ip.broadcast, &ip.destination), (&None, &None));
        assert!(ip.flags & libc::IFF_LOOPBACK as u32 != 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no interfaces")]
    fn networks_are_in_network_byte_order() {
        let (address, netmask) = ipv4_network(c"lo").unwrap();
        assert_eq!(address.to_ne_bytes(), [127, 0, 0, 1]);
        assert_eq!(netmask.to_ne_bytes(), [255, 0, 0, 0]);
        let error = ipv4_network(c"no-such-interface-at-all").unwrap_err();
        assert_eq!((error.call, error.errno()), ("SIOCGIFADDR", Some(libc::ENODEV)));
    }
}
