//! One end of a lab.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Serialize, Serializer};
use wirelane::error::{Error, Result};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::{OsError, iface, netns};

/// One end of a lab, or of an existing cable.
#[derive(Debug)]
pub struct Site {
    pub(crate) namespace: OwnedFd,
    /// Whether the namespace is the caller's, so that no thread has to enter it.
    pub(crate) is_own: bool,
    /// The interface at the cable.
    pub(crate) wire: Cow<'static, str>,
    pub(crate) interface: Cow<'static, str>,
    /// Link-layer address of its interface.
    pub mac: [u8; 6],
    /// Address of its interface, in a network that contains both ends.
    pub address: Ipv4Addr,
    /// Its IPv6 address, if IPv6 is on.
    pub address6: Option<IpAddr>,
}

/// Which end of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The near one.
    A,
    /// The far one.
    B,
}

impl Site {
    /// An existing interface in the network namespace of the calling thread. Threads must use it in
    /// that namespace. Without an IPv4 address, `address` is 0.0.0.0.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn here(interface: &str) -> Result<Self> {
        let failed = |error| refused(format!("interface {interface}"), error);
        let namespace = netns::current().map_err(failed)?;
        iface::index(interface).map_err(failed)?;
        let mac = iface::mac(interface).map_err(failed)?;
        let addresses = iface::addresses(interface).map_err(failed)?;
        let of4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        };
        let address = addresses.iter().find_map(of4).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let address6 = addresses.into_iter().find(IpAddr::is_ipv6);
        let name = Cow::<'static, str>::Owned(interface.to_owned());
        let (wire, interface) = (name.clone(), name);
        Ok(Self { namespace, is_own: true, wire, interface, mac, address, address6 })
    }

    /// The name of the interface with its addresses.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Switches generic receive offload on or off. It is off unless
    /// [`LabConfig::offloads`](crate::LabConfig::offloads) enables it. With it, or with an XDP
    /// program in native mode, the interface accepts frames that the other end redirects to it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        let set = || Ethtool::open(&self.wire).and_then(|ethtool| ethtool.set_gro(on));
        self.inside(set)?.map_err(failed)
    }

    /// Calls `action` with the calling thread in its namespace. Sockets, threads and programs that
    /// `action` starts stay there.
    ///
    /// # Errors
    /// The thread has lost CAP_SYS_ADMIN.
    pub fn inside<T>(&self, action: impl FnOnce() -> T) -> Result<T> {
        let enter = || netns::enter(&self.namespace).map_err(failed);
        let _inside = (!self.is_own).then(enter).transpose()?;
        Ok(action())
    }
}

impl AsFd for Site {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::A, Side::B];

    /// The name of its veth interface.
    pub const fn wire(self) -> &'static str {
        match self {
            Side::A => "wl-a",
            Side::B => "wl-b",
        }
    }

    /// The name of its TAP device, if it has one.
    pub const fn tap(self) -> &'static str {
        match self {
            Side::A => "tap-a",
            Side::B => "tap-b",
        }
    }

    /// The number of its addresses in their networks.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Side::A => 1,
            Side::B => 2,
        }
    }

    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Side::A => "a",
            Side::B => "b",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

impl std::str::FromStr for Side {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let side = Side::ALL.into_iter().find(|side| side.letter() == text);
        side.ok_or_else(|| Error::usage(format!("end '{text}'"), "a lab has the ends a and b"))
    }
}

impl Serialize for Side {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.letter())
    }
}

pub(crate) fn failed(error: OsError) -> Error {
    refused("lab of two network namespaces", error)
}

/// A refusal of the system, with the remedy if it is known.
pub(crate) fn refused(object: impl Into<String>, error: OsError) -> Error {
    let errno = error.errno().map(rustix::io::Errno::from_raw_os_error);
    let error = Error::os(object, error);
    match errno {
        Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {
            error.help("it needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_have_letters() {
        for side in Side::ALL {
            assert_eq!(side.to_string().parse::<Side>().unwrap(), side);
        }
        assert!("c".parse::<Side>().is_err());
    }
}
