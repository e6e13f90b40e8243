//! What is known of an interface and its queues.

#[cfg(feature = "serde")]
use serde::Serialize;

use super::cpus::CpuList;
use super::mapping::QueueMapping;

/// An interface and its queues.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct InterfaceQueues {
    /// Name, e.g. `eth0`.
    pub name: String,
    /// Interface index.
    #[cfg_attr(feature = "serde", serde(rename = "ifindex"))]
    pub index: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Largest payload of a link-layer frame, in bytes.
    pub mtu: Option<u32>,
    /// Speed of the link in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// The driver, e.g. `ice`.
    pub driver: Option<String>,
    /// Its version.
    pub driver_version: Option<String>,
    /// Firmware of the device.
    pub firmware: Option<String>,
    /// Where the device sits, e.g. `0000:03:00.0`.
    pub bus: Option<String>,
    /// The NUMA node next to the device.
    pub numa_node: Option<u32>,
    /// How the driver writes the receive queue into a packet.
    pub rx_queue_mapping: QueueMapping,
    /// Receive side.
    pub rx: Side<RxQueue>,
    /// Transmit side.
    pub tx: Side<TxQueue>,
    /// Channels that serve one receive and one transmit queue each.
    pub combined: Combined,
    /// How received packets are spread over the queues, if the device does it.
    pub rss: Option<Rss>,
    /// Offloads that change what a capture sees.
    pub offloads: Offloads,
    /// Findings, in words: what is unusual, what it means, what to do.
    pub notes: Vec<String>,
}

/// One direction of an interface.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Side<Q> {
    /// Queues in use.
    pub count: Option<u32>,
    /// The most there can be.
    pub max: Option<u32>,
    /// Descriptors per queue.
    pub ring: Ring,
    /// The queues in use, by number.
    pub queues: Vec<Q>,
}

/// Combined channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Combined {
    /// In use.
    pub count: Option<u32>,
    /// The most there can be.
    pub max: Option<u32>,
}

/// The depth of a queue, in descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Ring {
    /// In use.
    pub current: Option<u32>,
    /// The most the device takes.
    pub max: Option<u32>,
}

/// A receive queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct RxQueue {
    /// Its number.
    pub index: u32,
    /// What serves it, and where.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub service: Service,
    /// CPUs to which receive packet steering (RPS) hands its packets; empty when it is off.
    pub rps_cpus: Option<CpuList>,
}

/// A transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct TxQueue {
    /// Its number.
    pub index: u32,
    /// What serves its completions, and where.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub service: Service,
    /// CPUs whose packets transmit packet steering (XPS) sends here; empty when it is off. The
    /// kernel has no such setting for a queue that is the only one.
    pub xps_cpus: Option<CpuList>,
    /// How many bytes may be in its ring; `None` where the kernel limits only their number.
    pub byte_limit: Option<ByteLimit>,
}

/// How many bytes the kernel lets into the ring of a TX queue (BQL, `lib/dynamic_queue_limits.c`):
/// what is more waits in the queueing discipline, where control can pass bulk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct ByteLimit {
    /// As it is now: the kernel adapts it to what the device sends between two completions. 0
    /// before the first packet, and where the driver does not take part.
    pub limit: u64,
    /// Beyond this the kernel does not go.
    pub limit_max: Option<u64>,
    /// Bytes in the ring.
    pub inflight: Option<u64>,
}

/// What runs a queue's work, and on which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Service {
    /// Identity of its NAPI context.
    pub napi: Option<u32>,
    /// Its interrupt.
    pub irq: Option<u32>,
    /// The kernel thread that polls it, in threaded mode.
    pub thread: Option<u32>,
    /// The CPUs that this work runs on.
    pub cpus: Option<CpuList>,
    /// How `cpus` became known.
    pub cpus_from: Option<CpusFrom>,
    /// The NUMA node of those CPUs, if they share one.
    pub numa: Option<u32>,
}

/// How the CPUs of a queue became known, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum CpusFrom {
    /// The affinity of the kernel thread that polls the queue.
    Thread,
    /// The affinity of the interrupt that the driver registered for the queue.
    Interrupt,
    /// The affinity of an interrupt of the device whose name tells the queue.
    InterruptName,
}

/// A part of [`InterfaceQueues`].
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    pub(crate) driver: Option<String>,
    pub(crate) speed_mbps: Option<u32>,
    pub(crate) rx_queue_mapping: QueueMapping,
    /// How many there are: receive queues, and transmit queues.
    pub(crate) queues: [Option<u32>; 2],
    /// See [`Link::longest_packet`](wirelane_os::netdev::Link::longest_packet).
    pub(crate) longest_packet: Option<u32>,
    pub(crate) offloads: Offloads,
}

/// Receive-side scaling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct Rss {
    /// `toeplitz`, `xor` or `crc32`.
    pub function: Option<String>,
    /// What the device does with the fields before hashing: `none`, `symmetric-xor` or
    /// `symmetric-or-xor`. Kernels before 6.8 know of `none` only.
    pub input_transform: Option<String>,
    /// The hash key as `ethtool -X … hkey` takes it: bytes in hexadecimal, separated by colons.
    pub key: Option<String>,
    /// Whether both directions of a flow get the same hash, by the key or by the transformation. It
    /// is about TCP and UDP over IPv4 and IPv6 with addresses and ports hashed.
    pub key_symmetric: Option<bool>,
    /// The receive queue of each hash bucket.
    pub indirection: Option<Vec<u32>>,
}

/// Offloads that change what a capture sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Offloads {
    /// The kernel merges received segments of a flow.
    pub gro: Option<bool>,
    /// The device merges received segments of a flow.
    pub lro: Option<bool>,
    /// The device takes VLAN tags out of received frames.
    pub rx_vlan: Option<bool>,
    /// The device puts VLAN tags into transmitted frames.
    pub tx_vlan: Option<bool>,
}
