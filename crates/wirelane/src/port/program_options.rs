//! Options for a port that only Wirelane's own programs set.

use std::sync::Arc;

use crate::frame::SinkGso;
use crate::pcap::FileId;
use crate::pool::Region;
use crate::port::metadata::file::FileMetadata;

/// The part of [`OpenOptions`](super::OpenOptions) that only Wirelane's own programs set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// Allow masks to select packets that the host sends (class TX), now or later. Forwarders never
    /// select them. Turning this off saves the kernel a copy of every sent packet.
    pub outgoing: bool,
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
    /// Accept a file whose interfaces have several link types. Otherwise such a file is refused.
    pub mixed_links: bool,
    /// Find all interfaces of a file when it is opened; a regular file is read once more for this.
    /// Otherwise, and for a pipe, an interface described after the first packets appears when
    /// reading reaches its description.
    pub all_interfaces: bool,
    /// Bytes of all receive rings together. `packet:` uses it unless
    /// [`ring_bytes`](super::OpenOptions::ring_bytes) is set. Each ring has at least some MiB,
    /// enough for pauses of the program.
    pub all_rings: Option<usize>,
    /// The program ends after this many packets, so receive memory need not hold more. `None` if
    /// the number is unknown. `packet:` uses it unless
    /// [`ring_bytes`](super::OpenOptions::ring_bytes) is set.
    pub packets: Option<u64>,
    /// Frame memory to use, if the port can choose its memory and this is large enough. Ports in
    /// one region send each other's frames without a copy: see
    /// [`shared_memory`](super::open::shared_memory).
    pub memory: Option<MemoryShare>,
    /// Files that other ports read and that the port must not overwrite: see
    /// [`Port::inputs`](super::Port::inputs).
    pub inputs: Vec<FileId>,
    /// Metadata of the capture file that the packets come from
    /// ([`Port::file_metadata`](super::Port::file_metadata)). A port that writes a file writes it
    /// too.
    pub file_metadata: Option<Arc<FileMetadata>>,
    /// Options for forwarders only.
    pub forwarding: Forwarding,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            outgoing: true,
            count_rejected: true,
            every_interface: false,
            mixed_links: false,
            all_interfaces: false,
            all_rings: None,
            packets: None,
            memory: None,
            inputs: Vec::new(),
            file_metadata: None,
            forwarding: Forwarding::default(),
        }
    }
}

wirelane_wire::setters!(ProgramOptions:
    outgoing: bool,
    count_rejected: bool,
    every_interface: bool,
    mixed_links: bool,
    all_interfaces: bool,
    all_rings: Option<usize>,
    packets: Option<u64>,
    memory: Option<MemoryShare>,
    inputs: Vec<FileId>,
    file_metadata: Option<Arc<FileMetadata>>,
    forwarding: Forwarding,
);

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
    /// ([`Port::tx_segmenting`](super::Port::tx_segmenting)). A port then leaves frames to its
    /// device if the device can segment them; [`Port::sink`](super::Port::sink) describes these.
    pub segments: bool,
    /// The program applies the segmentation and merging options of the spec
    /// ([`Spec::offloads`](super::Spec)). Otherwise a spec with such options is refused.
    pub heeds_offloads: bool,
}

wirelane_wire::setters!(Forwarding:
    intact: bool,
    offload: SinkGso,
    prepare_offload: bool,
    segments: bool,
    heeds_offloads: bool,
);

/// A port's share of a region of frame memory; see [`shared_memory`](super::open::shared_memory).
#[derive(Clone, Debug)]
pub struct MemoryShare {
    pub(super) region: Region,
    pub(super) bytes: usize,
}
