//! The options of a program for a port, in addition to the port's spec.

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
    /// Which packets to select at first; [`Control::set_mask`](super::Control::set_mask) changes it
    /// later.
    pub mask: QueueMask,
    /// Which of the selected packets to receive, at first; all when `None`.
    /// [`Control::set_filter`](super::Control::set_filter) changes it later. On `xdp:` the others
    /// go to the host.
    pub filter: Option<Filter>,
    /// Open for receiving.
    pub receive: bool,
    /// Open for transmitting.
    pub transmit: bool,
    /// Packets that the host itself sends can be selected, now or later (TX queues of the masks). A
    /// forwarder never does, and turning this off saves the kernel a copy of every sent packet.
    pub outgoing: bool,
    /// Longest part of a packet to keep, in bytes.
    pub snaplen: u32,
    /// Promiscuous mode while the port is open: receive packets not addressed to the interface.
    pub promiscuous: bool,
    /// When the interface is removed, wait for another one of its name and go on; otherwise the
    /// port ends with an error. `packet:` only. The kernel then offers each packet to every queue's
    /// ring.
    pub wait: bool,
    /// Count what the filter rejects, if that can be had: `packet:` then has a program of eBPF look
    /// at each packet in the kernel, which takes CAP_BPF when the port is opened, and time, which
    /// one without a filter at first that is to receive a number of [packets](Self::packets) saves.
    /// Otherwise [`QueueStats::filtered`](crate::stats::QueueStats::filtered) is unknown with a
    /// filter.
    pub count_rejected: bool,
    /// `any` means all interfaces of the network namespace, those that come later included
    /// ([`packet`](super::packet)). Their packets are told apart by a
    /// [capture](crate::session::capture) only.
    pub every_interface: bool,
    /// The packets of a file may have several link types, each that of its interface
    /// ([`interfaces`](crate::session::interfaces)). Otherwise such a file is refused.
    pub mixed_links: bool,
    /// All interfaces of a file are known from the start, wherever it describes them: a regular
    /// file is read once more for this. Otherwise, and for a pipe, an interface described behind
    /// the first packets appears when the reading reaches it.
    pub all_interfaces: bool,
    /// Bytes of receive memory per queue; the backend's choice when `None`.
    pub ring_bytes: Option<usize>,
    /// Bytes of all receive rings together. `packet:` heeds it, where `ring_bytes` says nothing
    /// else; each ring has some MiB, and enough for pauses of the program, at least.
    pub all_rings: Option<usize>,
    /// The program ends after receiving this many packets, so receive memory need not hold more;
    /// `None` when it does not know. `packet:` heeds it, where `ring_bytes` says nothing else.
    pub packets: Option<u64>,
    /// About how long a received packet may wait for others; the backend's choice when `None`. A
    /// shorter time costs more wake-ups. Below a millisecond `packet:` hands over each packet by
    /// itself, if the process has CAP_NET_ADMIN.
    pub latency: Option<Duration>,
    /// Which CPU serves which queue. The queue's memory comes from the NUMA node of that CPU.
    pub placement: Placement,
    /// Frame memory, if the port can choose it and it is large enough. Ports of one region send
    /// each other's frames without a copy. See [`shared_memory`](super::shared_memory).
    pub memory: Option<MemoryShare>,
    /// Which packets to take away from the host. By default a program only looks, and a bare name
    /// is `packet:`.
    pub take: Take,
    /// Also take packets that keep the host reachable: ARP, neighbour discovery, SSH, DNS and DHCP.
    /// Otherwise they stay with the host. See the documentation of [`xdp`](super::xdp).
    pub take_management: bool,
    /// Files that other ports read and that must not be overwritten: see
    /// [`Port::inputs`](super::Port::inputs).
    pub inputs: Vec<FileId>,
    /// Metadata of the capture file that the packets come from
    /// ([`Port::file_metadata`](super::Port::file_metadata)), to be written as well.
    pub file_metadata: Option<Arc<FileMetadata>>,
    /// Ends waiting for others, while the port opens and later: for a silent pipe, or one without a
    /// reader.
    pub halt: Halt,
    /// Options for forwarders only.
    pub forwarding: Forwarding,
}

/// How a forwarder handles frames that are not as they were on the wire.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Forwarding {
    /// Refuse a port that would change packets, such as by stripping VLAN tags, unless its spec
    /// allows that (`tags=off`). When false, such a port opens with a note. Packets that the kernel
    /// has merged into one are marked to be cut ([`Frame::offload`](crate::Frame::offload)), if the
    /// port can tell.
    pub intact: bool,
    /// Which frames longer than the MTU the program accepts, to cut them later
    /// ([`crate::segment`]). A port asks its sender for them if it can (`tap:`). Their checksums
    /// may be partial, too: see [`Frame::offload`](crate::Frame::offload).
    pub offload: SinkGso,
    /// Keep room for such frames even if none can come yet:
    /// [`Control::set_offload`](super::Control::set_offload) may ask for them later.
    pub prepare_offload: bool,
    /// The program cuts long frames before it transmits them
    /// ([`Port::tx_cutting`](super::Port::tx_cutting)). A port then leaves to its device the frames
    /// that this can cut, and [`Port::sink`](super::Port::sink) says which.
    pub cuts: bool,
    /// The program follows the cutting and merging options of the spec
    /// ([`Spec::offloads`](super::Spec)). Otherwise a spec with such options is refused.
    pub heeds_offloads: bool,
}

/// Which of the selected packets a port may take away from the host. Only `xdp:` takes packets
/// away; the other ports copy, or have no host to take from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// None: the program only looks. A bare name is `packet:`, and `xdp:` refuses to open for
    /// receiving, so that no host is cut off by accident.
    #[default]
    Nothing,
    /// Those that the filter accepts ([`OpenOptions::filter`] or a later one); the others go to the
    /// host. A bare name is `packet:`.
    Matching,
    /// All of them, or those that the filter accepts while there is one. A bare name is the best
    /// mode that works.
    All,
}

/// A port's part of a region of frame memory; see [`shared_memory`](super::shared_memory).
#[derive(Clone, Debug)]
pub struct MemoryShare {
    pub(super) region: Region,
    pub(super) bytes: usize,
}

impl OpenOptions {
    /// The longest snap length, and the default.
    pub const MAX_SNAPLEN: u32 = 262_144;
    /// Whoever wants so few packets is better off with little than with fast.
    pub(crate) const FEW: u64 = 10_000;

    /// For a program that forwards, through the same port or another one opened like this. Frames
    /// arrive within about a millisecond, as they were on the wire or marked to be cut, which
    /// [`Port::tx_cutting`] does. Packets that the host itself sends are left alone: they are
    /// already on their way.
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

    /// Why what the filter rejects is not to be counted; `None` if it is.
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

/// Setters by value, named as the fields that they set. What is optional takes the value as well as
/// an `Option` of it.
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
    /// To receive copies of everything.
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
