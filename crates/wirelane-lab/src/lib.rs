//! A lab for experiments: two network namespaces, joined by a multi-queue veth pair.
//!
//! An implementation detail of Wirelane: its items are not a stable API, and may change in any
//! release. The command `wirelane lab` is stable.
//!
//! ```text
//!    near namespace, "a"            far namespace, "b"
//!   ┌────────────────┐             ┌────────────────┐
//!   │ wl-a     queues├─────────────┤ wl-b     queues│
//!   │ 10.87.0.1/24   │             │ 10.87.0.2/24   │
//!   └────────────────┘             └────────────────┘
//! ```
//!
//! The namespaces of a [`Lab`] have no name: they end with it or with the process, however the
//! process ends. The namespaces of a [`NamedLab`] persist until it is taken down, and any program
//! can run in them. No interface of the host is touched, and any number of labs can exist at once.
//!
//! With [`LabConfig::taps`], the stack of an end is behind a TAP device, and its veth interface is
//! the bare end of a cable. The program under test joins the two:
//!
//! ```text
//!    near namespace, "a"
//!   ┌──────────────────────────────────────────────────────┐
//!   │ tap-a         ─▶ wirelane forward ─▶            wl-a ├──────
//!   │ 10.87.0.1/24     tap:tap-a packet:wl-a               │
//!   └──────────────────────────────────────────────────────┘
//! ```

mod build;
pub mod leftovers;
mod mark;
pub mod mounts;
mod named;
mod process;
mod processes;
mod shape;
mod site;
mod status;

pub use self::named::{Change, Down, NamedLab};
pub use self::processes::Process;
pub use self::shape::{IPV6_NETWORK, LabConfig, Network, Offloads, Taps};
pub use self::site::{Side, Site};
pub use self::status::{InterfaceStatus, LabStatus, SiteStatus, State};
use wirelane::error::Result;

/// Two joined namespaces, removed when it is dropped.
#[derive(Debug)]
pub struct Lab {
    /// The near end.
    pub near: Site,
    /// The far end.
    pub far: Site,
}

impl Lab {
    /// Creates a lab. Both interfaces accept packets, and have each other's address as a permanent
    /// neighbour.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN or CAP_NET_ADMIN is missing, the shape is impossible, or the kernel has no
    /// veth.
    pub fn new(config: LabConfig) -> Result<Self> {
        let [near, far] = build::build(&config)?;
        Ok(Self { near, far })
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
}
