//! The description of an interface and its queues.

#[cfg(feature = "serde")]
use serde::{Serialize, Serializer, ser::SerializeStruct as _};

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
    /// Version of the driver.
    pub driver_version: Option<String>,
    /// Firmware of the device.
    pub firmware: Option<String>,
    /// Bus address of the device, e.g. `0000:03:00.0`.
    pub bus: Option<String>,
    /// The NUMA node of the device.
    pub numa_node: Option<u32>,
    /// How the driver writes the receive queue into a packet.
    pub(crate) rx_queue_mapping: QueueMapping,
    /// Receive side.
    pub rx: Side<RxQueue>,
    /// Transmit side.
    pub tx: Side<TxQueue>,
    /// Channels that serve one receive and one transmit queue each.
    #[cfg_attr(feature = "serde", serde(serialize_with = "channels"))]
    pub combined: Setting,
    /// How received packets are distributed over the queues, if the device does this.
    pub rss: Option<Rss>,
    /// Offloads that change what a capture sees.
    #[doc(hidden)]
    pub offloads: Offloads,
    /// Findings in words: unusual properties, their meaning and the remedy.
    pub notes: Vec<String>,
}

/// One direction of an interface.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Side<Q> {
    /// Queues in use.
    pub count: Option<u32>,
    /// The maximum number of queues.
    pub max: Option<u32>,
    /// Descriptors per queue.
    pub ring: Setting,
    /// The queues in use, by number.
    pub queues: Vec<Q>,
}

/// A setting of a device: a number of channels or descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Setting {
    /// Number in use.
    pub current: Option<u32>,
    /// The maximum of the device.
    pub max: Option<u32>,
}

/// The number of channels in use is their `count`.
#[cfg(feature = "serde")]
fn channels<S: Serializer>(setting: &Setting, serializer: S) -> Result<S::Ok, S::Error> {
    let mut combined = serializer.serialize_struct("Combined", 2)?;
    combined.serialize_field("count", &setting.current)?;
    combined.serialize_field("max", &setting.max)?;
    combined.end()
}

/// A receive queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct RxQueue {
    /// Number of the queue.
    pub index: u32,
    /// The context that serves it, and its CPUs.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub service: Service,
    /// CPUs to which receive packet steering (RPS) passes its packets; empty when it is off.
    pub rps_cpus: Option<CpuList>,
}

/// A transmit queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct TxQueue {
    /// Number of the queue.
    pub index: u32,
    /// The context that serves its completions, and its CPUs.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub service: Service,
    /// CPUs whose packets transmit packet steering (XPS) sends here; empty when it is off. The
    /// kernel has no such setting for a single queue.
    pub xps_cpus: Option<CpuList>,
    /// The limit of bytes in its ring; `None` if the kernel limits only the number of packets.
    #[doc(hidden)]
    pub byte_limit: Option<ByteLimit>,
}

/// The limit of bytes in the ring of a TX queue (BQL, `lib/dynamic_queue_limits.c`). Further
/// packets wait in the queueing discipline, where control traffic can overtake bulk traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct ByteLimit {
    /// The current limit: the kernel adapts it to the bytes that the device sends between two
    /// completions. 0 before the first packet, and if the driver does not support BQL.
    pub limit: u64,
    /// The maximum of the limit.
    pub limit_max: Option<u64>,
    /// Bytes in the ring.
    pub inflight: Option<u64>,
}

/// The context that does a queue's work, and its CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Service {
    /// Identifier of its NAPI context.
    pub napi: Option<u32>,
    /// Number of its interrupt.
    pub irq: Option<u32>,
    /// The kernel thread that polls it, in threaded mode.
    pub thread: Option<u32>,
    /// The CPUs on which this work runs.
    pub cpus: Option<CpuList>,
    /// The source of `cpus`.
    #[doc(hidden)]
    pub cpus_from: Option<CpusFrom>,
    /// The NUMA node of these CPUs, if they share one.
    pub numa: Option<u32>,
}

/// The source of a queue's CPUs, the most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum CpusFrom {
    /// The affinity of the kernel thread that polls the queue.
    Thread,
    /// The affinity of the interrupt that the driver registered for the queue.
    Interrupt,
    /// The affinity of an interrupt of the device whose name contains the queue's number.
    InterruptName,
}

/// A part of [`InterfaceQueues`].
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    pub(crate) driver: Option<String>,
    pub(crate) speed_mbps: Option<u32>,
    pub(crate) rx_queue_mapping: QueueMapping,
    /// The numbers of receive and transmit queues.
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
    /// The device's transformation of the fields before hashing: `none`, `symmetric-xor` or
    /// `symmetric-or-xor`. Kernels before 6.8 report only `none`.
    pub input_transform: Option<String>,
    /// The hash key in the format of `ethtool -X … hkey`: bytes in hexadecimal, separated by
    /// colons.
    pub key: Option<String>,
    /// Whether both directions of a flow get the same hash, because of the key or the
    /// transformation. Applies to TCP and UDP over IPv4 and IPv6 with addresses and ports hashed.
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
    /// The device strips VLAN tags from received frames.
    pub rx_vlan: Option<bool>,
    /// The device inserts VLAN tags into transmitted frames.
    pub tx_vlan: Option<bool>,
}
