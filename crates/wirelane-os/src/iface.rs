//! Interfaces by name and index, in the calling thread's network namespace.

use crate::error::{OsError, Result};
use crate::ethtool::Ethtool;
use crate::netdev::links::LinkReader;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::CStr;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// The longest interface name in bytes.
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Interface flags (`IFF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Administratively up.
    pub fn is_up(self) -> bool {
        self.has(libc::IFF_UP)
    }

    /// Operational: the interface has a carrier.
    pub fn is_running(self) -> bool {
        self.has(libc::IFF_RUNNING)
    }

    /// A loopback.
    pub fn is_loopback(self) -> bool {
        self.has(libc::IFF_LOOPBACK)
    }

    /// The bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    fn has(self, flag: libc::c_int) -> bool {
        libc::c_int::from(self.0) & flag != 0
    }
}

/// The index of an interface.
///
/// # Errors
/// `ENODEV` when no interface has this name, `EINVAL` for an invalid name.
pub fn index(name: &str) -> Result<u32> {
    index_by(control()?.as_fd(), name)
}

/// [`index`] and [`link_type`] in the namespace of `socket`.
pub(crate) fn find_by(socket: BorrowedFd<'_>, name: &str) -> Result<(u32, u16)> {
    let index = index_by(socket, name)?;
    Ok((index, hardware_address_by(socket, name)?.0))
}

fn index_by(socket: BorrowedFd<'_>, name: &str) -> Result<u32> {
    let mut request = request(name, "ioctl SIOCGIFINDEX")?;
    ioctl_by(socket, &mut request, libc::SIOCGIFINDEX, "ioctl SIOCGIFINDEX", name)?;
    // SAFETY: SIOCGIFINDEX filled this member of the union.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(|_| OsError::from_errno("ioctl SIOCGIFINDEX", name, libc::ERANGE))
}

/// The name of an interface.
///
/// # Errors
/// `ENODEV` when no interface has this index.
pub fn name(index: u32) -> Result<String> {
    let object = || format!("interface index {index}");
    rustix::net::netdevice::index_to_name(control()?, index)
        .map_err(|errno| OsError::new("ioctl SIOCGIFNAME", object(), errno))
}

/// Whether an interface of this name exists.
///
/// # Errors
/// The errors of socket(2).
pub fn exists(name: &str) -> Result<bool> {
    match index(name) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.errno(), Some(libc::ENODEV | libc::EINVAL)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Every interface, as index and name, in order of the index.
///
/// # Errors
/// The errors of if_nameindex(3). A name that is not UTF-8 has replacement characters.
pub fn list() -> Result<Vec<(u32, String)>> {
    // SAFETY: takes nothing; what it gives is freed below.
    let first = unsafe { libc::if_nameindex() };
    if first.is_null() {
        return Err(OsError::last("if_nameindex", ""));
    }
    let mut interfaces = Vec::new();
    let mut next = first;
    // SAFETY: the array ends with an entry of index 0 and null name, and entries before it have a
    // valid C string.
    unsafe {
        while (*next).if_index != 0 && !(*next).if_name.is_null() {
            let name = CStr::from_ptr((*next).if_name).to_string_lossy().into_owned();
            interfaces.push(((*next).if_index, name));
            next = next.add(1);
        }
        libc::if_freenameindex(first);
    }
    interfaces.sort();
    Ok(interfaces)
}

/// The flags of an interface.
///
/// # Errors
/// As [`index`].
pub fn flags(name: &str) -> Result<Flags> {
    flags_by(control()?.as_fd(), name)
}

/// As [`flags`], through an existing socket, in its namespace.
pub(crate) fn flags_by(socket: BorrowedFd<'_>, name: &str) -> Result<Flags> {
    let mut request = request(name, "ioctl SIOCGIFFLAGS")?;
    ioctl_by(socket, &mut request, libc::SIOCGIFFLAGS, "ioctl SIOCGIFFLAGS", name)?;
    // SAFETY: SIOCGIFFLAGS filled this member of the union.
    Ok(Flags(unsafe { request.ifr_ifru.ifru_flags } as u16))
}

/// Sets an interface administratively up.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN, and as [`index`].
pub fn up(name: &str) -> Result<()> {
    set_up(name, true)
}

/// Sets an interface administratively down.
///
/// # Errors
/// As [`up`].
pub fn down(name: &str) -> Result<()> {
    set_up(name, false)
}

/// Waits until an interface that is up accepts packets.
///
/// An interface does not take packets at once. If the carrier appears after the interface is up, as
/// on the first end of a veth pair, a worker activates the queues. It runs at most once per second
/// (`linkwatch_schedule_work`, net/core/link_watch.c); before that, the queues drop all packets.
///
/// # Errors
/// `ETIMEDOUT` when it has no carrier after `limit`, and as [`up`].
pub fn wait_until_running(name: &str, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    let (ethtool, mut link) = (Ethtool::open(name)?, LinkReader::open(name)?);
    loop {
        // In this order. Before the worker's first run, the state of an interface is unknown, which
        // counts as running (`netif_oper_up`), whatever its queues do. The request for the link
        // does the worker's work.
        if ethtool.link()? != Some(false) && link.read()?.is_running() {
            // The flag is set before the activation, under a lock that setting flags also takes.
            return up(name);
        }
        if Instant::now() >= deadline {
            return Err(OsError::from_errno("waiting for the carrier", name, libc::ETIMEDOUT));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The largest payload of a frame in bytes, without the link-layer header.
///
/// # Errors
/// As [`index`].
pub fn mtu(name: &str) -> Result<u32> {
    mtu_by(control()?.as_fd(), name)
}

/// As [`mtu`], through an existing socket, in its namespace.
pub(crate) fn mtu_by(socket: BorrowedFd<'_>, name: &str) -> Result<u32> {
    let mut request = request(name, "ioctl SIOCGIFMTU")?;
    ioctl_by(socket, &mut request, libc::SIOCGIFMTU, "ioctl SIOCGIFMTU", name)?;
    // SAFETY: SIOCGIFMTU filled this member of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| OsError::from_errno("ioctl SIOCGIFMTU", name, libc::ERANGE))
}

/// Sets the largest payload of a frame in bytes, without the link-layer header.
///
/// # Errors
/// `EINVAL` for sizes that the driver refuses, `EPERM` without CAP_NET_ADMIN, and as [`index`].
pub fn set_mtu(name: &str, mtu: u32) -> Result<()> {
    const CALL: &str = "ioctl SIOCSIFMTU";
    let mut request = request(name, CALL)?;
    let mtu = libc::c_int::try_from(mtu);
    request.ifr_ifru.ifru_mtu = mtu.map_err(|_| OsError::from_errno(CALL, name, libc::EINVAL))?;
    ioctl(&mut request, libc::SIOCSIFMTU, CALL, name)
}

/// The link type (`ARPHRD_*`) of an interface, e.g. 1 for Ethernet, 772 for a loopback, 65534 for
/// none.
///
/// # Errors
/// As [`index`].
pub fn link_type(name: &str) -> Result<u16> {
    Ok(hardware_address(name)?.0)
}

/// The link-layer address of an interface with 6-byte addresses; meaningless for other link types.
///
/// # Errors
/// As [`index`].
pub fn mac(name: &str) -> Result<[u8; 6]> {
    Ok(hardware_address(name)?.1)
}

/// The IP addresses of an interface, in the kernel's order.
///
/// # Errors
/// As [`index`], and the errors of getifaddrs(3).
pub fn addresses(name: &str) -> Result<Vec<IpAddr>> {
    index(name)?;
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list of its own, which is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(OsError::last("getifaddrs", name));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: every element of the list is valid until it is freed, and its end is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the name of an element is a string.
        let own = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: an address is null or at least as long as its family says; only the family is
        // read here.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| i32::from(address.sa_family));
        if own.to_bytes() != name.as_bytes() {
            continue;
        }
        match family {
            Some(libc::AF_INET) => {
                // SAFETY: an address of this family is a `sockaddr_in`.
                let address =
                    unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                found.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
            }
            Some(libc::AF_INET6) => {
                // SAFETY: an address of this family is a `sockaddr_in6`.
                let address =
                    unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
                found.push(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
            }
            _ => {}
        }
    }
    // SAFETY: the list from above, freed once.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn hardware_address(name: &str) -> Result<(u16, [u8; 6])> {
    hardware_address_by(control()?.as_fd(), name)
}

fn hardware_address_by(socket: BorrowedFd<'_>, name: &str) -> Result<(u16, [u8; 6])> {
    let mut request = request(name, "ioctl SIOCGIFHWADDR")?;
    ioctl_by(socket, &mut request, libc::SIOCGIFHWADDR, "ioctl SIOCGIFHWADDR", name)?;
    // SAFETY: SIOCGIFHWADDR filled this member of the union.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let [a, b, c, d, e, f, ..] = bytes(address.sa_data);
    Ok((address.sa_family, [a, b, c, d, e, f]))
}

fn set_up(name: &str, up: bool) -> Result<()> {
    const CALL: &str = "ioctl SIOCSIFFLAGS";
    let Flags(bits) = flags(name)?;
    let bit = libc::IFF_UP as u16;
    let mut request = request(name, CALL)?;
    request.ifr_ifru.ifru_flags = (if up { bits | bit } else { bits & !bit }) as libc::c_short;
    ioctl(&mut request, libc::SIOCSIFFLAGS, CALL, name)
}

/// Converts C characters to bytes: they are signed on some processors only.
pub(crate) fn bytes<const N: usize>(characters: [libc::c_char; N]) -> [u8; N] {
    characters.map(|character| {
        let [byte] = character.to_ne_bytes();
        byte
    })
}

/// An `ifreq` with the name, otherwise zero.
pub(crate) fn request(name: &str, call: &'static str) -> Result<libc::ifreq> {
    let bytes = name.as_bytes();
    // dev_valid_name() in net/core/dev.c
    let impossible = bytes.is_empty()
        || bytes.len() > NAME_MAX
        || name == "."
        || name == ".."
        || bytes.iter().any(|b| *b == 0 || *b == b'/' || *b == b':' || b.is_ascii_whitespace());
    if impossible {
        return Err(OsError::from_errno(call, name.escape_debug().to_string(), libc::EINVAL));
    }
    // SAFETY: `ifreq` is plain data, of which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

fn ioctl(
    request: &mut libc::ifreq,
    command: libc::c_ulong,
    call: &'static str,
    name: &str,
) -> Result<()> {
    ioctl_by(control()?.as_fd(), request, command, call, name)
}

fn ioctl_by(
    socket: BorrowedFd<'_>,
    request: &mut libc::ifreq,
    command: libc::c_ulong,
    call: &'static str,
    name: &str,
) -> Result<()> {
    // The C library chooses the type of a command: `int` in musl, as in POSIX.
    // SAFETY: every command used here takes an `ifreq` and writes nothing beyond it.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), command as libc::Ioctl, request) };
    if status == 0 { Ok(()) } else { Err(OsError::last(call, name)) }
}

/// Interface requests accept any socket, which binds them to the calling thread's network
/// namespace.
fn control() -> Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| OsError::new("socket", "AF_INET", errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no getifaddrs")]
    fn loopback_has_its_address() {
        assert!(addresses("lo").unwrap().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(addresses("no-such-if").is_err());
    }

    use crate::testing;

    #[test]
    fn loopback_is_there() {
        let lo = index("lo").unwrap();
        assert_eq!(name(lo).unwrap(), "lo");
        assert!(exists("lo").unwrap());
        assert!(flags("lo").unwrap().is_loopback());
        assert!(mtu("lo").unwrap() >= 1500);
        assert_eq!(link_type("lo").unwrap(), libc::ARPHRD_LOOPBACK);
        assert_eq!(mac("lo").unwrap(), [0; 6]);
        assert!(list().unwrap().contains(&(lo, "lo".to_owned())));
    }

    #[test]
    fn unknown_interface() {
        assert!(!exists("wl-none").unwrap());
        let error = index("wl-none").unwrap_err();
        assert_eq!(error.to_string(), "ioctl SIOCGIFINDEX(wl-none): No such device (ENODEV)");
        assert_eq!(name(u32::MAX).unwrap_err().errno(), Some(libc::ENODEV));
    }

    #[test]
    fn impossible_names() {
        for name in ["", ".", "..", "a b", "a/b", "a:1", "sixteen-bytes-xx", "nul\0nul"] {
            assert_eq!(index(name).unwrap_err().errno(), Some(libc::EINVAL), "{name:?}");
            assert!(!exists(name).unwrap());
        }
    }

    #[test]
    fn privileged_up_and_down() {
        testing::in_new_namespace(|| {
            assert!(flags("lo").unwrap().is_up());
            down("lo").unwrap();
            assert!(!flags("lo").unwrap().is_up());
            up("lo").unwrap();
            assert!(flags("lo").unwrap().is_up());
        });
    }
}
