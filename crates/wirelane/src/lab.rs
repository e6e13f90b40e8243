//! A bed of its own for experiments: two network namespaces, joined by a multi-queue veth pair.
//!
//! ```text
//!    near namespace                    far namespace
//!   ┌────────────────┐                ┌────────────────┐
//!   │ wl-near  queues├────────────────┤ wl-far   queues│
//!   │ 10.87.0.1/24   │                │ 10.87.0.2/24   │
//!   └────────────────┘                └────────────────┘
//! ```
//!
//! The namespaces have no name and nothing else knows them: they and all that is in them end with
//! the [`Lab`], or with the process, however that ends. No interface of the host is touched, and any
//! number of labs can be open at once.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use wirelane_os::ethtool::Ethtool;
use wirelane_os::link::{self, VethEnd};
use wirelane_os::{OsError, iface, netns};

use crate::error::{Error, Result};

/// How long the kernel may take to see that both ends of a pair are up; it needs a second at most.
const CARRIER: Duration = Duration::from_secs(10);

/// The shape of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabConfig {
    /// Receive queues, and as many transmit queues, of each interface.
    pub queues: u16,
    /// Largest payload of a frame in bytes.
    pub mtu: u32,
}

impl Default for LabConfig {
    fn default() -> Self {
        Self { queues: 1, mtu: 1500 }
    }
}

/// Two namespaces and what joins them.
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
    interface: &'static str,
    /// Link-layer address of its interface.
    pub mac: [u8; 6],
    /// Address of its interface, of a /24 network that holds both ends.
    pub address: Ipv4Addr,
}

impl Lab {
    /// Makes one. Both interfaces take packets, and know each other's address for good; IPv6 is off, so that
    /// nothing is on the wire but what is sent.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN or CAP_NET_ADMIN is missing, or the kernel has no veth or refuses the shape.
    pub fn new(config: LabConfig) -> Result<Self> {
        let site = |interface, host| -> Result<Site> {
            let namespace = netns::anonymous().map_err(failed)?;
            let mac = [0x02, 0x57, 0x4c, 0, 0, host];
            Ok(Site { namespace, interface, mac, address: Ipv4Addr::new(10, 87, 0, host) })
        };
        let lab = Self { near: site("wl-near", 1)?, far: site("wl-far", 2)? };
        for site in [&lab.near, &lab.far] {
            site.inside(silence_ipv6)?;
        }
        let ends = [&lab.near, &lab.far].map(|site| VethEnd {
            name: site.interface,
            namespace: site.namespace.as_fd(),
            mac: site.mac,
        });
        // In a namespace of the lab, so that no name of the host can be in the way.
        let made =
            lab.near.inside(|| link::create_veth(ends, u32::from(config.queues), config.mtu))?;
        made.map_err(failed)?;
        for (site, peer) in [(&lab.near, &lab.far), (&lab.far, &lab.near)] {
            site.inside(|| {
                iface::up(site.interface)?;
                link::add_address(site.interface, site.address, 24)?;
                link::add_neighbour(site.interface, peer.address, peer.mac)
            })?
            .map_err(failed)?;
        }
        for site in [&lab.near, &lab.far] {
            site.inside(|| iface::wait_until_running(site.interface, CARRIER))?.map_err(failed)?;
        }
        Ok(lab)
    }
}

impl Site {
    /// The name of its interface.
    pub fn interface(&self) -> &str {
        self.interface
    }

    /// Switches generic receive offload on or off. It is off at first; with it, or with an XDP program in
    /// native mode, the interface takes frames that the other end redirects to it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        let set = || Ethtool::open(self.interface).and_then(|ethtool| ethtool.set_gro(on));
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

/// Otherwise the kernel would solicit routers and report multicast groups.
fn silence_ipv6() {
    for scope in ["all", "default"] {
        // A kernel without IPv6 has no such file, and is as silent. Where the file cannot be written, a
        // few packets more are no reason to fail.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
}

fn failed(error: OsError) -> Error {
    let lacks_privilege = error.errno() == Some(rustix::io::Errno::PERM.raw_os_error());
    let error = Error::os("lab of two network namespaces", error);
    match lacks_privilege {
        true => error.help("it needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN"),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use wirelane_testkit::privileged;

    #[test]
    fn privileged_two_labs_carry_packets_and_leave_nothing() {
        if !privileged::require() {
            return;
        }
        let before = iface::list().unwrap();
        for _ in 0..2 {
            let labs = [1, 3].map(|queues| Lab::new(LabConfig { queues, mtu: 3000 }).unwrap());
            for lab in &labs {
                let open = |site: &Site| {
                    let socket = site.inside(|| UdpSocket::bind((site.address, 7))).unwrap();
                    let socket = socket.unwrap();
                    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
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
    fn privileged_an_impossible_shape_is_an_error() {
        if !privileged::require() {
            return;
        }
        let error = Lab::new(LabConfig { queues: 0, mtu: 1500 }).unwrap_err();
        assert!(error.to_string().starts_with("lab of two network namespaces: "), "{error}");
        assert!(Lab::new(LabConfig { queues: 1, mtu: u32::MAX }).is_err());
    }
}
