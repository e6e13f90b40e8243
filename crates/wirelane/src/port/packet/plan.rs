//! All decisions before a socket is opened, from the spec, the options and the interface.

use rustix::io::Errno;
use wirelane_os::machine;
use wirelane_os::packet::PacketSocket;

use super::config::{Config, Vnet};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::frame::SinkGso;
use crate::inspect::TxBinding;
use crate::mask::{Class, QueueMask};
use crate::placement::Placement;
use crate::port::device::Device;
use crate::port::options::OpenOptions;
use crate::port::spec::Spec;
use crate::port::steering::selection::Selection;

/// A packet port that can be opened.
pub(super) struct PacketPlan {
    pub(super) spec: Spec,
    pub(super) config: Config,
    pub(super) device: Device,
    /// One per receive ring.
    pub(super) selections: Vec<Selection>,
    /// The queues to transmit through.
    pub(super) tx_bindings: Vec<TxBinding>,
    pub(super) mask: QueueMask,
    pub(super) filter: Option<Filter>,
    pub(super) snaplen: u32,
    pub(super) placement: Placement,
    pub(super) promiscuous: bool,
    /// Continue with the next interface of the same name.
    pub(super) wait: bool,
    /// Why rejected packets are not counted.
    pub(super) uncounted: Option<&'static str>,
    /// The kernel marks received packets that need segmentation.
    pub(super) tells_offloads: bool,
    /// Frames that the kernel segments.
    pub(super) handed_on: SinkGso,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl PacketPlan {
    /// Reads the spec and queries the interface.
    ///
    /// # Errors
    /// A usage error for a queue that does not exist or an unknown option. Otherwise the interface
    /// does not exist or is down.
    pub(super) fn new(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let config = Config::parse(spec, options)?;
        if config.share.is_some() && options.wait {
            let cause = "a port that shares its interface cannot wait for another one";
            return Err(Error::usage(format!("port '{spec}'"), cause));
        }
        let mut device = Device::find(spec)?;
        device.outgoing = options.internal.outgoing;
        device.check_spec(spec)?;
        device.check_mask(spec, &options.mask)?;
        let mut notes = if options.receive { device.notes() } else { Vec::new() };
        let handed_on = match config.vnet {
            _ if !options.transmit => SinkGso::default(),
            // The kernel inserts fragment headers after all extension headers, against RFC 8200.
            Vnet::On => SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false },
            Vnet::Auto if options.internal.forwarding.segments => device.segments(),
            Vnet::Auto | Vnet::Off => SinkGso::default(),
        };
        // "linux/virtio_net.h: Support USO offload in vnet header" is in 6.2; older kernels reject
        // such frames.
        let handed_on = SinkGso { udp: handed_on.udp && machine::kernel() >= [6, 2], ..handed_on };
        if handed_on != SinkGso::default() && config.vnet == Vnet::Auto {
            notes.push(handing_on(&device.name, handed_on));
        }
        let mut tx_bindings = Vec::new();
        if options.transmit {
            tx_bindings = device.tx_bindings(spec, config.bypass);
        }
        Ok(Self {
            selections: match config.share {
                _ if !options.receive => Vec::new(),
                Some(_) => vec![select(&device, Class::Other, 0)],
                None => selections(spec, &device),
            },
            tx_bindings,
            mask: options.mask.clone(),
            filter: options.filter.clone().filter(|_| options.receive),
            snaplen: options.clamped_snaplen(),
            placement: options.placement.clone(),
            promiscuous: options.promiscuous,
            wait: options.wait,
            uncounted: options.uncounted(),
            // A forwarder must know which packets need segmentation, from any sender.
            tells_offloads: options.internal.forwarding.intact && device.is_ethernet(),
            handed_on,
            notes,
            spec: spec.clone(),
            config,
            device,
        })
    }

    /// Whether the kernel segments any frames.
    pub(super) fn hands_on(&self) -> bool {
        self.handed_on != SinkGso::default()
    }

    /// An unbound socket.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or the system refuses.
    pub(super) fn socket(&self) -> Result<PacketSocket> {
        socket(&self.device.name)
    }
}

/// An unbound socket, with `name` as object of errors.
///
/// # Errors
/// CAP_NET_RAW is missing, or the system refuses.
pub(super) fn socket(name: &str) -> Result<PacketSocket> {
    PacketSocket::open().map_err(|error| {
        let denied = error.errno() == Some(Errno::PERM.raw_os_error());
        let error = Error::os(name, error);
        if !denied {
            return error;
        }
        error.help(
            "packet sockets need CAP_NET_RAW: run as root or `setcap cap_net_raw+ep` the program",
        )
    })
}

/// A note for the user if the device segments frames.
fn handing_on(name: &str, SinkGso { tcp4, tcp6, udp, .. }: SinkGso) -> String {
    let kinds = [(tcp4, "TCP over IPv4"), (tcp6, "TCP over IPv6"), (udp, "UDP")];
    let kinds: Vec<_> = kinds.into_iter().filter_map(|(cut, kind)| cut.then_some(kind)).collect();
    format!(
        "{name} segments the long frames of {}; vnet=off segments them in Wirelane",
        kinds.join(", ")
    )
}

/// One per ring: all queues of the spec in both directions, and OTHER. Without TX queues if packets
/// that the host sends are ignored.
fn selections(spec: &Spec, device: &Device) -> Vec<Selection> {
    let select = |class, queue| select(device, class, queue);
    let mut selections = Vec::new();
    let sent = device.outgoing.then_some(Class::Tx);
    for class in [Class::Rx].into_iter().chain(sent) {
        selections.extend(device.queues(spec, class).into_iter().map(|q| select(class, q)));
    }
    selections.push(select(Class::Other, 0));
    selections
}

fn select(device: &Device, class: Class, queue: u16) -> Selection {
    Selection { class, queue, mapping: device.mapping, rx_queues: device.rx_queues }
}
