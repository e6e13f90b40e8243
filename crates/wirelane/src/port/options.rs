//! What a program asks of a port, beside what the port's spec says.

use std::time::Duration;

use super::share::Share;
use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::halt::Halt;
use crate::mask::{QueueMask, QueueSet};
use crate::pcap::FileId;
use crate::placement::Placement;

/// What to open of a port, beside what its spec says. Each field has a setter of its name:
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
    /// Which packets to select at first; [`Control::set_mask`](super::Control::set_mask) changes it later.
    pub mask: QueueMask,
    /// Which of those to receive, at first; all of them when `None`.
    /// [`Control::set_filter`](super::Control::set_filter) changes it later. On `xdp:` the others go to the host.
    pub filter: Option<Filter>,
    /// Open for receiving.
    pub receive: bool,
    /// Open for transmitting.
    pub transmit: bool,
    /// What the host itself sends can be selected, now or later: TX queues of the masks. A program that never
    /// does, as a forwarder, spares the kernel a copy of every packet that is sent while it receives.
    pub outgoing: bool,
    /// Longest part of a packet to keep, in bytes.
    pub snaplen: u32,
    /// Ask the interface to take packets that are not addressed to it, while the port is open.
    pub promiscuous: bool,
    /// When the interface is removed, wait until there is one of its name again, and go on; otherwise that is the end, with
    /// an error. Only `packet:` can. The kernel then offers each packet to every queue's ring.
    pub wait: bool,
    /// Bytes of receive memory per queue; the backend's choice when `None`.
    pub ring_bytes: Option<usize>,
    /// How long a received packet may wait until others have come, about; the backend's choice when
    /// `None`. A shorter time costs more wake-ups.
    pub latency: Option<Duration>,
    /// Which CPU serves which queue: its memory is taken from the NUMA node of that CPU.
    pub placement: Placement,
    /// Memory to keep frames in, where the port can choose and there is enough of it: ports of one region
    /// send each other's frames without a copy. See [`shared_memory`](super::shared_memory).
    pub memory: Option<Share>,
    /// Which packets to take away from the host. Without it a program only looks, and a bare name is `packet:`.
    pub take: Take,
    /// Of those, take also what keeps the host reachable: ARP, neighbour discovery, SSH, DNS and DHCP, which
    /// otherwise stay with it. See [`xdp::keeps_tcp`](super::xdp::keeps_tcp).
    pub take_management: bool,
    /// Files that are read elsewhere, and must not be written: see [`Port::inputs`](super::Port::inputs).
    pub inputs: Vec<FileId>,
    /// Ends waiting for others, while the port opens and later: for a pipe that is silent, or that nobody reads.
    pub halt: Halt,
    /// What only programs need that send on what they receive.
    pub forwarding: Forwarding,
}

/// What a program that sends on what it receives can do with frames that are not as they were on the wire.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Forwarding {
    /// A port through which packets would come changed, such as without their VLAN tags, is refused unless its spec says
    /// that this is wanted (`tags=off`). Otherwise it opens, with a note. Packets that the kernel shows as one are marked to
    /// be cut ([`Frame::offload`](crate::Frame::offload)), if the port can tell.
    pub intact: bool,
    /// Which frames longer than the MTU the program can take, to be cut later ([`crate::segment`]):
    /// a port whose sender can leave that to us (`tap:`) asks it to. With any of them, checksums may be
    /// left to do as well: see [`Frame::offload`](crate::Frame::offload).
    pub offload: SinkGso,
    /// Keep room for such frames even if none can come now:
    /// [`Control::set_offload`](super::Control::set_offload) may ask for them.
    pub prepare_offload: bool,
    /// The program cuts what is too long for the port before it transmits it
    /// ([`Port::tx_cutting`](super::Port::tx_cutting)). A port whose device cuts frames itself
    /// then leaves them to it, and its [`Port::sink`](super::Port::sink) says which.
    pub cuts: bool,
    /// The program heeds what the spec says of cutting and merging ([`Spec::offloads`](super::Spec)). A spec that says
    /// something is refused otherwise.
    pub heeds_offloads: bool,
}

/// Which packets a port may take away from the host, of those that the masks select. `xdp:` cannot do otherwise;
/// the other ports give copies, or have no host to take from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// None: the program only looks. A bare name is `packet:`, and `xdp:` refuses to open for receiving, so that
    /// nobody cuts off a host unawares.
    #[default]
    Nothing,
    /// What [`OpenOptions::filter`] accepts, or a later one; the others go to the host. A bare name is `packet:`.
    Matching,
    /// All of them, or what a filter accepts while there is one. A bare name is the best that the interface can have.
    All,
}

impl OpenOptions {
    /// The longest snap length, and the default.
    pub const MAX_SNAPLEN: u32 = 262_144;

    /// For a program that sends on what it receives, through the same port or another one opened like this: frames arrive
    /// within about a millisecond and as they were on the wire, or marked to be cut, as [`Port::tx_cutting`] does. What the
    /// host itself sends is left alone, since it is on its way already.
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

    /// The snap length, within its limits.
    pub(super) fn clamped_snaplen(&self) -> u32 {
        self.snaplen.clamp(1, Self::MAX_SNAPLEN)
    }
}

/// Setters by value, named as the fields that they set. What is optional takes the value as well as an `Option` of it.
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
    ring_bytes: impl Into<Option<usize>>,
    latency: impl Into<Option<Duration>>,
    placement: Placement,
    memory: impl Into<Option<Share>>,
    take: Take,
    take_management: bool,
    inputs: Vec<FileId>,
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
            ring_bytes: None,
            latency: None,
            placement: Placement::default(),
            memory: None,
            take: Take::Nothing,
            take_management: false,
            inputs: Vec::new(),
            halt: Halt::default(),
            forwarding: Forwarding::default(),
        }
    }
}
