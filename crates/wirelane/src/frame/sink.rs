//! The destination of frames, and its offloads.

use super::offload::Gso;
use super::protocols::Protocols;

/// The longest IP packet, in bytes.
pub(crate) const MAX_PACKET: usize = 65_535;

/// The destination of packets, and its offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sink {
    /// The longest packet, in bytes after the Ethernet header and VLAN tags.
    pub mtu: usize,
    /// Whether it completes partial checksums of TCP and UDP.
    pub checksum: bool,
    /// If set, it segments frames itself, up to this many bytes after the Ethernet header and VLAN
    /// tags; longer frames are segmented to this size first. It must also complete checksums.
    pub gso_max: Option<usize>,
    /// The kinds of frames that it segments.
    pub gso: SinkGso,
}

/// The kinds of frames that a sink segments itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkGso {
    /// [`Gso::Tcp4`].
    pub tcp4: bool,
    /// [`Gso::Tcp6`].
    pub tcp6: bool,
    /// [`Gso::Udp`].
    pub udp: bool,
    /// [`Gso::UdpFragment`].
    pub udp_fragment: bool,
}

impl SinkGso {
    /// The frames that a source may leave unsegmented if these protocols are segmented later.
    /// Sources make IP fragments themselves.
    pub fn leaving(protocols: Protocols) -> Self {
        let Protocols { tcp, udp } = protocols;
        Self { tcp4: tcp, tcp6: tcp, udp, udp_fragment: false }
    }
}

impl Sink {
    /// A sink with Ethernet's MTU, 1500, and no offloads.
    pub const fn ethernet() -> Self {
        let gso = SinkGso { tcp4: false, tcp6: false, udp: false, udp_fragment: false };
        Self { mtu: 1500, checksum: false, gso_max: None, gso }
    }

    /// A sink for frames of any length without other offloads, such as a file.
    pub const fn unlimited() -> Self {
        Self { mtu: usize::MAX, ..Self::ethernet() }
    }

    /// The longest frame of this kind that the sink segments itself.
    pub(crate) fn cuts(&self, gso: Gso) -> Option<usize> {
        let takes = match gso {
            Gso::None => false,
            Gso::Tcp4 => self.gso.tcp4,
            Gso::Tcp6 => self.gso.tcp6,
            Gso::Udp => self.gso.udp,
            Gso::UdpFragment => self.gso.udp_fragment,
        };
        self.gso_max.filter(|_| takes && self.checksum).map(|max| max.min(MAX_PACKET))
    }
}
