//! Pending offloads of a frame: segmentation and checksum, as in `virtio_net_hdr`.
//!
//! A pending offload is stored at the start of the frame's headroom, and a flag in its `Meta` marks
//! it. Frames without one pay nothing.

use wirelane_os::packet::{
    VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_ECN, VIRTIO_NET_HDR_GSO_NONE,
    VIRTIO_NET_HDR_GSO_TCPV4, VIRTIO_NET_HDR_GSO_TCPV6, VIRTIO_NET_HDR_GSO_UDP,
    VIRTIO_NET_HDR_GSO_UDP_L4, VirtioNetHdr,
};

/// The pending offloads of a frame; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offload {
    /// How to segment it.
    pub gso: Gso,
    /// Payload bytes per segment, except the last one; bytes of IP payload per fragment for
    /// [`Gso::UdpFragment`]. With 0, as many as fit.
    pub size: u16,
    /// The partial checksum to complete. `None` if the checksum is complete or absent.
    pub checksum: Option<PartialChecksum>,
    /// CWR is set as the signal of RFC 3168: a sink that segments the frame must implement its
    /// rule.
    pub ecn: bool,
    /// CWR is part of the counter of Accurate ECN (RFC 9768 section 3.2.2.1) and belongs to every
    /// segment. Otherwise it is the signal of RFC 3168, which belongs to the first. The AE flag of
    /// a segment has the same effect. `virtio_net_hdr` of Linux 6.18 cannot express it.
    pub accurate_ecn: bool,
    /// All segments have the frame's IPv4 identification, if "don't fragment" allows it (RFC 6864
    /// section 4.1). Otherwise it increments.
    pub fixed_id: bool,
    /// The tunnel around the packet to segment. VXLAN and Geneve on their well-known ports, GRE,
    /// and IP in IP around TCP are found without it.
    pub tunnel: Option<Tunnel>,
}

/// The kind of segmentation (`VIRTIO_NET_HDR_GSO_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gso {
    /// None.
    #[default]
    None,
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams over IPv4 or IPv6 (USO).
    Udp,
    /// One UDP datagram as fragments of IPv4 or IPv6 (UFO).
    UdpFragment,
}

/// A checksum field that contains only the sum of the pseudo-header (`CHECKSUM_PARTIAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartialChecksum {
    /// Offset of the first covered byte, from the start of the frame. All bytes from it to the end
    /// are covered.
    pub start: u16,
    /// Offset of the field from `start`.
    pub offset: u16,
}

/// The tunnel around the packet to segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// VXLAN.
    Vxlan,
    /// Geneve.
    Geneve,
    /// GRE.
    Gre,
    /// Any protocol over UDP with known header offsets, as in `virtio_net_hdr_v1_hash_tunnel` of
    /// Linux 6.17.
    Udp {
        /// Offset of the outer UDP header, from the start of the frame.
        transport: u16,
        /// Offset of the inner IP header, from the start of the frame.
        network: u16,
    },
}

impl Offload {
    /// Reads the 10-byte header that the kernel writes before a packet. `None` for an unknown type.
    #[doc(hidden)]
    pub fn from_virtio(header: &VirtioNetHdr) -> Option<Self> {
        let ecn = header.gso_type & VIRTIO_NET_HDR_GSO_ECN != 0;
        let gso = match header.gso_type & !VIRTIO_NET_HDR_GSO_ECN {
            VIRTIO_NET_HDR_GSO_NONE => Gso::None,
            VIRTIO_NET_HDR_GSO_TCPV4 => Gso::Tcp4,
            VIRTIO_NET_HDR_GSO_TCPV6 => Gso::Tcp6,
            VIRTIO_NET_HDR_GSO_UDP => Gso::UdpFragment,
            VIRTIO_NET_HDR_GSO_UDP_L4 => Gso::Udp,
            _ => return None,
        };
        let partial = header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM != 0;
        let place = PartialChecksum { start: header.csum_start, offset: header.csum_offset };
        Some(Self {
            gso,
            size: if gso == Gso::None { 0 } else { header.gso_size },
            checksum: partial.then_some(place),
            ecn: ecn && matches!(gso, Gso::Tcp4 | Gso::Tcp6),
            ..Self::default()
        })
    }

    /// The header for a packet with headers of `header_len` bytes, the inverse of
    /// [`from_virtio`](Self::from_virtio). It cannot express tunnels, a fixed identification or
    /// Accurate ECN.
    #[doc(hidden)]
    pub fn to_virtio(&self, header_len: u16) -> VirtioNetHdr {
        let gso_type = match self.gso {
            Gso::None => VIRTIO_NET_HDR_GSO_NONE,
            Gso::Tcp4 => VIRTIO_NET_HDR_GSO_TCPV4,
            Gso::Tcp6 => VIRTIO_NET_HDR_GSO_TCPV6,
            Gso::UdpFragment => VIRTIO_NET_HDR_GSO_UDP,
            Gso::Udp => VIRTIO_NET_HDR_GSO_UDP_L4,
        };
        let ecn = self.ecn && matches!(self.gso, Gso::Tcp4 | Gso::Tcp6);
        let place = self.checksum.unwrap_or(PartialChecksum { start: 0, offset: 0 });
        VirtioNetHdr {
            flags: if self.checksum.is_some() { VIRTIO_NET_HDR_F_NEEDS_CSUM } else { 0 },
            gso_type: gso_type | if ecn { VIRTIO_NET_HDR_GSO_ECN } else { 0 },
            hdr_len: if self.gso == Gso::None { 0 } else { header_len },
            gso_size: self.size,
            csum_start: place.start,
            csum_offset: place.offset,
        }
    }

    /// The header for this frame, with the length of its headers, which hints how many bytes the
    /// kernel should copy first.
    pub(crate) fn virtio_of(&self, frame: &[u8]) -> VirtioNetHdr {
        let start = self.checksum.map_or(0, |place| place.start);
        let transport = match self.gso {
            // TCP's data offset is in the upper half of its 13th byte (RFC 9293 section 3.1).
            Gso::Tcp4 | Gso::Tcp6 => {
                frame.get(usize::from(start) + 12).map_or(0, |byte| u16::from(byte >> 4) * 4)
            }
            _ => 8,
        };
        self.to_virtio(start.saturating_add(transport))
    }

    /// Whether no offload is pending.
    pub fn is_none(&self) -> bool {
        self.gso == Gso::None && self.checksum.is_none()
    }
}
