//! A program's options for a port, in addition to the port's spec.

use std::sync::Arc;
use std::time::Duration;

use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::halt::Halt;
use crate::mask::{QueueMask, QueueSet};
use crate::pcap::FileId;
use crate::placement::Placement;
use crate::pool::Region;
use crate::port::metadata::file::FileMetadata;

/// How to open a port, in addition to its spec. Each field has a setter of the same name:
///
/// ```
/// use wirelane::QueueMask;
/// use wirelane::port::OpenOptions;
///
/// let options = OpenOptions::default().snaplen(96).promiscuous(true).transmit(true);
/// assert_eq!(options.snaplen, 96);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Which packets to select when the port opens. [`Control::set_mask`](super::Control::set_mask)
    /// changes it later.
    pub mask: QueueMask,
    /// Which of the selected packets to receive when the port opens; `None` means all.
    /// [`Control::set_filter`](super::Control::set_filter) changes it later. On `xdp:`, rejected
    /// packets continue to the host.
    pub filter: Option<Filter>,
    /// Open for receiving.
    pub receive: bool,
    /// Open for transmitting.
    pub transmit: bool,
    /// Allow masks to select packets that the host sends (class TX), now or later. Forwarders never
    /// select them. Turning this off saves the kernel a copy of every sent packet.
    pub outgoing: bool,
    /// Snap length: the most bytes kept of a packet.
    pub snaplen: u32,
    /// Promiscuous mode while the port is open: receives packets not addressed to the interface.
    pub promiscuous: bool,
    /// When the interface is removed, wait for a new interface of the same name and continue.
    /// Otherwise the port ends with an error. `packet:` only; the kernel then offers each packet to
    /// every queue's ring.
    pub wait: bool,
    /// Count the packets that the filter rejects. On `packet:`, an eBPF program then examines each
    /// packet in the kernel. This needs CAP_BPF when the port is opened, and costs time. A port
    /// that opens without a filter and with a limit on [packets](Self::packets) does not load it.
    /// When rejected packets are not counted,
    /// [`QueueStats::filtered`](crate::stats::QueueStats::filtered) is unknown while there is a
    /// filter.
    pub count_rejected: bool,
    /// The name `any` means all interfaces of the network namespace, including interfaces created
    /// later ([`packet`](super::packet)). Only a [capture](crate::session::capture) distinguishes
    /// their packets.
    pub every_interface: bool,
    /// Accept a file whose interfaces have several link types
    /// ([`interfaces`](crate::session::interfaces)). Otherwise such a file is refused.
    pub mixed_links: bool,
    /// Find all interfaces of a file when it is opened; a regular file is read once more for this.
    /// Otherwise, and for a pipe, an interface described after the first packets appears when
    /// reading reaches its description.
    pub all_interfaces: bool,
    /// Bytes of receive memory per queue; `None` leaves the size to the backend.
    pub ring_bytes: Option<usize>,
    /// Bytes of all receive rings together. `packet:` uses it unless `ring_bytes` is set. Each ring
    /// has at least some MiB, enough for pauses of the program.
    pub all_rings: Option<usize>,
    /// The program ends after this many packets, so receive memory need not hold more. `None` if
    /// the number is unknown. `packet:` uses it unless `ring_bytes` is set.
    pub packets: Option<u64>,
    /// About how long a received packet may wait for others; `None` leaves it to the backend.
    /// Shorter times cost more wake-ups. Below one millisecond, `packet:` hands over single packets
    /// if the process has CAP_NET_ADMIN or `net.core.rmem_max` is at least 4 MiB.
    pub latency: Option<Duration>,
    /// Which CPU serves which queue. The queue's memory is allocated on the NUMA node of that CPU.
    pub placement: Placement,
    /// Frame memory to use, if the port can choose its memory and this is large enough. Ports in
    /// one region send each other's frames without a copy. See
    /// [`shared_memory`](super::shared_memory).
    pub memory: Option<MemoryShare>,
    /// Which packets to take away from the host. By default a program only copies packets, and a
    /// bare name is `packet:`.
    pub take: Take,
    /// Also take the packets that keep the host reachable: ARP, neighbour discovery, SSH, DNS and
    /// DHCP. Otherwise the host receives them. See [`xdp`](super::xdp).
    pub take_management: bool,
    /// Files that other ports read and that the port must not overwrite: see
    /// [`Port::inputs`](super::Port::inputs).
    pub inputs: Vec<FileId>,
    /// Metadata of the capture file that the packets come from
    /// ([`Port::file_metadata`](super::Port::file_metadata)). A port that writes a file writes it
    /// too.
    pub file_metadata: Option<Arc<FileMetadata>>,
    /// Ends waiting for external parties, such as a silent pipe or a pipe without a reader, while
    /// the port opens and later.
    pub halt: Halt,
    /// Options for forwarders only.
    pub forwarding: Forwarding,
}

/// How a forwarder handles frames that differ from the frames on the wire.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Forwarding {
    /// Refuse a port that would change packets, such as by stripping VLAN tags, unless its spec
    /// allows it (`tags=off`). When false, such a port opens with a note. If the port can tell,
    /// packets that the kernel has merged are marked for segmentation
    /// ([`Frame::offload`](crate::Frame::offload)).
    pub intact: bool,
    /// The frames longer than the MTU that the program accepts and segments later
    /// ([`crate::segment`]). A port asks its sender for them if it can (`tap:`). Their checksums
    /// may be partial: see [`Frame::offload`](crate::Frame::offload).
    pub offload: SinkGso,
    /// Reserve room for such frames even if `offload` accepts none.
    /// [`Control::set_offload`](super::Control::set_offload) may request them later.
    pub prepare_offload: bool,
    /// The program segments long frames before it transmits them
    /// ([`Port::tx_cutting`](super::Port::tx_cutting)). A port then leaves frames to its device if
    /// the device can segment them; [`Port::sink`](super::Port::sink) describes these.
    pub cuts: bool,
    /// The program applies the segmentation and merging options of the spec
    /// ([`Spec::offloads`](super::Spec)). Otherwise a spec with such options is refused.
    pub heeds_offloads: bool,
}

/// Which of the selected packets a port may take away from the host. Only `xdp:` takes packets
/// away. Other ports copy packets, or have no host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// None: the program receives copies. A bare name is `packet:`, and `xdp:` refuses to open for
    /// receiving, so that no host is disconnected by accident.
    #[default]
    Nothing,
    /// The packets that the filter accepts ([`OpenOptions::filter`] or a later one); the others
    /// continue to the host. A bare name is `packet:`.
    Matching,
    /// All of them; while there is a filter, the packets that it accepts. A bare name is the best
    /// mode that works.
    All,
}

/// A port's share of a region of frame memory; see [`shared_memory`](super::shared_memory).
#[derive(Clone, Debug)]
pub struct MemoryShare {
    pub(super) region: Region,
    pub(super) bytes: usize,
}

impl OpenOptions {
    /// The longest snap length, and the default.
    pub const MAX_SNAPLEN: u32 = 262_144;
    /// Up to this many packets, small memory is better than fast memory.
    pub(crate) const FEW: u64 = 10_000;

    /// Options for forwarding through this port or another port opened the same way. Frames arrive
    /// within about a millisecond, either as they were on the wire or marked for segmentation,
    /// which [`Port::tx_cutting`] performs. Packets that the host sends are not selected.
    ///
    /// [`Port::tx_cutting`]: super::Port::tx_cutting
    pub fn forwarder() -> Self {
        Self {
            mask: QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: true },
            transmit: true,
            outgoing: false,
            promiscuous: true,
            latency: Some(Duration::from_millis(1)),
            forwarding: Forwarding {
                intact: true,
                cuts: true,
                heeds_offloads: true,
                ..Forwarding::default()
            },
            ..Self::default()
        }
    }

    /// Why rejected packets are not counted; `None` if they are.
    pub(super) fn uncounted(&self) -> Option<&'static str> {
        match (self.count_rejected, self.packets) {
            (false, _) => Some("the program does not ask for it"),
            (true, Some(_)) if self.filter.is_none() => {
                Some("a capture of so many packets that begins without a filter saves the time")
            }
            _ => None,
        }
    }

    /// The snap length, within its limits.
    pub(super) fn clamped_snaplen(&self) -> u32 {
        self.snaplen.clamp(1, Self::MAX_SNAPLEN)
    }
}

/// Setters by value, named like the fields. Optional fields take a value or an `Option`.
macro_rules! setters {
    ($type:ident: $($field:ident: $value:ty),+ $(,)?) => {
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($type), "::", stringify!($field), "`](#structfield.",
                    stringify!($field), ").")]
                #[must_use]
                pub fn $field(self, $field: $value) -> Self {
                    #[allow(clippy::useless_conversion, reason = "it is one for what is optional")]
                    Self { $field: $field.into(), ..self }
                }
            )+
        }
    };
}

setters!(OpenOptions:
    mask: QueueMask,
    filter: impl Into<Option<Filter>>,
    receive: bool,
    transmit: bool,
    outgoing: bool,
    snaplen: u32,
    promiscuous: bool,
    wait: bool,
    count_rejected: bool,
    every_interface: bool,
    mixed_links: bool,
    all_interfaces: bool,
    ring_bytes: impl Into<Option<usize>>,
    all_rings: impl Into<Option<usize>>,
    packets: impl Into<Option<u64>>,
    latency: impl Into<Option<Duration>>,
    placement: Placement,
    memory: impl Into<Option<MemoryShare>>,
    take: Take,
    take_management: bool,
    inputs: Vec<FileId>,
    file_metadata: impl Into<Option<Arc<FileMetadata>>>,
    halt: Halt,
    forwarding: Forwarding,
);

setters!(Forwarding:
    intact: bool,
    offload: SinkGso,
    prepare_offload: bool,
    cuts: bool,
    heeds_offloads: bool,
);

impl Default for OpenOptions {
    /// Receives copies of all packets.
    fn default() -> Self {
        Self {
            mask: QueueMask::ALL,
            filter: None,
            receive: true,
            transmit: false,
            outgoing: true,
            snaplen: Self::MAX_SNAPLEN,
            promiscuous: false,
            wait: false,
            count_rejected: true,
            every_interface: false,
            mixed_links: false,
            all_interfaces: false,
            ring_bytes: None,
            all_rings: None,
            packets: None,
            latency: None,
            placement: Placement::default(),
            memory: None,
            take: Take::Nothing,
            take_management: false,
            inputs: Vec::new(),
            file_metadata: None,
            halt: Halt::default(),
            forwarding: Forwarding::default(),
        }
    }
}
