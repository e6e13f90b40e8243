//! A bed of its own for experiments: two network namespaces, joined by a multi-queue veth pair.
//!
//! ```text
//!    near namespace, "a"            far namespace, "b"
//!   ┌────────────────┐             ┌────────────────┐
//!   │ wl-a     queues├─────────────┤ wl-b     queues│
//!   │ 10.87.0.1/24   │             │ 10.87.0.2/24   │
//!   └────────────────┘             └────────────────┘
//! ```
//!
//! The namespaces of a [`Lab`] have no name and nothing else knows them: they and all that is in them
//! end with it, or with the process, however that ends. Those of a [`NamedLab`] stay until it is taken
//! down, and any program can be run in them. No interface of the host is touched, and any number of
//! labs can be there at once.
//!
//! With [`LabConfig::taps`], the stack of an end is behind a TAP device, and its veth interface is the
//! bare end of a cable. What joins the two is the program under test:
//!
//! ```text
//!    near namespace, "a"
//!   ┌──────────────────────────────────────────────────────┐
//!   │ tap-a         ─▶ wirelane forward ─▶            wl-a ├──────
//!   │ 10.87.0.1/24     tap:tap-a packet:wl-a               │
//!   └──────────────────────────────────────────────────────┘
//! ```

mod build;
pub mod live;
mod mark;
mod named;
mod processes;
mod shape;
mod status;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Serialize, Serializer};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::{OsError, netns};

pub use self::named::{Change, Down, NamedLab};
pub use self::processes::Process;
pub use self::shape::{IPV6_NETWORK, LabConfig, Network, Offloads, Taps};
pub use self::status::{InterfaceStatus, LabStatus, SiteStatus, State};
use wirelane::error::{Error, Result};

/// Two namespaces and what joins them, until it is dropped.
#[derive(Debug)]
pub struct Lab {
    /// One end.
    pub near: Site,
    /// The other one.
    pub far: Site,
}

/// One end of a lab.
#[derive(Debug)]
pub struct Site {
    namespace: OwnedFd,
    side: Side,
    interface: &'static str,
    /// Link-layer address of its interface.
    pub mac: [u8; 6],
    /// Address of its interface, of a network that holds both ends.
    pub address: Ipv4Addr,
    /// The same of IPv6, where it is on.
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

impl Lab {
    /// Makes one. Both interfaces take packets, and know each other's address for good.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN or CAP_NET_ADMIN is missing, the shape is impossible, or the kernel has no veth.
    pub fn new(config: LabConfig) -> Result<Self> {
        let [near, far] = build::build(&config)?;
        Ok(Self { near, far })
    }
}

impl Site {
    /// The name of the interface with its addresses.
    pub fn interface(&self) -> &str {
        self.interface
    }

    /// Switches generic receive offload on or off. It is off at first; with it, or with an XDP program in
    /// native mode, the interface takes frames that the other end redirects to it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        let set = || Ethtool::open(self.side.wire()).and_then(|ethtool| ethtool.set_gro(on));
        self.inside(set)?.map_err(failed)
    }

    /// Calls `action` with the calling thread in its namespace. Sockets opened meanwhile stay there, and
    /// so do threads and programs started meanwhile.
    ///
    /// # Errors
    /// The thread has lost CAP_SYS_ADMIN.
    pub fn inside<T>(&self, action: impl FnOnce() -> T) -> Result<T> {
        let _inside = netns::enter(&self.namespace).map_err(failed)?;
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

    /// The name of its TAP device, where it has one.
    pub const fn tap(self) -> &'static str {
        match self {
            Side::A => "tap-a",
            Side::B => "tap-b",
        }
    }

    /// The number of its addresses in their networks.
    const fn number(self) -> u8 {
        match self {
            Side::A => 1,
            Side::B => 2,
        }
    }

    const fn letter(self) -> &'static str {
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

fn failed(error: OsError) -> Error {
    refused("lab of two network namespaces", error)
}

/// A refusal of the system, and what to do about it where that is known.
fn refused(object: impl Into<String>, error: OsError) -> Error {
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
    use std::net::UdpSocket;
    use std::time::Duration;
    use wirelane_os::iface;
    use wirelane_testkit::privileged;

    #[test]
    fn privileged_two_labs_carry_packets_and_leave_nothing() {
        if !privileged::require() {
            return;
        }
        let before = iface::list().unwrap();
        for _ in 0..2 {
            let labs = [1, 3].map(|queues| {
                Lab::new(LabConfig { queues, mtu: 3000, ..LabConfig::default() }).unwrap()
            });
            for lab in &labs {
                let open = |site: &Site| {
                    let socket = site.inside(|| UdpSocket::bind((site.address, 7))).unwrap();
                    let socket = socket.unwrap();
                    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    socket
                };
                let (near, far) = (open(&lab.near), open(&lab.far));
                near.send_to(&[7; 2900], (lab.far.address, 7)).unwrap();
                let mut buffer = [0; 4096];
                let (length, from) = far.recv_from(&mut buffer).unwrap();
                assert_eq!((length, from.ip()), (2900, lab.near.address.into()));
            }
            assert_eq!(iface::list().unwrap(), before, "nothing shows on the host");
        }
    }

    #[test]
    fn an_impossible_shape_is_refused_before_anything_is_made() {
        let error = Lab::new(LabConfig { queues: 0, ..LabConfig::default() }).unwrap_err();
        assert!(error.to_string().starts_with("shape of a lab: 0 queues"), "{error}");
    }

    #[test]
    fn sides_have_letters() {
        for side in Side::ALL {
            assert_eq!(side.to_string().parse::<Side>().unwrap(), side);
        }
        assert!("c".parse::<Side>().is_err());
    }
}
