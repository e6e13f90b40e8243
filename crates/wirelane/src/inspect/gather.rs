//! Queries every source and combines the answers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use wirelane_os::error::OsError;
use wirelane_os::ethtool::{self, Channels, DriverInfo, Ethtool};
use wirelane_os::file;
use wirelane_os::netdev::{self, Link, Napi, NetdevQueue, QueueDirection};
use wirelane_os::sysfs::Sysfs;

use super::cpus::CpuList;
use super::interface::{
    Brief, ByteLimit, CpusFrom, InterfaceQueues, Offloads, RxQueue, Service, Setting, Side, TxQueue,
};
use super::interrupts::{self, QueueInterrupts};
use super::mapping::rx_mapping;
use super::{notes, rss};
use crate::error::{Error, Result};

/// Information common to all interfaces of a namespace, read on first use.
#[derive(Default)]
pub(super) struct NamespaceFacts {
    /// sysfs of this namespace.
    sysfs: OnceCell<Option<Sysfs>>,
    /// The interrupts of the system and their names.
    interrupts: OnceCell<Vec<(u32, String)>>,
    /// The CPUs of every NUMA node.
    nodes: OnceCell<Vec<(u32, CpuList)>>,
}

impl NamespaceFacts {
    fn sysfs(&self) -> Option<&Sysfs> {
        self.sysfs.get_or_init(Sysfs::of_this_namespace).as_ref()
    }

    fn has_proc() -> bool {
        Path::new(INTERRUPTS).exists()
    }

    fn interrupts(&self) -> &[(u32, String)] {
        let read = || interrupts::parse(&file::small(INTERRUPTS).unwrap_or_default());
        self.interrupts.get_or_init(read)
    }

    fn nodes(&self) -> &[(u32, CpuList)] {
        self.nodes.get_or_init(numa_nodes)
    }
}

const INTERRUPTS: &str = "/proc/interrupts";

/// The index of the interface `name`, and the current numbers of its receive and transmit queues.
pub(super) fn queue_counts(name: &str) -> Result<(u32, [Option<u32>; 2])> {
    let os = |error| Error::os(name, error);
    let link = netdev::link(name).map_err(os)?;
    let queues = netdev::queues(link.index).map_err(os)?.unwrap_or_default();
    let services = Services { queues, napis: Vec::new() };
    let host = NamespaceFacts::default();
    let counts = DeviceFiles::without_interrupts(&link, &host).counts(&link, &services);
    Ok((link.index, counts))
}

/// The facts about one interface that a port needs.
pub(super) fn brief(name: &str) -> Result<Brief> {
    let (link, ethtool) = find(name)?;
    let mut failures = Failures::default();
    let driver = failures.keep(ethtool.driver());
    let offloads = failures.keep(ethtool.offloads().map(Some)).unwrap_or_default();
    let speed_mbps = failures.keep(ethtool.speed());
    let queues = failures.keep(netdev::queues(link.index)).unwrap_or_default();
    failures.check(name)?;
    let services = Services { queues, napis: Vec::new() };
    let host = NamespaceFacts::default();
    let device = DeviceFiles::without_interrupts(&link, &host);
    let driver = driver_name(driver.as_ref(), &link);
    Ok(Brief {
        speed_mbps,
        rx_queue_mapping: rx_mapping(driver.as_deref().unwrap_or_default()),
        driver,
        queues: device.counts(&link, &services),
        longest_packet: link.longest_packet,
        offloads: offloads.into(),
    })
}

/// Everything known about one interface.
pub(super) fn interface(host: &NamespaceFacts, name: &str) -> Result<InterfaceQueues> {
    let (link, ethtool) = find(name)?;
    let mut failures = Failures::default();

    let driver = failures.keep(ethtool.driver());
    let channels = failures.keep(ethtool.channels());
    let rings = failures.keep(ethtool.rings());
    let rss = failures.keep(ethtool.rss()).as_ref().and_then(rss::describe);
    let offloads = failures.keep(ethtool.offloads().map(Some)).unwrap_or_default();
    let speed = failures.keep(ethtool.speed());
    let services = Services {
        queues: failures.keep(netdev::queues(link.index)).unwrap_or_default(),
        napis: failures.keep(netdev::napis(link.index)).unwrap_or_default(),
    };
    failures.check(name)?;
    let device = DeviceFiles::new(&link, host);

    let channels = channels.unwrap_or_default();
    let rx_count = device
        .count(&services, QueueDirection::Rx, link.rx_queues)
        .or_else(|| total(&channels, |channels| channels.rx));
    let tx_count = device
        .count(&services, QueueDirection::Tx, link.tx_queues)
        .or_else(|| total(&channels, |channels| channels.tx));
    let rings = rings.unwrap_or_default();
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let driver_name = driver_name(driver.as_ref(), &link);

    let mut found = InterfaceQueues {
        name: link.name.clone(),
        index: link.index,
        up: link.is_up(),
        mtu: link.mtu,
        speed_mbps: speed,
        rx_queue_mapping: rx_mapping(driver_name.as_deref().unwrap_or_default()),
        driver: driver_name,
        driver_version: driver.as_ref().and_then(|driver| known(&driver.version)),
        firmware: driver.as_ref().and_then(|driver| known(&driver.firmware)),
        bus: driver.as_ref().and_then(|driver| known(&driver.bus)),
        numa_node: device.numa_node(),
        rx: Side {
            count: rx_count,
            max: nonzero(channels.max_rx.saturating_add(channels.max_combined)).or(link.rx_queues),
            ring: ring(rings.rx, rings.max_rx),
            queues: (0..rx_count.unwrap_or(0))
                .map(|index| RxQueue {
                    index,
                    service: device.service(&services, QueueDirection::Rx, index),
                    rps_cpus: device.steering(&format!("rx-{index}/rps_cpus")),
                })
                .collect(),
        },
        tx: Side {
            count: tx_count,
            max: nonzero(channels.max_tx.saturating_add(channels.max_combined)).or(link.tx_queues),
            ring: ring(rings.tx, rings.max_tx),
            queues: (0..tx_count.unwrap_or(0))
                .map(|index| TxQueue {
                    index,
                    service: device.service(&services, QueueDirection::Tx, index),
                    xps_cpus: device.steering(&format!("tx-{index}/xps_cpus")),
                    byte_limit: device.byte_limit(index),
                })
                .collect(),
        },
        combined: combined(&channels),
        rss,
        offloads: offloads.into(),
        notes: Vec::new(),
    };
    found.notes = notes::findings(&found, host.sysfs().is_some());
    if !NamespaceFacts::has_proc() {
        let note = "interrupts and CPUs are unknown: /proc is not mounted here";
        found.notes.push(note.to_owned());
    }
    found.notes.extend(failures.messages);
    Ok(found)
}

/// The interface of this name, and a handle to query its driver.
fn find(name: &str) -> Result<(Link, Ethtool)> {
    let link = netdev::link(name).map_err(|error| match error.errno() {
        Some(ENODEV) => missing(name).caused_by(error),
        _ => Error::os(name, error),
    })?;
    let ethtool = Ethtool::open(&link.name).map_err(|error| Error::os(name, error))?;
    Ok((link, ethtool))
}

/// The name that the driver reports, or else the kernel's kind of the interface.
fn driver_name(driver: Option<&DriverInfo>, link: &Link) -> Option<String> {
    let own = driver.map(|driver| driver.driver.clone()).filter(|name| !name.is_empty());
    own.or_else(|| link.kind.clone())
}

fn missing(name: &str) -> Error {
    Error::failed(name, "the interface does not exist")
        .help("`wirelane queues` lists the interfaces")
}

/// Failed queries, other than queries that the driver does not support. A single failure leaves the
/// other answers valid.
#[derive(Default)]
struct Failures {
    messages: Vec<String>,
    /// The interface was removed during the queries.
    gone: bool,
    /// There was no memory for a query: missing answers would be wrong.
    exhausted: Option<OsError>,
}

impl Failures {
    /// # Errors
    /// A failure makes the other answers worthless.
    fn check(&mut self, name: &str) -> Result<()> {
        if self.gone {
            let gone = OsError::new("ioctl SIOCETHTOOL", name, rustix::io::Errno::NODEV);
            return Err(missing(name).caused_by(gone));
        }
        self.exhausted.take().map_or(Ok(()), |error| Err(Error::os(name, error)))
    }

    fn keep<T>(&mut self, answer: wirelane_os::error::Result<Option<T>>) -> Option<T> {
        answer.unwrap_or_else(|error: OsError| {
            self.gone |= error.errno() == Some(ENODEV);
            if error.is_exhaustion() {
                self.exhausted.get_or_insert(error);
                return None;
            }
            self.messages.push(format!("{error}: what it reports is unknown"));
            None
        })
    }
}

/// The answers of the `netdev` family.
struct Services {
    queues: Vec<NetdevQueue>,
    napis: Vec<Napi>,
}

impl Services {
    fn count(&self, direction: QueueDirection) -> Option<u32> {
        let count = self.queues.iter().filter(|queue| queue.direction == direction).count();
        u32::try_from(count).ok().and_then(nonzero)
    }

    /// The NAPI context of a queue. Its details are known only while it is in use.
    fn napi(&self, direction: QueueDirection, index: u32) -> Option<Napi> {
        let queue = self
            .queues
            .iter()
            .find(|queue| queue.direction == direction && queue.index == index)?;
        let id = queue.napi?;
        let known = self.napis.iter().find(|napi| napi.id == id).copied();
        Some(known.unwrap_or(Napi { id, irq: None, thread: None }))
    }
}

/// Information about one interface from files.
struct DeviceFiles<'a> {
    name: &'a str,
    host: &'a NamespaceFacts,
    interrupts: QueueInterrupts,
}

impl<'a> DeviceFiles<'a> {
    fn new(link: &'a Link, host: &'a NamespaceFacts) -> DeviceFiles<'a> {
        let mut device = Self::without_interrupts(link, host);
        device.interrupts = device.named_interrupts().unwrap_or_default();
        device
    }

    fn without_interrupts(link: &'a Link, host: &'a NamespaceFacts) -> DeviceFiles<'a> {
        DeviceFiles { name: &link.name, host, interrupts: QueueInterrupts::default() }
    }

    /// Reads a file of this interface in sysfs.
    fn read(&self, file: &str) -> Option<String> {
        self.host.sysfs()?.read(&format!("class/net/{}/{file}", self.name))
    }

    /// The names in a directory of this interface in sysfs.
    fn list(&self, directory: &str) -> Option<BTreeSet<String>> {
        self.host.sysfs()?.list(&format!("class/net/{}/{directory}", self.name))
    }

    /// The number of queues in use: from the kernel's list, which exists while the interface is up,
    /// or from sysfs. Allocated queues count only if there is one, since others may not be in use.
    fn count(
        &self,
        services: &Services,
        direction: QueueDirection,
        allocated: Option<u32>,
    ) -> Option<u32> {
        let prefix = match direction {
            QueueDirection::Rx => "rx-",
            QueueDirection::Tx => "tx-",
        };
        let listed = || {
            let names = self.list("queues")?;
            let count = names.iter().filter(|name| name.starts_with(prefix)).count();
            u32::try_from(count).ok().and_then(nonzero)
        };
        services
            .count(direction)
            .or_else(listed)
            .or_else(|| allocated.filter(|allocated| *allocated == 1))
    }

    /// [`DeviceFiles::count`] of the receive and transmit queues, or the driver's numbers.
    fn counts(&self, link: &Link, services: &Services) -> [Option<u32>; 2] {
        let channels = || {
            let channels = Ethtool::open(self.name).and_then(|ethtool| ethtool.channels());
            channels.ok().flatten().unwrap_or_default()
        };
        let rx = self.count(services, QueueDirection::Rx, link.rx_queues);
        let tx = self.count(services, QueueDirection::Tx, link.tx_queues);
        [
            rx.or_else(|| total(&channels(), |channels| channels.rx)),
            tx.or_else(|| total(&channels(), |channels| channels.tx)),
        ]
    }

    fn service(&self, services: &Services, direction: QueueDirection, index: u32) -> Service {
        let napi = services.napi(direction, index);
        let thread = napi.and_then(|napi| napi.thread);
        let registered = napi.and_then(|napi| napi.irq);
        let named = match direction {
            QueueDirection::Rx => self.interrupts.rx.get(&index),
            QueueDirection::Tx => self.interrupts.tx.get(&index),
        };
        let irq = registered.or(named.copied());
        let from_irq =
            if registered.is_some() { CpusFrom::Interrupt } else { CpusFrom::InterruptName };
        // In threaded mode the interrupt only wakes the thread that does the work.
        let known = thread
            .and_then(thread_cpus)
            .map(|cpus| (cpus, CpusFrom::Thread))
            .or_else(|| irq.and_then(interrupt_cpus).map(|cpus| (cpus, from_irq)));
        let (cpus, cpus_from) = known.unzip();
        let numa = cpus.as_ref().and_then(|cpus| self.node_of(cpus));
        Service { napi: napi.map(|napi| napi.id), irq, thread, cpus, cpus_from, numa }
    }

    /// Reads an RPS or XPS mask.
    fn steering(&self, file: &str) -> Option<CpuList> {
        let mask = self.read(&format!("queues/{file}"))?;
        CpuList::from_mask(&mask)
    }

    fn byte_limit(&self, queue: u32) -> Option<ByteLimit> {
        let read = |file| {
            self.read(&format!("queues/tx-{queue}/byte_queue_limits/{file}"))?.trim().parse().ok()
        };
        Some(ByteLimit {
            limit: read("limit")?,
            limit_max: read("limit_max"),
            inflight: read("inflight"),
        })
    }

    fn numa_node(&self) -> Option<u32> {
        // A virtio device is on the node of its PCI function. -1 means "none", and does not parse
        // as u32.
        ["device/numa_node", "device/../numa_node"]
            .into_iter()
            .find_map(|file| self.read(file)?.parse().ok())
    }

    fn node_of(&self, cpus: &CpuList) -> Option<u32> {
        let holds = |(_, of_node): &&(u32, CpuList)| !cpus.is_empty() && cpus.is_subset(of_node);
        self.host.nodes().iter().find(holds).map(|(node, _)| *node)
    }

    /// Interrupts of the device by the names that it gave them. A virtio device uses the interrupts
    /// of its PCI function.
    fn named_interrupts(&self) -> Option<QueueInterrupts> {
        let own: Vec<u32> = ["device/msi_irqs", "device/../msi_irqs"]
            .into_iter()
            .find_map(|directory| self.list(directory))?
            .iter()
            .filter_map(|irq| irq.parse().ok())
            .collect();
        // If several interfaces share a device, only names that contain the interface's name
        // identify its interrupts.
        let alone = self.list("device/net").is_some_and(|interfaces| interfaces.len() == 1);
        let named: Vec<_> = self
            .host
            .interrupts()
            .iter()
            .filter(|(irq, name)| {
                own.contains(irq) && (alone || interrupts::names(name, self.name))
            })
            .cloned()
            .collect();
        Some(interrupts::assign(&named, self.name))
    }
}

/// The CPUs of an interrupt: the effective ones, or else the allowed ones.
fn interrupt_cpus(irq: u32) -> Option<CpuList> {
    ["effective_affinity_list", "smp_affinity_list"].into_iter().find_map(|file| {
        let list = file::small(format!("/proc/irq/{irq}/{file}")).ok()?;
        CpuList::from_list(&list).filter(|cpus| !cpus.is_empty())
    })
}

/// The CPUs on which a kernel thread may run.
fn thread_cpus(thread: u32) -> Option<CpuList> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    CpuList::from_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

fn numa_nodes() -> Vec<(u32, CpuList)> {
    const DIRECTORY: &str = "/sys/devices/system/node";
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(node) = name.strip_prefix("node").and_then(|node| node.parse().ok()) else {
            continue;
        };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        if let Some(cpus) = CpuList::from_list(&list) {
            nodes.insert(node, cpus);
        }
    }
    nodes.into_iter().collect()
}

fn combined(channels: &Channels) -> Setting {
    // A driver without combined channels reports a maximum of 0.
    match nonzero(channels.max_combined) {
        Some(max) => Setting { current: Some(channels.combined), max: Some(max) },
        None => Setting::default(),
    }
}

/// The channels of one direction, plus the combined channels.
fn total(channels: &Channels, own: impl Fn(&Channels) -> u32) -> Option<u32> {
    nonzero(own(channels).saturating_add(channels.combined))
}

fn ring(current: u32, max: u32) -> Setting {
    match nonzero(max) {
        Some(max) => Setting { current: Some(current), max: Some(max) },
        None => Setting::default(),
    }
}

fn nonzero(count: u32) -> Option<u32> {
    (count != 0).then_some(count)
}

#[doc(hidden)]
impl From<ethtool::Offloads> for Offloads {
    fn from(offloads: ethtool::Offloads) -> Self {
        let ethtool::Offloads { gro, lro, rx_vlan, tx_vlan, .. } = offloads;
        Self { gro, lro, rx_vlan, tx_vlan }
    }
}

/// `ENODEV`, as [`OsError::errno`] returns it.
const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();
