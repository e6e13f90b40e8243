//! Queues, NAPI contexts and XDP features of an interface, by the generic-netlink family `netdev`.

use rustix::net::netlink::GENERIC;

use crate::error::{OsError, Result};
use crate::netlink::{Attributes, Netlink, push_attribute, u16_at, u32_at};

/// The direction of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDirection {
    /// From the wire.
    Rx,
    /// To the wire.
    Tx,
}

/// A queue in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetdevQueue {
    /// Receive or transmit.
    pub direction: QueueDirection,
    /// Number of the queue within its direction.
    pub index: u32,
    /// ID of the NAPI context that serves it, if the driver reports it.
    pub napi: Option<u32>,
}

/// A NAPI context, which does the receive (and often the transmit-completion) work of one or more
/// queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Napi {
    /// ID, unique in the system.
    pub id: u32,
    /// Its interrupt, if the driver reports it.
    pub irq: Option<u32>,
    /// The kernel thread that runs it, in threaded mode.
    pub thread: Option<u32>,
}

/// The queues in use on the interface with this index; `None` on kernels before 6.8. The list is
/// empty while the interface is down.
///
/// # Errors
/// The error of the kernel, unless it does not know the request.
pub fn queues(interface: u32) -> Result<Option<Vec<NetdevQueue>>> {
    let entries = list(
        "netlink NETDEV_CMD_QUEUE_GET",
        NETDEV_CMD_QUEUE_GET,
        interface,
        Some(NETDEV_A_QUEUE_IFINDEX),
    )?;
    Ok(entries.map(|entries| entries.iter().filter_map(|entry| parse_queue(entry)).collect()))
}

/// The NAPI contexts of the interface with this index; `None` on kernels before 6.8. The list is
/// empty while the interface is down.
///
/// # Errors
/// The error of the kernel, unless it does not know the request.
pub fn napis(interface: u32) -> Result<Option<Vec<Napi>>> {
    let entries = list(
        "netlink NETDEV_CMD_NAPI_GET",
        NETDEV_CMD_NAPI_GET,
        interface,
        Some(NETDEV_A_NAPI_IFINDEX),
    )?;
    Ok(entries.map(|entries| entries.iter().filter_map(|entry| parse_napi(entry)).collect()))
}

/// Moves the NAPI context `napi` to a separate kernel thread (Linux 6.17), which [`napis`] then
/// names. Otherwise it runs on the CPU that raises its softirq; for a veth, the sender's CPU.
///
/// # Errors
/// `EOPNOTSUPP` or `EINVAL` on an older kernel, `EPERM` without CAP_NET_ADMIN, `ENOENT` when there
/// is no such context.
pub fn set_napi_threaded(napi: u32) -> Result<()> {
    const CALL: &str = "netlink NETDEV_CMD_NAPI_SET";
    let object = format!("NAPI context {napi}");
    let wrong = |errno| OsError::new(CALL, object.as_str(), errno);
    let Some((mut netlink, family)) = family()? else {
        return Err(OsError::from_errno(CALL, object.as_str(), libc::EOPNOTSUPP));
    };
    let mut payload = generic_header(NETDEV_CMD_NAPI_SET, 1);
    for (kind, value) in [(NETDEV_A_NAPI_ID, napi), (NETDEV_A_NAPI_THREADED, 1)] {
        push_attribute(&mut payload, kind, &value.to_ne_bytes()).map_err(wrong)?;
    }
    netlink.act(CALL, &object, family, 0, &payload)
}

/// XDP features of a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// `NETDEV_XDP_ACT_*`.
    pub flags: u64,
    /// Most buffers of a packet in zero copy; 1 if packets have only one buffer, `None` if the
    /// kernel does not report it.
    pub zero_copy_segments: Option<u32>,
    /// `NETDEV_XDP_RX_METADATA_*`: packet metadata that a program bound to this interface can read.
    /// Linux 6.8.
    pub rx_metadata: u64,
    /// `NETDEV_XSK_FLAGS_*`: transmit offloads of the device in zero copy. Linux 6.8.
    pub tx_metadata: u64,
}

impl XdpFeatures {
    /// Programs run in the driver (`NETDEV_XDP_ACT_BASIC`).
    pub fn native(self) -> bool {
        self.flags & 1 != 0
    }

    /// Programs can redirect packets to sockets and other interfaces (`NETDEV_XDP_ACT_REDIRECT`).
    pub fn redirect(self) -> bool {
        self.flags & (1 << 1) != 0
    }

    /// It transmits frames that programs of other interfaces redirect (`NETDEV_XDP_ACT_NDO_XMIT`).
    /// That may change with the state of the interface: a veth does it only while its peer polls.
    pub fn transmit(self) -> bool {
        self.flags & (1 << 2) != 0
    }

    /// AF_XDP sockets support zero copy (`NETDEV_XDP_ACT_XSK_ZEROCOPY`).
    pub fn zero_copy(self) -> bool {
        self.flags & (1 << 3) != 0
    }

    /// A program can read the hardware receive time of a packet
    /// (`NETDEV_XDP_RX_METADATA_TIMESTAMP`).
    pub fn rx_timestamp(self) -> bool {
        self.rx_metadata & 1 != 0
    }

    /// A program can read the hash of a packet (`NETDEV_XDP_RX_METADATA_HASH`).
    pub fn rx_hash(self) -> bool {
        self.rx_metadata & (1 << 1) != 0
    }

    /// A program can read the VLAN tag that was removed from a packet
    /// (`NETDEV_XDP_RX_METADATA_VLAN_TAG`).
    pub fn rx_vlan_tag(self) -> bool {
        self.rx_metadata & (1 << 2) != 0
    }

    /// In zero copy the device reports the sending time of a packet
    /// (`NETDEV_XSK_FLAGS_TX_TIMESTAMP`).
    pub fn tx_timestamp(self) -> bool {
        self.tx_metadata & 1 != 0
    }

    /// In zero copy the device completes checksums (`NETDEV_XSK_FLAGS_TX_CHECKSUM`).
    pub fn tx_checksum(self) -> bool {
        self.tx_metadata & (1 << 1) != 0
    }

    /// In zero copy the device sends packets at given times, in the order of the ring
    /// (`NETDEV_XSK_FLAGS_TX_LAUNCH_TIME_FIFO`). Linux 6.15.
    pub fn tx_launch_time(self) -> bool {
        self.tx_metadata & (1 << 2) != 0
    }
}

/// XDP features of the driver of the interface with this index; `None` on kernels before 6.3, or if
/// the driver does not report them.
///
/// # Errors
/// The error of the kernel, unless it does not know the request.
pub fn xdp_features(interface: u32) -> Result<Option<XdpFeatures>> {
    // A dump of this command has no interface parameter: it lists all interfaces. Linux 7.3 refuses
    // the parameter (EINVAL); older kernels ignored it.
    let command = NETDEV_CMD_DEV_GET;
    let entries = list("netlink NETDEV_CMD_DEV_GET", command, interface, None)?;
    let mut entries = entries.iter().flatten();
    Ok(entries
        .find_map(|entry| parse_features(entry).filter(|(index, _)| *index == interface))
        .map(|(_, features)| features))
}

/// A dump of the `netdev` family, restricted to one interface by the attribute `selector`.
pub(super) fn list(
    call: &'static str,
    command: u8,
    interface: u32,
    selector: Option<u16>,
) -> Result<Option<Vec<Vec<u8>>>> {
    let object = format!("interface index {interface}");
    let wrong = |errno| OsError::new(call, object.as_str(), errno);
    let Some((mut netlink, family)) = family()? else { return Ok(None) };
    let mut payload = generic_header(command, 1);
    if let Some(selector) = selector {
        push_attribute(&mut payload, selector, &interface.to_ne_bytes()).map_err(wrong)?;
    }
    match netlink.dump(call, &object, family, &payload) {
        // Linux 6.7 added the family, 6.8 these two commands.
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(None),
        answer => answer.map(Some),
    }
}

/// A socket for the `netdev` family, and the family's number; `None` if the kernel has no such
/// family.
pub(super) fn family() -> Result<Option<(Netlink, u16)>> {
    const CALL: &str = "netlink CTRL_CMD_GETFAMILY";
    let mut netlink = match Netlink::open(Some(GENERIC)) {
        Err(error) if error.errno() == Some(libc::EPROTONOSUPPORT) => return Ok(None),
        opened => opened?,
    };
    let mut payload = generic_header(CTRL_CMD_GETFAMILY, 1);
    push_attribute(&mut payload, CTRL_ATTR_FAMILY_NAME, b"netdev\0")
        .map_err(|errno| OsError::new(CALL, "netdev", errno))?;
    let answer = match netlink.get(CALL, "netdev", GENL_ID_CTRL, &payload) {
        Err(error) if error.errno() == Some(libc::ENOENT) => return Ok(None),
        answer => answer?,
    };
    let number = answer.iter().find_map(|payload| parse_family(payload));
    Ok(number.map(|number| (netlink, number)))
}

/// `struct genlmsghdr`: command, version, two reserved bytes.
pub(super) fn generic_header(command: u8, version: u8) -> Vec<u8> {
    vec![command, version, 0, 0]
}

pub(super) fn parse_family(payload: &[u8]) -> Option<u16> {
    let mut attributes = Attributes::new(payload.get(GENERIC_HEADER..)?);
    attributes.find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID).and_then(|(_, id)| u16_at(id, 0))
}

pub(super) fn parse_queue(payload: &[u8]) -> Option<NetdevQueue> {
    let (mut index, mut direction, mut napi) = (None, None, None);
    for (kind, value) in Attributes::new(payload.get(GENERIC_HEADER..)?) {
        match kind {
            NETDEV_A_QUEUE_ID => index = u32_at(value, 0),
            NETDEV_A_QUEUE_TYPE => {
                direction = match u32_at(value, 0)? {
                    NETDEV_QUEUE_TYPE_RX => Some(QueueDirection::Rx),
                    NETDEV_QUEUE_TYPE_TX => Some(QueueDirection::Tx),
                    _ => None,
                }
            }
            NETDEV_A_QUEUE_NAPI_ID => napi = u32_at(value, 0),
            _ => {}
        }
    }
    Some(NetdevQueue { direction: direction?, index: index?, napi })
}

pub(super) fn parse_features(payload: &[u8]) -> Option<(u32, XdpFeatures)> {
    let (mut index, mut features) = (None, XdpFeatures::default());
    for (kind, value) in Attributes::new(payload.get(GENERIC_HEADER..)?) {
        match kind {
            NETDEV_A_DEV_IFINDEX => index = u32_at(value, 0),
            NETDEV_A_DEV_XDP_FEATURES => {
                features.flags = u64::from_ne_bytes(*value.first_chunk()?);
            }
            NETDEV_A_DEV_XDP_ZC_MAX_SEGS => features.zero_copy_segments = u32_at(value, 0),
            NETDEV_A_DEV_XDP_RX_METADATA_FEATURES => {
                features.rx_metadata = u64::from_ne_bytes(*value.first_chunk()?);
            }
            NETDEV_A_DEV_XSK_FEATURES => {
                features.tx_metadata = u64::from_ne_bytes(*value.first_chunk()?);
            }
            _ => {}
        }
    }
    Some((index?, features))
}

pub(super) fn parse_napi(payload: &[u8]) -> Option<Napi> {
    let (mut id, mut irq, mut thread) = (None, None, None);
    for (kind, value) in Attributes::new(payload.get(GENERIC_HEADER..)?) {
        match kind {
            NETDEV_A_NAPI_ID => id = u32_at(value, 0),
            NETDEV_A_NAPI_IRQ => irq = u32_at(value, 0),
            NETDEV_A_NAPI_PID => thread = u32_at(value, 0),
            _ => {}
        }
    }
    Some(Napi { id: id?, irq, thread })
}

/// `sizeof(struct genlmsghdr)`.
pub(super) const GENERIC_HEADER: usize = 4;
pub(super) const GENL_ID_CTRL: u16 = libc::GENL_ID_CTRL as u16;
pub(super) const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
pub(super) const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
pub(super) const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;

// include/uapi/linux/netdev.h, Linux 6.3; the number of buffers since 6.6.
pub(super) const NETDEV_CMD_DEV_GET: u8 = 1;
pub(super) const NETDEV_A_DEV_IFINDEX: u16 = 1;
pub(super) const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
pub(super) const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
pub(super) const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
pub(super) const NETDEV_A_DEV_XSK_FEATURES: u16 = 6;

// include/uapi/linux/netdev.h, Linux 6.8.
pub(super) const NETDEV_CMD_QUEUE_GET: u8 = 10;
pub(super) const NETDEV_CMD_NAPI_GET: u8 = 11;
pub(super) const NETDEV_A_QUEUE_ID: u16 = 1;
pub(super) const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
pub(super) const NETDEV_A_QUEUE_TYPE: u16 = 3;
pub(super) const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
pub(super) const NETDEV_QUEUE_TYPE_RX: u32 = 0;
pub(super) const NETDEV_QUEUE_TYPE_TX: u32 = 1;
pub(super) const NETDEV_A_NAPI_IFINDEX: u16 = 1;
pub(super) const NETDEV_A_NAPI_ID: u16 = 2;
pub(super) const NETDEV_A_NAPI_IRQ: u16 = 3;
pub(super) const NETDEV_A_NAPI_PID: u16 = 4;
// include/uapi/linux/netdev.h: the command of Linux 6.13, the attribute of 6.17.
pub(super) const NETDEV_CMD_NAPI_SET: u8 = 14;
pub(super) const NETDEV_A_NAPI_THREADED: u16 = 8;
