//! A program's options for a port, in addition to the port's spec.

use std::time::Duration;

use super::program_options::{Forwarding, ProgramOptions};
use crate::filter::Filter;
use crate::halt::Halt;
use crate::mask::{QueueMask, QueueSet};
use crate::placement::Placement;

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
    /// Snap length: the most bytes kept of a packet.
    pub snaplen: u32,
    /// Promiscuous mode while the port is open: receives packets not addressed to the interface.
    pub promiscuous: bool,
    /// When the interface is removed, wait for a new interface of the same name and continue.
    /// Otherwise the port ends with an error. `packet:` only; the kernel then offers each packet to
    /// every queue's ring.
    pub wait: bool,
    /// Bytes of receive memory per queue; `None` leaves the size to the backend.
    pub ring_bytes: Option<usize>,
    /// About how long a received packet may wait for others; `None` leaves it to the backend.
    /// Shorter times cost more wake-ups. Below one millisecond, `packet:` hands over single packets
    /// if the process has CAP_NET_ADMIN or `net.core.rmem_max` is at least 4 MiB.
    pub latency: Option<Duration>,
    /// Which CPU serves which queue. The queue's memory is allocated on the NUMA node of that CPU.
    pub placement: Placement,
    /// Which packets to take away from the host. By default a program only copies packets, and a
    /// bare name is `packet:`.
    pub take: Take,
    /// Ends waiting for external parties, such as a silent pipe or a pipe without a reader, while
    /// the port opens and later.
    pub halt: Halt,
    /// Options that only Wirelane's own programs set.
    #[doc(hidden)]
    pub internal: ProgramOptions,
}

/// Which of the selected packets a port may take away from the host. Only `xdp:` takes packets
/// away. Other ports copy packets, or have no host.
///
/// Management packets keep the host reachable: ARP, neighbour discovery, SSH, DNS and DHCP
/// ([`xdp`](super::xdp)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// None: the program receives copies. A bare name is `packet:`, and `xdp:` refuses to open for
    /// receiving, so that no host is disconnected by accident.
    #[default]
    Nothing,
    /// The packets that the filter accepts ([`OpenOptions::filter`] or a later one), except
    /// management packets; the others continue to the host. A bare name is `packet:`.
    Matching,
    /// As [`Take::Matching`], including management packets.
    MatchingAndManagement,
    /// All of them, except management packets; while there is a filter, the packets that it
    /// accepts. A bare name is the best mode that works.
    All,
    /// As [`Take::All`], including management packets.
    AllAndManagement,
}

impl Take {
    /// As `self`, with or without the management packets.
    #[must_use]
    pub fn management(self, is_taken: bool) -> Self {
        match (self, is_taken) {
            (Self::Nothing, _) => Self::Nothing,
            (Self::Matching | Self::MatchingAndManagement, false) => Self::Matching,
            (Self::Matching | Self::MatchingAndManagement, true) => Self::MatchingAndManagement,
            (Self::All | Self::AllAndManagement, false) => Self::All,
            (Self::All | Self::AllAndManagement, true) => Self::AllAndManagement,
        }
    }

    /// Whether it includes the management packets.
    pub fn takes_management(self) -> bool {
        matches!(self, Self::MatchingAndManagement | Self::AllAndManagement)
    }

    /// Whether it includes all packets while there is no filter.
    pub fn takes_all(self) -> bool {
        matches!(self, Self::All | Self::AllAndManagement)
    }
}

impl OpenOptions {
    /// The longest snap length, and the default.
    pub const MAX_SNAPLEN: u32 = 262_144;
    /// Up to this many packets, small memory is better than fast memory.
    pub(crate) const FEW: u64 = 10_000;

    /// Options for forwarding through this port or another port opened the same way. Frames arrive
    /// within about a millisecond. A frame is as it was on the wire, or marked for segmentation,
    /// which [`Port::tx_segmenting`] performs. Packets that the host sends are not selected.
    ///
    /// [`Port::tx_segmenting`]: super::Port::tx_segmenting
    pub fn forwarder() -> Self {
        let forwarding = Forwarding::default().intact(true).segments(true).heeds_offloads(true);
        Self {
            mask: QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: true },
            transmit: true,
            promiscuous: true,
            latency: Some(Duration::from_millis(1)),
            internal: ProgramOptions::default().outgoing(false).forwarding(forwarding),
            ..Self::default()
        }
    }

    /// Sets the options that only Wirelane's own programs set.
    #[doc(hidden)]
    #[must_use]
    pub fn internal(self, internal: ProgramOptions) -> Self {
        Self { internal, ..self }
    }

    /// Why rejected packets are not counted; `None` if they are.
    pub(super) fn uncounted(&self) -> Option<&'static str> {
        match (self.internal.count_rejected, self.internal.packets) {
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

wirelane_wire::setters!(OpenOptions:
    mask: QueueMask,
    filter: Option<Filter>,
    receive: bool,
    transmit: bool,
    promiscuous: bool,
    wait: bool,
    ring_bytes: Option<usize>,
    latency: Option<Duration>,
    placement: Placement,
    take: Take,
    halt: Halt;
    snaplen: u32,
);

impl Default for OpenOptions {
    /// Receives copies of all packets.
    fn default() -> Self {
        Self {
            mask: QueueMask::ALL,
            filter: None,
            receive: true,
            transmit: false,
            snaplen: Self::MAX_SNAPLEN,
            promiscuous: false,
            wait: false,
            ring_bytes: None,
            latency: None,
            placement: Placement::default(),
            take: Take::Nothing,
            halt: Halt::default(),
            internal: ProgramOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Take::{self, *};

    #[test]
    fn management_packets_are_taken_only_on_request() {
        assert_eq!(Take::default(), Nothing);
        for (without, with) in [(Matching, MatchingAndManagement), (All, AllAndManagement)] {
            assert!(!without.takes_management() && with.takes_management());
            for take in [without, with] {
                assert_eq!((take.management(false), take.management(true)), (without, with));
                assert_eq!(take.takes_all(), without == All);
            }
        }
        assert_eq!(Nothing.management(true), Nothing);
    }
}
