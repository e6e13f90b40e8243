//! Where frames go, and what is done to them there.

use super::offload::Gso;
use super::protocols::Protocols;

/// The longest IP packet, in bytes.
pub(crate) const MAX_PACKET: usize = 65_535;

/// Where packets go, and what is done to them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sink {
    /// The longest packet, in bytes after the Ethernet header and VLAN tags.
    pub mtu: usize,
    /// It completes partial checksums of TCP and UDP.
    pub checksum: bool,
    /// It cuts frames itself, up to this many bytes after the Ethernet header and VLAN tags; longer
    /// ones are cut to fit first. It must also complete checksums.
    pub gso_max: Option<usize>,
    /// Which kinds it cuts.
    pub gso: SinkGso,
}

/// The kinds of frames that a sink cuts itself.
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
    /// Which frames a source may leave to be cut if these protocols are cut later. Sources make IP
    /// fragments themselves.
    pub fn leaving(protocols: Protocols) -> Self {
        let Protocols { tcp, udp } = protocols;
        Self { tcp4: tcp, tcp6: tcp, udp, udp_fragment: false }
    }
}

impl Sink {
    /// A sink with the MTU of Ethernet, 1500, and no offloads.
    pub const fn ethernet() -> Self {
        let gso = SinkGso { tcp4: false, tcp6: false, udp: false, udp_fragment: false };
        Self { mtu: 1500, checksum: false, gso_max: None, gso }
    }

    /// A sink for frames of any length without other offloads, such as a file.
    pub const fn unlimited() -> Self {
        Self { mtu: usize::MAX, ..Self::ethernet() }
    }

    /// The longest frame of this kind that the sink cuts itself.
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
