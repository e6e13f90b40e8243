//! Creates and configures interfaces by rtnetlink.
//!
//! All calls act in the calling thread's network namespace ([`crate::netns`]) and need
//! CAP_NET_ADMIN in it.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::error::{OsError, Result};
use crate::iface;
use crate::netlink::{Netlink, push_attribute};

/// One end of a new veth pair.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// The network namespace of this end.
    pub namespace: BorrowedFd<'a>,
    /// Its link-layer address.
    pub mac: [u8; 6],
}

/// Creates a pair of veth interfaces, down, each with `queues` receive and transmit queues.
///
/// # Errors
/// `EEXIST` when a namespace has an interface of this name, `EINVAL` for an impossible name, MTU or
/// number of queues, `EPERM` without CAP_NET_ADMIN in both namespaces.
pub fn create_veth(ends: [VethEnd<'_>; 2], queues: u32, mtu: u32) -> Result<()> {
    let [near, far] = ends;
    let object = format!("veth {} to {}", near.name, far.name);
    for end in ends {
        // The kernel accepts some names that the ioctls of other modules cannot express.
        iface::request(end.name, CREATE)?;
    }
    let request = || {
        let peer = describe(far, queues, mtu)?;
        let data = attribute(VETH_INFO_PEER, &peer)?;
        let mut information = attribute(libc::IFLA_INFO_KIND, b"veth")?;
        push_attribute(&mut information, libc::IFLA_INFO_DATA, &data)?;
        let mut request = describe(near, queues, mtu)?;
        push_attribute(&mut request, libc::IFLA_LINKINFO, &information)?;
        Ok(request)
    };
    let request =
        request().map_err(|error: std::io::Error| OsError::new(CREATE, object.as_str(), error))?;
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    Netlink::open(None)?.act(CREATE, &object, libc::RTM_NEWLINK, flags, &request)
}

/// Removes an interface. For a veth, the kernel also removes its other end.
///
/// # Errors
/// `ENODEV` when no interface has this name, `EOPNOTSUPP` for a hardware device.
pub fn delete(name: &str) -> Result<()> {
    let header = header(iface::index(name)?);
    Netlink::open(None)?.act("rtnetlink RTM_DELLINK", name, libc::RTM_DELLINK, 0, &header)
}

/// Sets the alias of an interface, a text of at most 255 bytes that `ip link` shows.
///
/// # Errors
/// `EINVAL` for a longer text, `ENODEV` when there is no interface of this name.
pub fn set_alias(name: &str, alias: &str) -> Result<()> {
    modify(name, libc::IFLA_IFALIAS, alias.as_bytes())
}

/// Sets the link-layer address of an interface.
///
/// # Errors
/// `EADDRNOTAVAIL` for a group address, `EBUSY` when the driver requires the interface to be down,
/// `ENODEV` when no interface has this name.
pub fn set_mac(name: &str, mac: [u8; 6]) -> Result<()> {
    modify(name, libc::IFLA_ADDRESS, &mac)
}

/// Bounds how many segments the stack puts into one frame that is sent through an interface. 1 ends
/// segmentation offload, including the kernel's software segmentation, which ethtool cannot turn
/// off for TCP since Linux 4.17.
///
/// # Errors
/// `ENODEV` when there is no interface of this name, `EINVAL` for more than the kernel's bound.
pub fn set_gso_max_segments(name: &str, segments: u32) -> Result<()> {
    modify(name, libc::IFLA_GSO_MAX_SEGS, &segments.to_ne_bytes())
}

/// Changes one attribute of an interface.
fn modify(name: &str, attribute: u16, value: &[u8]) -> Result<()> {
    LinkSettings::open(name)?.modify(attribute, value)
}

/// Settings of one interface, for calls from any network namespace.
pub struct LinkSettings {
    netlink: Netlink,
    name: String,
    index: u32,
}

impl LinkSettings {
    /// The interface of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// `ENODEV` when no interface has this name.
    pub fn open(name: &str) -> Result<Self> {
        let (index, netlink) = (iface::index(name)?, Netlink::open(None)?);
        Ok(Self { netlink, name: name.to_owned(), index })
    }

    /// Bounds the length of frames that the stack passes to the interface for segmentation. A bound
    /// of up to 65536 also applies to IPv4, a larger one only to IPv6 (`netif_set_gso_max_size`).
    ///
    /// # Errors
    /// `EINVAL` for more than the driver's bound, `ERANGE` for less than headers need.
    pub fn set_gso_max_size(&mut self, bytes: u32) -> Result<()> {
        self.modify(libc::IFLA_GSO_MAX_SIZE, &bytes.to_ne_bytes())
    }

    fn modify(&mut self, attribute: u16, value: &[u8]) -> Result<()> {
        const CALL: &str = "rtnetlink RTM_SETLINK";
        let mut request = header(self.index).to_vec();
        push_attribute(&mut request, attribute, value)
            .map_err(|error| OsError::new(CALL, self.name.as_str(), error))?;
        self.netlink.act(CALL, &self.name, libc::RTM_SETLINK, 0, &request)
    }
}

/// Adds an address to an interface. An IPv6 address is usable at once, without duplicate address
/// detection.
///
/// # Errors
/// `EEXIST` when the interface has it, `EACCES` when IPv6 is off, `ENODEV` when no interface has
/// this name.
pub fn add_address(name: &str, address: impl Into<IpAddr>, prefix: u8) -> Result<()> {
    const CALL: &str = "rtnetlink RTM_NEWADDR";
    let index = iface::index(name)?;
    let (family, octets) = parts(address.into());
    let flags = if family == libc::AF_INET6 as u8 { libc::IFA_F_NODAD as u8 } else { 0 };
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut request = vec![family, prefix, flags, 0];
    request.extend_from_slice(&index.to_ne_bytes());
    let failed = |error| OsError::new(CALL, name, error);
    for kind in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        push_attribute(&mut request, kind, &octets).map_err(failed)?;
    }
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
    Netlink::open(None)?.act(CALL, name, libc::RTM_NEWADDR, flags, &request)
}

/// Adds a permanent neighbour entry, so the kernel does not ask for the link-layer address.
///
/// # Errors
/// `ENODEV` when there is no interface of this name.
pub fn add_neighbour(name: &str, address: impl Into<IpAddr>, mac: [u8; 6]) -> Result<()> {
    const CALL: &str = "rtnetlink RTM_NEWNEIGH";
    let index = iface::index(name)?;
    let (family, octets) = parts(address.into());
    // struct ndmsg: family, padding of 3, index, state, flags, type.
    let mut request = vec![family, 0, 0, 0];
    request.extend_from_slice(&index.to_ne_bytes());
    request.extend_from_slice(&NUD_PERMANENT.to_ne_bytes());
    request.extend_from_slice(&[0, 0]);
    let failed = |error| OsError::new(CALL, name, error);
    push_attribute(&mut request, NDA_DST, &octets).map_err(failed)?;
    push_attribute(&mut request, NDA_LLADDR, &mac).map_err(failed)?;
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    Netlink::open(None)?.act(CALL, name, libc::RTM_NEWNEIGH, flags, &request)
}

/// Replaces the queueing discipline of an interface by this one, such as `pfifo_fast`. A software
/// device without queues has `noqueue` by default.
///
/// # Errors
/// `ENOENT` when the kernel has no discipline of this name, `ENODEV` when no interface has this
/// name.
pub fn set_qdisc(name: &str, kind: &str) -> Result<()> {
    const CALL: &str = "rtnetlink RTM_NEWQDISC";
    // struct tcmsg: family and padding, index, handle, parent, information.
    let mut request = vec![0; 4];
    request.extend_from_slice(&iface::index(name)?.to_ne_bytes());
    request.extend_from_slice(&0_u32.to_ne_bytes());
    request.extend_from_slice(&TC_H_ROOT.to_ne_bytes());
    request.extend_from_slice(&0_u32.to_ne_bytes());
    push_attribute(&mut request, TCA_KIND, &terminated(kind))
        .map_err(|error| OsError::new(CALL, name, error))?;
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    Netlink::open(None)?.act(CALL, name, libc::RTM_NEWQDISC, flags, &request)
}

/// The family and the bytes of an address.
fn parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

/// A name in the kernel's format.
fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// The message that describes one end.
fn describe(end: VethEnd<'_>, queues: u32, mtu: u32) -> std::io::Result<Vec<u8>> {
    let mut request = header(0).to_vec();
    push_attribute(&mut request, libc::IFLA_IFNAME, &terminated(end.name))?;
    push_attribute(&mut request, libc::IFLA_ADDRESS, &end.mac)?;
    let namespace = end.namespace.as_fd().as_raw_fd();
    let numbers = [
        (libc::IFLA_MTU, mtu),
        (libc::IFLA_NUM_RX_QUEUES, queues),
        (libc::IFLA_NUM_TX_QUEUES, queues),
        (libc::IFLA_NET_NS_FD, namespace.cast_unsigned()),
    ];
    for (kind, value) in numbers {
        push_attribute(&mut request, kind, &value.to_ne_bytes())?;
    }
    Ok(request)
}

/// `struct ifinfomsg` for an interface index; 0 for a new interface.
fn header(index: u32) -> [u8; 16] {
    let mut header = [0; 16];
    if let Some(field) = header.get_mut(4..8) {
        field.copy_from_slice(&index.to_ne_bytes());
    }
    header
}

fn attribute(kind: u16, value: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    push_attribute(&mut bytes, kind, value)?;
    Ok(bytes)
}

const CREATE: &str = "rtnetlink RTM_NEWLINK";
/// `include/uapi/linux/veth.h`
const VETH_INFO_PEER: u16 = 1;
/// `include/uapi/linux/neighbour.h`
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;
/// `include/uapi/linux/rtnetlink.h`, `pkt_sched.h`
const TCA_KIND: u16 = 1;
const TC_H_ROOT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::Ethtool;
    use crate::netlink::Attributes;
    use crate::packet::{ETH_P_ALL_BE, PacketSocket};
    use crate::{netdev, netns, testing};
    use rustix::net::{RecvFlags, recv};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Duration;

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    #[test]
    fn privileged_a_pair_gets_a_queueing_discipline() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let [near, far] = [("wl-a", MACS[0]), ("wl-b", MACS[1])].map(|(name, mac)| VethEnd {
                name,
                namespace: here.as_fd(),
                mac,
            });
            create_veth([near, far], 1, 1500).unwrap();
            iface::up("wl-a").unwrap();
            let discipline = || {
                let header = header(iface::index("wl-a").unwrap());
                let mut netlink = Netlink::open(None).unwrap();
                let answer = netlink.get("RTM_GETLINK", "wl-a", libc::RTM_GETLINK, &header);
                let payload = answer.unwrap().swap_remove(0);
                let mut attributes = Attributes::new(&payload[header.len()..]);
                let (_, text) = attributes.find(|(kind, _)| *kind == libc::IFLA_QDISC).unwrap();
                String::from_utf8_lossy(text).trim_end_matches('\0').to_owned()
            };
            assert_eq!(discipline(), "noqueue");
            set_qdisc("wl-a", "pfifo_fast").unwrap();
            assert_eq!(discipline(), "pfifo_fast");
            let error = set_qdisc("wl-a", "wl-none").unwrap_err();
            assert_eq!(error.errno(), Some(libc::ENOENT), "{error}");
            assert!(set_qdisc("wl-none", "pfifo_fast").is_err());
        });
    }

    #[test]
    fn privileged_pair_is_made_as_asked_and_goes_whole() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let [near, far] = [("wl-a", MACS[0]), ("wl-b", MACS[1])].map(|(name, mac)| VethEnd {
                name,
                namespace: here.as_fd(),
                mac,
            });
            create_veth([near, far], 3, 1400).unwrap();
            for (name, mac) in [("wl-a", MACS[0]), ("wl-b", MACS[1])] {
                assert_eq!((iface::mac(name).unwrap(), iface::mtu(name).unwrap()), (mac, 1400));
                let channels = Ethtool::open(name).unwrap().channels().unwrap().unwrap();
                assert_eq!((channels.rx, channels.tx), (3, 3));
                for on in [true, false] {
                    let ethtool = Ethtool::open(name).unwrap();
                    ethtool.set_gro(on).unwrap();
                    assert_eq!(ethtool.offloads().unwrap().gro, Some(on));
                }
                iface::up(name).unwrap();
            }
            let error = create_veth([near, far], 1, 1500).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EEXIST), "{error}");
            add_address("wl-a", Ipv4Addr::new(10, 1, 0, 1), 24).unwrap();
            add_neighbour("wl-a", Ipv4Addr::new(10, 1, 0, 2), MACS[1]).unwrap();
            let arp = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap();
            assert!(arp.contains("10.1.0.2") && arp.contains("02:00:00:00:00:02"), "{arp}");
            let six: Ipv6Addr = "fd57::1".parse().unwrap();
            add_address("wl-a", six, 64).unwrap();
            add_neighbour("wl-a", "fd57::2".parse::<Ipv6Addr>().unwrap(), MACS[1]).unwrap();
            assert!(iface::addresses("wl-a").unwrap().contains(&six.into()));
            std::net::UdpSocket::bind((six, 0)).expect("usable at once");
            set_alias("wl-a", "one of ours").unwrap();
            assert_eq!(netdev::link("wl-a").unwrap().alias.as_deref(), Some("one of ours"));
            assert_eq!(netdev::link("wl-b").unwrap().alias, None);
            set_mac("wl-a", [2, 0, 0, 0, 0, 9]).unwrap();
            assert_eq!(iface::mac("wl-a").unwrap(), [2, 0, 0, 0, 0, 9]);
            for on in [false, true] {
                Ethtool::open("wl-a").unwrap().set_tx_offload(on).unwrap();
            }
            let mut settings = LinkSettings::open("wl-a").unwrap();
            settings.set_gso_max_size(16_000).unwrap();
            assert_eq!(netdev::link("wl-a").unwrap().gso_max_size, Some(16_000));
            assert!(settings.set_gso_max_size(1).is_err());
            set_gso_max_segments("wl-a", 1).unwrap();
            assert!(set_gso_max_segments("wl-a", u32::MAX).is_err());
            delete("wl-b").unwrap();
            assert!(!iface::exists("wl-a").unwrap());
            assert_eq!(delete("wl-b").unwrap_err().errno(), Some(libc::ENODEV));
        });
    }

    /// The worker that activates queues may not have looked at the pair since it was made. The test
    /// makes many pairs, so that some are made between two of its runs.
    #[test]
    fn privileged_a_new_pair_that_is_running_takes_the_first_frame() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let socket = |name: &str, protocol| {
                let socket = PacketSocket::open().unwrap();
                socket.bind(iface::index(name).unwrap(), protocol).unwrap();
                socket
            };
            // The EtherType for local experiments, which no protocol answers.
            let frame = [&MACS[1][..], &MACS[0], &[0x88, 0xb5], &[7; 46]].concat();
            for round in 0..40 {
                let names = [format!("wl-a{round}"), format!("wl-b{round}")];
                let end =
                    |i: usize| VethEnd { name: &names[i], namespace: here.as_fd(), mac: MACS[i] };
                create_veth([end(0), end(1)], 1, 1500).unwrap();
                names.iter().for_each(|name| iface::up(name).unwrap());
                let patience = Duration::from_secs(60);
                names.iter().for_each(|name| iface::wait_until_running(name, patience).unwrap());
                let (sender, receiver) = (socket(&names[0], 0), socket(&names[1], ETH_P_ALL_BE));
                sender.send_frame(&frame).unwrap();
                while sender.outstanding().unwrap() > 0 {
                    std::thread::yield_now();
                }
                let mut buffer = [0; 2048];
                let came = std::iter::from_fn(|| {
                    recv(&receiver, &mut buffer[..], RecvFlags::DONTWAIT).ok()?;
                    Some(buffer[..frame.len()] == frame)
                });
                assert!(came.into_iter().any(|is_it| is_it), "pair {round}: nothing comes");
                delete(&names[0]).unwrap();
            }
        });
    }

    #[test]
    fn privileged_ends_land_in_their_namespaces() {
        testing::in_new_namespace(|| {
            let here = netns::current().unwrap();
            let there = std::thread::spawn(|| {
                netns::unshare_net().unwrap();
                netns::current().unwrap()
            });
            let there = there.join().unwrap();
            let end = |namespace, mac| VethEnd { name: "wl0", namespace, mac };
            create_veth([end(here.as_fd(), MACS[0]), end(there.as_fd(), MACS[1])], 1, 1500)
                .unwrap();
            assert_eq!(iface::mac("wl0").unwrap(), MACS[0]);
            let _inside = netns::enter(&there).unwrap();
            assert_eq!(iface::mac("wl0").unwrap(), MACS[1]);
        });
    }

    #[test]
    fn impossible_names_are_refused_before_the_kernel_is_asked() {
        let here = netns::current().unwrap();
        let end = |name| VethEnd { name, namespace: here.as_fd(), mac: MACS[0] };
        for name in ["", "a/b", "sixteen-bytes-xx", "a b"] {
            let error = create_veth([end("wl-a"), end(name)], 1, 1500).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
        }
    }
}
