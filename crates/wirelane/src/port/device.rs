//! The interface under a port, as queried when the port is opened.

use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::frame::SinkGso;
use crate::inspect::{self, InterfaceQueues, Offloads, QueueMapping, TxBinding, TxWay};
use crate::mask::{Class, MAX_QUEUES, QueueMask, QueueSet};
use crate::port::spec::Spec;
use rustix::io::Errno;
use wirelane_os::error::OsError;
use wirelane_os::ethtool::Ethtool;
use wirelane_os::{affinity, iface};

/// Facts about the interface.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) rx_queues: u16,
    pub(super) tx_queues: u16,
    pub(super) mapping: QueueMapping,
    pub(super) link_type: u16,
    pub(super) mtu: u32,
    /// Bytes of the longest frame in either direction, if known.
    pub(super) longest: usize,
    pub(super) is_loopback: bool,
    /// Only for interfaces with Ethernet frames.
    pub(super) mac: Option<[u8; 6]>,
    pub(super) hardware: Option<String>,
    pub(super) speed: Option<u64>,
    /// Packets that the host sends can be selected.
    pub(super) outgoing: bool,
    pub(super) offloads: Offloads,
    /// The full inspection, made on first use.
    inspected: OnceLock<Option<InterfaceQueues>>,
}

impl Device {
    /// Queries the interface that the spec names.
    ///
    /// # Errors
    /// There is no such interface, it is down, or its kind cannot be captured.
    pub(super) fn find(spec: &Spec) -> Result<Self> {
        let name = spec.name_text();
        if !iface::exists(name).map_err(|error| Error::os(name, error))? {
            let help = match name {
                "any" => "every interface at once is for capture, count, flows and record only",
                _ => "`wirelane queues` lists the interfaces",
            };
            return Err(Error::failed(name, "there is no such interface")
                .help(help)
                .caused_by(no_device(name)));
        }
        let os = |error| Error::os(name, error);
        let index = iface::index(name).map_err(os)?;
        if !iface::flags(name).map_err(os)?.is_up() {
            return Err(Error::failed(name, "the interface is down")
                .help(format!("`ip link set {name} up` brings it up")));
        }
        let hardware_type = iface::link_type(name).map_err(os)?;
        let link_type = link_type(hardware_type).ok_or_else(|| {
            Error::failed(name, format!("frames of ARPHRD type {hardware_type} are not supported"))
        })?;
        let brief = inspect::brief(name)?;
        let count = |count: Option<u32>| {
            u16::try_from(count.unwrap_or(1).clamp(1, MAX_QUEUES as u32)).unwrap_or(1)
        };
        Ok(Self {
            name: name.to_owned(),
            index,
            rx_queues: count(brief.queues[0]),
            tx_queues: count(brief.queues[1]),
            mapping: brief.rx_queue_mapping,
            link_type,
            mtu: iface::mtu(name).map_err(os)?,
            longest: longest_frame(brief.longest_packet),
            is_loopback: hardware_type == LOOPBACK,
            mac: iface::mac(name).ok().filter(|_| link_type == ETHERNET),
            hardware: brief.driver,
            speed: brief.speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000),
            outgoing: true,
            offloads: brief.offloads,
            inspected: OnceLock::new(),
        })
    }

    /// Whether a capture with this mask receives packets of a class and queue. A loopback receives
    /// each packet that it sends, as OTHER: a mask that selects both receives the packet once, as
    /// received.
    pub(super) fn selects(&self, mask: &QueueMask, class: Class, queue: u16) -> bool {
        let is_repeated = self.is_loopback && class == Class::Tx && mask.selects(Class::Other, 0);
        !is_repeated && mask.selects(class, usize::from(queue))
    }

    /// `None` if the interface was removed after it was opened.
    fn inspected(&self) -> Option<&InterfaceQueues> {
        self.inspected.get_or_init(|| inspect::interface(&self.name).ok()).as_ref()
    }

    /// The NUMA node of the device.
    pub(super) fn numa_node(&self) -> Option<u32> {
        self.inspected()?.numa_node
    }

    pub(super) fn is_ethernet(&self) -> bool {
        self.link_type == ETHERNET
    }

    /// The frames that the device segments now. If that is turned off later, the kernel segments
    /// them in software.
    pub(super) fn segments(&self) -> SinkGso {
        let features = Ethtool::open(&self.name).and_then(|ethtool| ethtool.features());
        // A device that reports no features is assumed to segment nothing.
        let features = features.ok().flatten().unwrap_or_default();
        let has = |name| features.get(name).copied().unwrap_or(false);
        SinkGso {
            tcp4: has("tx-tcp-segmentation"),
            tcp6: has("tx-tcp6-segmentation"),
            udp: has("tx-udp-segmentation"),
            udp_fragment: false,
        }
    }

    /// Whether the generic XDP hook maps queue `q` to queue `q + 1`: the driver does not mark
    /// packets without a queue, and the hook expects the mark (`netif_get_rxqueue`).
    pub(super) fn shifts_queues(&self) -> bool {
        self.mapping == QueueMapping::Unshifted && self.rx_queues > 1
    }

    /// The queues of one class that the spec asks for.
    pub(super) fn queues(&self, spec: &Spec, class: Class) -> Vec<u16> {
        let count = match class {
            Class::Rx => self.rx_queues,
            Class::Tx => self.tx_queues,
            Class::Other => 0,
        };
        let wanted = |queue: &u16| {
            spec.queues.as_ref().is_none_or(|queues| queues.contains(usize::from(*queue)))
        };
        (0..count).filter(wanted).collect()
    }

    /// Refuses queues that the interface does not have or that the spec excludes.
    ///
    /// # Errors
    /// A usage error that names the first such queue and the number of queues.
    pub(super) fn check_mask(&self, spec: &Spec, mask: &QueueMask) -> Result<()> {
        if !self.outgoing && mask.enabled && mask.tx.largest().is_some() {
            let cause = "it was opened without the packets that the host sends, so there is no TX \
                         queue to select";
            return Err(Error::usage(format!("port '{spec}'"), cause));
        }
        for (class, set) in [(Class::Rx, &mask.rx), (Class::Tx, &mask.tx)] {
            let Some(largest) = set.largest() else { continue };
            let open = self.queues(spec, class);
            let strange = set
                .members(largest + 1)
                .find(|queue| !open.iter().any(|known| usize::from(*known) == *queue));
            if let Some(queue) = strange {
                return Err(self.no_queue(spec, class, queue));
            }
        }
        Ok(())
    }

    /// Refuses a spec whose queues exist in neither direction.
    ///
    /// # Errors
    /// As [`Device::check_mask`].
    pub(super) fn check_spec(&self, spec: &Spec) -> Result<()> {
        let Some(queues) = &spec.queues else { return Ok(()) };
        if queues.is_empty() {
            return Err(Error::usage(format!("port '{spec}'"), "it names no queue"));
        }
        let class = if self.tx_queues > self.rx_queues { Class::Tx } else { Class::Rx };
        let count = usize::from(self.rx_queues.max(self.tx_queues));
        match queues.largest().filter(|largest| *largest >= count) {
            Some(queue) => Err(self.no_queue(spec, class, queue)),
            None => Ok(()),
        }
    }

    fn no_queue(&self, spec: &Spec, class: Class, queue: usize) -> Error {
        let count = if class == Class::Tx { self.tx_queues } else { self.rx_queues };
        let name = if class == Class::Tx { "TX" } else { "RX" };
        let plural = if count == 1 { "" } else { "s" };
        let cause = if queue < usize::from(count) {
            format!("the port was not opened for {name} queue {queue}")
        } else {
            format!(
                "there is no {name} queue {queue}: {} has {count} {name} queue{plural}",
                self.name
            )
        };
        let help = match count {
            1 => "the only one is queue 0".to_owned(),
            _ => format!("they are numbered 0 to {}", count - 1),
        };
        Error::usage(format!("port '{spec}'"), cause).help(help)
    }

    /// How the kernel selects each TX queue of the spec for packets sent by a packet socket.
    pub(super) fn tx_bindings(&self, spec: &Spec, bypass: bool) -> Vec<TxBinding> {
        let queues = self.queues(spec, Class::Tx);
        let one = |queue: &u16| TxBinding::new(*queue, TxWay::Only);
        if self.tx_queues < 2 {
            return queues.iter().map(one).collect();
        }
        let all = self.inspected().map(|found| inspect::sending(found, bypass)).unwrap_or_default();
        let of = |queue: &u16| all.iter().find(|binding| binding.queue == *queue).cloned();
        let unknown = |queue: &u16| TxBinding::new(*queue, TxWay::Device);
        queues.iter().map(|queue| of(queue).unwrap_or_else(|| unknown(queue))).collect()
    }

    /// A CPU whose packets the kernel sends through TX queue `queue`, if this thread may use one. A
    /// driver with its own `ndo_select_queue` may select differently.
    pub(super) fn tx_queue_cpu(&self, queue: u16, bypass: bool) -> Option<u32> {
        if self.tx_queues == 1 {
            return affinity::allowed_cpus().ok()?.first().copied();
        }
        let bindings = inspect::sending(self.inspected()?, bypass);
        bindings.get(usize::from(queue))?.cpus.iter().next()
    }

    /// Notes for the user about transmitting on this interface. `unassigned` is the reason why no
    /// program assigns the queues.
    pub(super) fn tx_notes(&self, bindings: &[TxBinding], unassigned: &str) -> Vec<String> {
        let lost = |binding: &&TxBinding| !binding.kept && binding.cpus.is_empty();
        let queues = bindings.iter().filter(lost).map(|binding| usize::from(binding.queue));
        let set: QueueSet = queues.collect();
        let Some(way) = bindings.iter().find(lost).map(|binding| binding.way) else {
            return Vec::new();
        };
        let name = &self.name;
        vec![match way {
            TxWay::Flow => format!(
                "the kernel chooses the TX queue of each frame on {name} by its flow, and the \
                 counters of TX queues are those of the port's sockets: {unassigned}; with \
                 bypass=on the sending CPU decides, and with xdp: the socket"
            ),
            TxWay::Device => format!(
                "the driver of {name} chooses the TX queue of each frame by rules of its own"
            ),
            _ => format!(
                "no CPU of this process sends through TX queue {set} of {name}: frames leave \
                 through the queue of the sending CPU"
            ),
        }]
    }

    /// Notes for the user about captures on this interface.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        // With one queue, the mark makes no difference.
        if self.mapping == QueueMapping::Unshifted && self.rx_queues > 1 {
            let driver = self.hardware.as_deref().unwrap_or("this driver");
            notes.push(format!(
                "{driver} does not mark packets that are tied to no queue: they count as RX queue 0"
            ));
        }
        let offloads = &self.offloads;
        // The packets of a loopback are long because its senders create them so.
        let merges = offloads.gro == Some(true) || offloads.lro == Some(true);
        if merges && !self.is_loopback {
            let which = if offloads.lro == Some(true) { "LRO" } else { "GRO" };
            notes.push(format!(
                "{which} is on: received segments may be merged into packets over the MTU; \
                 `ethtool -K IF gro off lro off` shows them as on the wire"
            ));
        }
        notes
    }
}

/// Bytes of the longest frame, given the longest IP packet `packet`. Without BIG TCP this is at
/// least 65,536 bytes. Adds a link-layer header and tags.
pub(super) fn longest_frame(packet: Option<u32>) -> usize {
    const HEADER: usize = 64;
    packet.map_or(0, |bytes| bytes as usize).max(65_536) + HEADER
}

/// The error for a removed interface, at receiving and transmitting ends.
pub(super) fn removed(name: &str) -> Error {
    Error::failed(name, "the interface was removed, or moved to another network namespace")
        .help("packets received before are valid")
        .caused_by(no_device(name))
}

/// `ENODEV`: programs recognise a missing interface by it.
fn no_device(name: &str) -> OsError {
    OsError::new("ioctl SIOCGIFINDEX", name, Errno::NODEV)
}

pub(super) const ETHERNET: u16 = 1;

/// The link type in capture files for frames of an `ARPHRD_*` type (`linux/if_arp.h`).
pub(super) fn link_type(hardware: u16) -> Option<u16> {
    let found = LINK_TYPES.iter().find(|(_, types)| types.contains(&hardware));
    found.map(|(link_type, _)| *link_type)
}

/// Link types in capture files, each with the `ARPHRD_*` types of such frames.
pub(super) const LINK_TYPES: &[(u16, &[u16])] = &[
    // ARPHRD_ETHER; ARPHRD_LOOPBACK, whose frames have an Ethernet header, too.
    (ETHERNET, &[1, LOOPBACK]),
    // LINKTYPE_RAW begins with the IP header: ARPHRD_RAWIP, ARPHRD_NONE (TUN), ARPHRD_TUNNEL,
    // ARPHRD_TUNNEL6, ARPHRD_SIT.
    (101, &[519, 65534, 768, 769, 776]),
    // ARPHRD_IEEE80211, ARPHRD_IEEE80211_RADIOTAP.
    (105, &[801]),
    (127, &[803]),
];

/// `ARPHRD_LOOPBACK`
pub(super) const LOOPBACK: u16 = 772;
