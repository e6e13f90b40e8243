//! Interfaces, by `rtnetlink`.

use rustix::net::Protocol;

use crate::bpf::mode::XdpMode;
use crate::error::{OsError, Result};
use crate::netlink::{Attributes, Netlink, push_attribute, text, u16_at, u32_at, u64_at};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Name, e.g. `eth0`.
    pub name: String,
    /// Type of its link-layer header (`ARPHRD_*`).
    pub hardware_type: u16,
    /// `IFF_*` flags.
    pub flags: u32,
    /// Largest payload of a link-layer frame, in bytes.
    pub mtu: Option<u32>,
    /// Link-layer address; empty when it has none.
    pub address: Vec<u8>,
    /// Receive queues allocated, the most that can be in use.
    pub rx_queues: Option<u32>,
    /// Transmit queues allocated, the most that can be in use.
    pub tx_queues: Option<u32>,
    /// Kind of a software device, e.g. `veth`.
    pub kind: Option<String>,
    /// Its alias (`ip link set … alias`).
    pub alias: Option<String>,
    /// Longest frame that the stack passes to it for segmentation, in bytes (`gso_max_size`).
    pub gso_max_size: Option<u32>,
    /// Longest packet that the stack merges, sent or received, in bytes: the maximum of
    /// `gso_max_size`, `gro_max_size`, both for IPv4, and the MTU.
    pub longest_packet: Option<u32>,
    /// Most packets in a queue, if the driver respects it (`txqueuelen`).
    pub tx_queue_len: Option<u32>,
    /// Packets dropped on transmission.
    pub tx_dropped: Option<u64>,
}

impl Link {
    /// Whether the interface is administratively up.
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Whether it has a carrier and the kernel has noticed it, so that packets pass. The kernel
    /// clears `IFF_RUNNING` up to a second after the carrier is lost (`linkwatch_schedule_work`),
    /// and `IFF_LOWER_UP` at once.
    pub fn is_running(&self) -> bool {
        let both = (libc::IFF_RUNNING | libc::IFF_LOWER_UP) as u32;
        self.flags & both == both
    }

    /// Whether this is the loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.flags & libc::IFF_LOOPBACK as u32 != 0
    }
}

/// Every interface, in the kernel's order.
///
/// # Errors
/// The error of the kernel.
pub fn links() -> Result<Vec<Link>> {
    links_by(&mut Netlink::open(NETLINK_ROUTE)?)
}

/// As [`links`], in the namespace of this socket.
pub(super) fn links_by(netlink: &mut Netlink) -> Result<Vec<Link>> {
    let payload = [0; IFINFOMSG];
    let answer = netlink.dump("netlink RTM_GETLINK", "", libc::RTM_GETLINK, &payload)?;
    Ok(answer.iter().filter_map(|payload| parse_link(payload)).collect())
}

/// The interface `name`.
///
/// # Errors
/// `ENODEV` when no interface has this name, or another error of the kernel.
pub fn link(name: &str) -> Result<Link> {
    LinkReader::open(name)?.read()
}

/// Reads one interface repeatedly and from any thread, in the network namespace of the thread that
/// opened it.
#[derive(Debug)]
pub struct LinkReader {
    netlink: Netlink,
    name: String,
}

impl LinkReader {
    const CALL: &str = "netlink RTM_GETLINK";

    /// Reads the interface `name`, which need not exist yet.
    ///
    /// # Errors
    /// `ENODEV` when no interface can have this name, or another error of the kernel.
    pub fn open(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(OsError::from_errno(Self::CALL, name, libc::ENODEV));
        }
        Ok(Self { netlink: Netlink::open(NETLINK_ROUTE)?, name: name.to_owned() })
    }

    /// Reads the current state of the interface.
    ///
    /// # Errors
    /// `ENODEV` when no interface has this name, or another error of the kernel.
    pub fn read(&mut self) -> Result<Link> {
        let name = self.name.as_str();
        let mut payload = vec![0; IFINFOMSG];
        let text = [name.as_bytes(), b"\0"].concat();
        push_attribute(&mut payload, libc::IFLA_IFNAME, &text)
            .map_err(|errno| OsError::new(Self::CALL, name, errno))?;
        let answer = self.netlink.get(Self::CALL, name, libc::RTM_GETLINK, &payload)?;
        let missing = || OsError::from_errno(Self::CALL, name, libc::ENODEV);
        answer.iter().find_map(|payload| parse_link(payload)).ok_or_else(missing)
    }
}

/// The XDP programs of the interface with this index, the active one first: their modes and IDs.
///
/// # Errors
/// `ENODEV` when there is no such interface, or another error of the kernel.
pub(crate) fn xdp_programs(interface: u32) -> Result<Vec<(XdpMode, u32)>> {
    const CALL: &str = "netlink RTM_GETLINK";
    let mut payload = [0; IFINFOMSG];
    payload[4..8].copy_from_slice(&interface.to_ne_bytes());
    let object = format!("interface index {interface}");
    let answer = Netlink::open(NETLINK_ROUTE)?.get(CALL, &object, libc::RTM_GETLINK, &payload)?;
    Ok(answer.iter().find_map(|payload| parse_xdp(payload)).unwrap_or_default())
}

pub(super) fn parse_link(payload: &[u8]) -> Option<Link> {
    // struct ifinfomsg: family, padding, type, index, flags, change mask.
    let mut link = Link {
        hardware_type: u16_at(payload, 2)?,
        index: u32_at(payload, 4)?,
        flags: u32_at(payload, 8)?,
        ..Link::default()
    };
    for (kind, value) in Attributes::new(payload.get(IFINFOMSG..)?) {
        if [libc::IFLA_MTU, libc::IFLA_GSO_MAX_SIZE].contains(&kind) || LONGEST.contains(&kind) {
            link.longest_packet = link.longest_packet.max(u32_at(value, 0));
        }
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0),
            libc::IFLA_ADDRESS => link.address = value.to_vec(),
            libc::IFLA_NUM_RX_QUEUES => link.rx_queues = u32_at(value, 0),
            libc::IFLA_NUM_TX_QUEUES => link.tx_queues = u32_at(value, 0),
            libc::IFLA_GSO_MAX_SIZE => link.gso_max_size = u32_at(value, 0),
            libc::IFLA_TXQLEN => link.tx_queue_len = u32_at(value, 0),
            libc::IFLA_STATS64 => link.tx_dropped = u64_at(value, TX_DROPPED),
            libc::IFLA_IFALIAS => link.alias = Some(text(value)).filter(|alias| !alias.is_empty()),
            libc::IFLA_LINKINFO => {
                link.kind = Attributes::new(value)
                    .find(|(kind, _)| *kind == libc::IFLA_INFO_KIND)
                    .map(|(_, value)| text(value));
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

pub(super) fn parse_xdp(payload: &[u8]) -> Option<Vec<(XdpMode, u32)>> {
    let mut attributes = Attributes::new(payload.get(IFINFOMSG..)?);
    let (_, nest) = attributes.find(|(kind, _)| *kind == libc::IFLA_XDP)?;
    // rtnl_xdp_fill: one attribute for each mode with a program.
    let programs = Attributes::new(nest).filter_map(|(kind, value)| {
        let mode = match kind {
            IFLA_XDP_DRV_PROG_ID => XdpMode::Native,
            IFLA_XDP_SKB_PROG_ID => XdpMode::Generic,
            IFLA_XDP_HW_PROG_ID => XdpMode::Offloaded,
            _ => return None,
        };
        u32_at(value, 0).filter(|id| *id != 0).map(|id| (mode, id))
    });
    let mut programs: Vec<_> = programs.collect();
    programs.sort_by_key(|(mode, _)| match mode {
        XdpMode::Native => 0,
        XdpMode::Generic => 1,
        XdpMode::Offloaded => 2,
    });
    Some(programs)
}

/// `IFLA_GRO_MAX_SIZE` (Linux 5.19), `IFLA_GSO_IPV4_MAX_SIZE` and `IFLA_GRO_IPV4_MAX_SIZE` (6.3).
const LONGEST: [u16; 3] = [58, 63, 64];
/// Protocol 0, the default.
pub(super) const NETLINK_ROUTE: Option<Protocol> = None;
/// `sizeof(struct ifinfomsg)`.
pub(super) const IFINFOMSG: usize = 16;
// include/uapi/linux/if_link.h, Linux 4.18.
/// Offset of `tx_dropped` in `struct rtnl_link_stats64`: after seven other counters.
pub(super) const TX_DROPPED: usize = 7 * size_of::<u64>();
pub(super) const IFLA_XDP_DRV_PROG_ID: u16 = 5;
pub(super) const IFLA_XDP_SKB_PROG_ID: u16 = 6;
pub(super) const IFLA_XDP_HW_PROG_ID: u16 = 7;
