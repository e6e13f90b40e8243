//! `packet:IF`: an interface through AF_PACKET, one TPACKET_V3 ring per queue and class.
//!
//! ```text
//!                    ┌─ program: received, queue 0 ─▶ ring ─▶ Rx rx 0
//!   every packet of  ├─ program: received, queue 1 ─▶ ring ─▶ Rx rx 1
//!   the interface    ├─ program: outgoing, queue 0 ─▶ ring ─▶ Rx tx 0
//!                    └─ program: no queue ──────────▶ ring ─▶ Rx other
//! ```
//!
//! The program decides in the kernel, so a packet of a queue that is not selected never reaches
//! user space. Each queue and class has a ring of its own, and with it a drop counter of its own: a
//! shared ring could not say whose packet it lost. Rings exist for all queues that the spec names,
//! selected or not, because masks may change when privileges are long gone. Those that the masks
//! exclude at first are small, unless `ring=` or `--ring` says how large rings are.
//!
//! The sockets of all rings form a fanout group, whose program looks at the same two facts and
//! offers a packet to the one ring that may take it. Without it the kernel would offer every packet
//! to every ring in turn, and the cost of a packet would grow with the number of queues.
//!
#![doc = include_str!("options.md")]
//!
<<<<<<< HEAD
//! When the interface goes down the kernel takes the sockets off it, and puts them back when it is up. When it is
//! removed
//! every [`Rx`] fails, once. With [`OpenOptions::wait`] their sockets are bound to the next interface of its name
//! instead:
//! rings and programs stay, and no privilege is needed. A socket of a fanout group cannot be bound again, so then
//! there is none.
//!
//! What the program cuts itself, for `vnet=auto`, it says by [`OpenOptions::cuts`]; see `tx`. Packets of local
//! senders, and those
=======
//! When the interface goes down the kernel takes the sockets off it, and puts them back when it is up. When it is removed
//! every [`Rx`](super::Rx) fails, once. With [`OpenOptions::wait`](super::OpenOptions::wait) their sockets are bound to the next interface of its name instead:
//! rings and programs stay, and no privilege is needed. A socket of a fanout group cannot be bound again, so then there is none.
//!
//! What the program cuts itself, for `vnet=auto`, it says by [`Forwarding::cuts`](super::Forwarding::cuts); see `tx`. Packets of local senders, and those
>>>>>>> house
//! that the kernel has merged (GRO), come longer than the MTU, or several in one. Whoever sends them on says so by
//! [`Forwarding::intact`](super::Forwarding::intact), and each such frame says how it is to be cut ([`Frame::offload`](crate::Frame::offload)).
//!
//! Tags are no part of the MTU: full packets can have two. A veth pair or a bridge drops what is longer than the MTU
//! of the
//! receiving end by more than one tag (`is_skb_forwardable`): there that end needs an MTU of 4 bytes more.
//!
//! The kernel chooses the TX queue of what is sent, by the flow or by the sending CPU (see
//! [`PacketPort::tx_queue_cpu`]).
//! Frames of a flow leave in the order in which they were taken if the thread that sends them stays on one CPU, and
//! on most
//! devices if it does not: see `tx`.
//!
//! Reading order: `plan` (what is decided before a socket is opened), `program` (who gets which packet), `ring` (the memory),
//! `rings` (opening them), `rx` (the walk), `pace` (when to wake), `control` (masks and stop), `tx`, `limits`, `open`.

mod config;
mod control;
pub(super) mod device;
pub(super) mod limits;
mod open;
mod pace;
mod plan;
pub(in crate::port) mod program;
mod ring;
mod rings;
mod rx;
mod side_by_side;
mod tx;

<<<<<<< HEAD
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use rustix::io::Errno;
use wirelane_os::packet::{PacketSocket, RingRequest};

use self::config::{Config, Vnet};
use self::control::Handle;
use self::device::Device;
use self::program::Selection;
use self::ring::Ring;
use self::rx::{OnRemoval, Receiver, Setup, Times};
use self::tx::{Transmitter, TxGauge};
use super::{Census, Control, OpenOptions, Port, PortInfo, Rung, Rx, Spec, Tx};
use crate::error::{Error, Result};
use crate::frame::{Sink, SinkGso};
use crate::mask::{Class, QueueSet};
use crate::memory::{self, Allotment};
use crate::stats::{RxCounters, TxCounters};

/// An interface opened through AF_PACKET. See the [module documentation](self).
pub struct PacketPort {
    info: PortInfo,
    handle: Arc<Handle>,
    rx: Vec<Rx>,
    tx: Vec<Tx>,
    gauges: Vec<TxGauge>,
    counters: Vec<Arc<RxCounters>>,
    bypass: bool,
    /// What is handed on to be cut.
    handed_on: SinkGso,
}

/// What one receiving socket is bound to, read back: the 2010 multiqueue socket paper's question to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The class of the packets that it takes.
    pub class: Class,
    /// Their queue; without meaning for [`Class::Other`].
    pub queue: u16,
    /// The interface, as the kernel names it; `None` once the interface is gone.
    pub interface_index: Option<u32>,
    /// Whether its program is attached: the port is started and the mask selects it.
    pub selected: bool,
}

impl PacketPort {
    /// Opens the interface that `spec` names, in the calling thread's network namespace. Nothing
    /// is received before [`Port::start`].
    ///
    /// # Errors
    /// A usage error for a queue that does not exist or an unknown option; otherwise there is no
    /// such interface, it is down, CAP_NET_RAW is missing, or the kernel has no memory for the
    /// rings.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        let config = Config::parse(spec, options)?;
        let device = Device { outgoing: options.outgoing, ..Device::find(spec)? };
        device.check_spec(spec)?;
        device.check_mask(spec, &options.mask)?;
        let spare = socket(&device)?;
        if options.promiscuous {
            spare
                .set_promiscuous(device.index, true)
                .map_err(|error| Error::os(device.name.as_str(), error))?;
        }
        let mut notes = device.notes();
        let rings = if options.receive {
            open_rings(&selections(spec, &device), &config, &device, options, &mut notes)?
        } else {
            Vec::new()
        };
        let (mut tx, mut gauges) = (Vec::new(), Vec::new());
        let handed_on = match config.vnet {
            _ if !options.transmit => SinkGso::default(),
            // Fragments the kernel makes behind all extension headers, against RFC 8200.
            Vnet::On => SinkGso { tcp4: true, tcp6: true, udp: true, udp_fragment: false },
            Vnet::Auto if options.cuts => device.segments(),
            Vnet::Auto | Vnet::Off => SinkGso::default(),
        };
        let hands_on = handed_on != SinkGso::default();
        if hands_on && config.vnet == Vnet::Auto {
            notes.push(handing_on(&device.name, handed_on));
        }
        if options.transmit {
            notes.extend(device.tx_notes(spec, config.bypass));
            let ends = side_by_side(&device.queues(spec, Class::Tx), |_, queue| {
                let counters = Arc::new(TxCounters::new(*queue));
                let handing_on = hands_on.then(|| socket(&device)).transpose()?;
                let sockets = (socket(&device)?, handing_on);
                let end = Transmitter::new(sockets, &device, config.bypass, Arc::clone(&counters))?;
                Ok((end, counters))
            });
            for (end, counters) in ends? {
                gauges.push(end.gauge());
                tx.push(Tx::new(end, counters).takes_offloads(hands_on));
            }
        }
        let retire = u64::try_from(config.retire.as_nanos()).unwrap_or(u64::MAX);
        let ring_bytes = rings
            .first()
            .map_or(0, |ring| u64::from(ring.block_size()) * u64::from(ring.block_count()));
        let nap = pace::longest_nap(ring_bytes, device.speed, retire);
        let times = Times { retire, lateness: 2 * retire + SLACK, nap };
        let snaplen = options.snaplen.clamp(1, OpenOptions::MAX_SNAPLEN);
        let info = describe(spec, &device, notes, snaplen, times.lateness);
        let interface: Arc<str> = device.name.as_str().into();
        let link_type = device.link_type;
        let on_removal = match options.wait {
            true => OnRemoval::Wait { promiscuous: options.promiscuous },
            false => OnRemoval::End,
        };
        let mask = options.mask.clone();
        let counters: Vec<_> = rings
            .iter()
            .map(|ring| Arc::new(RxCounters::new(ring.selection.queue, ring.selection.class)))
            .collect();
        let handle =
            Handle::new(rings, counters.clone(), (spec.clone(), device), mask, snaplen, spare);
        handle.set_filter(options.filter.as_ref().filter(|_| options.receive))?;
        let receiver = |(ring, counters): (&Ring, &Arc<RxCounters>)| {
            let setup = Setup {
                ring: ring.clone(),
                counters: Arc::clone(counters),
                progress: Arc::clone(&handle.progress),
                interface: Arc::clone(&interface),
                snaplen,
                times,
                link_type,
                on_removal,
            };
            Rx::new(Receiver::new(setup), Arc::clone(counters))
        };
        let rx: Vec<_> = handle.rings.iter().zip(&counters).map(receiver).collect();
        let (handle, bypass) = (Arc::new(handle), config.bypass);
        Ok(Self { info, handle, rx, tx, gauges, counters, bypass, handed_on })
    }

    /// As [`PacketPort::open`], after better ways have been tried in vain.
    ///
    /// # Errors
    /// As there.
    pub(super) fn open_after(
        spec: &Spec,
        options: &OpenOptions,
        mut tried: Vec<Rung>,
    ) -> Result<Self> {
        let mut port = Self::open(spec, options)?;
        tried.append(&mut port.info.negotiation);
        port.info.negotiation = tried;
        Ok(port)
    }

    /// What each receiving socket is bound to and whether it takes packets now.
    ///
    /// # Errors
    /// The system refuses to say.
    pub fn bindings(&self) -> Result<Vec<Binding>> {
        self.handle.bindings()
    }

    /// The CPU that a thread must be pinned to for its frames to leave through TX queue `queue`;
    /// `None` if no CPU does that.
    ///
    /// AF_PACKET cannot name a queue: the kernel chooses it (`netdev_pick_tx`), by the sending CPU
    /// where transmit packet steering (XPS) is set up, otherwise with `bypass=on` as the CPU modulo
    /// the number of queues (`packet_pick_tx_queue`), and without as a hash of the flow.
    pub fn tx_queue_cpu(&self, queue: u16) -> Option<u32> {
        self.handle.device.tx_queue_cpu(queue, self.bypass)
    }

    /// Says so if the driver seems not to record the queues of received packets.
    fn hidden_queues(&self) -> Option<String> {
        let device = &self.handle.device;
        let mask = self.handle.mask();
        if device.rx_queues < 2 || mask.enabled && mask.rx != QueueSet::All {
            return None;
        }
        let seen = |class| {
            let of = |counters: &&Arc<RxCounters>| counters.class == class;
            self.counters.iter().filter(of).map(|counters| counters.packets.value()).sum::<u64>()
        };
        let hidden = seen(Class::Rx) == 0 && seen(Class::Other) > 0;
        hidden.then(|| {
            let name = &device.name;
            format!(
                "no received packet was tied to a queue, although {name} has {} RX queues: its \
                 driver hides them, so all count as OTHER",
                device.rx_queues
            )
        })
    }
}

impl Port for PacketPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx(&mut self) -> Vec<Rx> {
        std::mem::take(&mut self.rx)
    }

    fn tx(&mut self) -> Vec<Tx> {
        std::mem::take(&mut self.tx)
    }

    fn start(&mut self) -> Result<()> {
        self.handle.start()
    }

    fn control(&self) -> Arc<dyn Control> {
        Arc::clone(&self.handle) as Arc<dyn Control>
    }

    fn census(&self) -> Census {
        let (handle, gauges) = (Arc::downgrade(&self.handle), self.gauges.clone());
        Census::new(move || {
            let mut counts = handle.upgrade().map(|handle| handle.frames()).unwrap_or_default();
            gauges.iter().for_each(|gauge| counts += gauge.frames());
            counts
        })
    }

    fn sink(&self) -> Sink {
        let mtu = self.handle.device.mtu as usize;
        let gso = self.handed_on;
        if gso == SinkGso::default() {
            return Sink { mtu, ..Sink::ethernet() };
        }
        Sink { mtu, checksum: true, gso_max: Some(tx::LONGEST), gso }
    }

    fn leaves_cutting(&self) -> bool {
        self.handle.rings.iter().any(|ring| ring.vnet_header > 0)
    }

    fn late_notes(&self) -> Vec<String> {
        let mut notes = self.handle.progress.notes(&self.handle.device.name);
        notes.extend(self.hidden_queues());
        notes
    }
}

impl Drop for PacketPort {
    fn drop(&mut self) {
        // Frames that are still out keep their sockets; nothing more should come in through them.
        self.handle.stop();
    }
}

/// Time that the kernel may take, beyond its timer, to hand a block over: a tick of the timer on
/// kernels where it runs on ticks (before 6.18), and the wait for a processor.
const SLACK: u64 = 20_000_000;

/// Nominal frame size: the kernel checks it and packs packets regardless.
const FRAME_SIZE: usize = 2048;

/// A block of less than this cuts the largest packets of segmentation offload.
const LARGE_PACKET: usize = 128 << 10;

fn socket(device: &Device) -> Result<PacketSocket> {
    PacketSocket::open().map_err(|error| {
        let denied = error.errno() == Some(Errno::PERM.raw_os_error());
        let error = Error::os(device.name.as_str(), error);
        if !denied {
            return error;
        }
        error.help(
            "packet sockets need CAP_NET_RAW: run as root or `setcap cap_net_raw+ep` the program",
        )
    })
}

/// What a user should know when the device cuts.
fn handing_on(name: &str, SinkGso { tcp4, tcp6, udp, .. }: SinkGso) -> String {
    let kinds = [(tcp4, "TCP over IPv4"), (tcp6, "TCP over IPv6"), (udp, "UDP")];
    let kinds: Vec<_> = kinds.into_iter().filter_map(|(cut, kind)| cut.then_some(kind)).collect();
    format!(
        "{name} segments the long frames of {}; vnet=off segments them in Wirelane",
        kinds.join(", ")
    )
}

/// One per ring: all queues of the spec in both directions, and OTHER.
fn selections(spec: &Spec, device: &Device) -> Vec<Selection> {
    let select = |class, queue| Selection {
        class,
        queue,
        mapping: device.mapping,
        rx_queues: device.rx_queues,
    };
    let mut selections = Vec::new();
    for class in [Class::Rx, Class::Tx] {
        selections.extend(device.queues(spec, class).into_iter().map(|q| select(class, q)));
    }
    selections.push(select(Class::Other, 0));
    selections
}

/// Opens all rings, of equal size; smaller ones if the kernel has no memory.
fn open_rings(
    selections: &[Selection],
    config: &Config,
    device: &Device,
    options: &OpenOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<Ring>> {
    let is_selected = |ring: &&Selection| options.mask.selects(ring.class, usize::from(ring.queue));
    let asked = config.shape(selections.iter().filter(is_selected).count());
    let budget = Allotment::of_rest();
    let bytes = |shape| {
        let of = |(block, count)| block * count;
        let ring = |ring| of(if is_selected(&ring) { shape } else { config.excluded(shape) });
        selections.iter().map(ring).sum::<usize>()
    };
    let next = |shape: &(usize, usize)| config::smaller(*shape);
    let mut shapes = std::iter::successors(Some(asked), next);
    // The smallest ones are tried in any case.
    let fitting = shapes.find(|shape| bytes(*shape) <= budget.bytes || next(shape).is_none());
    let mut shape = fitting.unwrap_or(asked);
    let open = |place: usize,
                (selection, socket): &(Selection, Mutex<Option<PacketSocket>>),
                shape| {
        let (block, count) = if is_selected(&selection) { shape } else { config.excluded(shape) };
        let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let request = RingRequest {
            block_size: u32::try_from(block).unwrap_or(u32::MAX),
            block_count: u32::try_from(count).unwrap_or(u32::MAX),
            frame_size: block.min(FRAME_SIZE) as u32,
            retire_ms: u32::try_from(config.retire.as_millis()).unwrap_or(u32::MAX),
            fill_rxhash: false,
        };
        let socket = socket.map_or_else(|| self::socket(device), Ok)?;
        let earlier = selections.iter().take(place);
        let position = earlier.filter(|ring| ring.class == selection.class).count();
        // Who sends packets on has to know which are to be cut, whoever left that to be done.
        let vnet = options.intact && device.is_ethernet();
        let open = || Ring::new(socket, &request, device.index, *selection, vnet);
        let ring = options.placement.beside(position, open);
        ring.map_err(|error| Error::os(device.name.as_str(), error))
    };
    let rings = loop {
        // One after the other: when the link comes back, the kernel puts them into the fanout group in the order in
        // which
        // they were made (packet_create, packet_notifier), and the group's program counts on that of the rings.
        let sockets =
            selections.iter().map(|selection| Ok((*selection, Mutex::new(Some(socket(device)?)))));
        let sockets: Vec<_> = sockets.collect::<Result<_>>()?;
        match side_by_side(&sockets, |place, made| open(place, made, shape)) {
            Err(error) if error.errno() == Some(Errno::NOMEM.raw_os_error()) => {
                // Smaller for all, so that no queue is better off than another.
                shape = config::smaller(shape).ok_or_else(|| {
                    error.help("name fewer queues, as in packet:eth0@0-3, or free memory")
                })?;
            }
            opened => break opened?,
        }
    };
    if options.wait {
        // A socket of a group can never be bound again (packet_do_bind). Each program rejects what is not its own.
        ignore_outgoing(&rings, options.outgoing);
    } else if let Err(error) = distribute(&rings, selections, options.outgoing) {
        notes.push(format!(
            "the kernel offers every packet to each of the {} rings, which costs time: {error}",
            rings.len()
        ));
    }
    let (wanted, had) = (asked.0 * asked.1, shape.0 * shape.1);
    notes.extend(budget.note("bytes per ring", wanted, had));
    if shape.0 < LARGE_PACKET {
        notes.push(format!("packets over the block size of {} bytes are cut", shape.0));
    }
    Ok(rings)
}

/// Most sockets to open at a time.
const AT_ONCE: usize = 32;

/// Opens something for each of `items`, given with its place, several at a time: for every ring that it
/// makes, the kernel waits until no processor is at the socket (synchronize_net in packet_set_ring), tens
/// of milliseconds. Side by side they wait together.
///
/// # Errors
/// The first one; then nothing stays open.
fn side_by_side<I: Sync, T: Send>(
    items: &[I],
    open: impl Fn(usize, &I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Where address space is limited, a thread that has no room ends the process.
    let at_once = AT_ONCE.min(memory::room_for_threads() / 4);
    if at_once < 2 {
        return items.iter().enumerate().map(|(place, item)| open(place, item)).collect();
    }
    let open = &open;
    let mut opened = Vec::with_capacity(items.len());
    for group in items.chunks(at_once) {
        let first = opened.len();
        let results: Vec<Result<T>> = thread::scope(|scope| {
            let spawn = |(place, item)| {
                let spawned = thread::Builder::new().spawn_scoped(scope, move || open(place, item));
                (place, item, spawned)
            };
            let threads: Vec<_> = (first..).zip(group).map(spawn).collect();
            let finish =
                |(place, item, spawned): (usize, _, io::Result<ScopedJoinHandle<'_, _>>)| {
                    match spawned.map(ScopedJoinHandle::join) {
                        Ok(Ok(result)) => result,
                        Ok(Err(panic)) => resume_unwind(panic),
                        // Where no thread can be had, it is done here.
                        Err(_) => open(place, item),
                    }
                };
            threads.into_iter().map(finish).collect()
        });
        for result in results {
            opened.push(result?);
        }
    }
    Ok(opened)
}

/// Lets the kernel offer each packet to one ring only, and what the host sends to none without `outgoing`.
fn distribute(rings: &[Ring], selections: &[Selection], outgoing: bool) -> wirelane_os::Result<()> {
    ignore_outgoing(rings, outgoing);
    let (Some(program), [first, others @ ..]) = (program::distribution(selections), rings) else {
        return Ok(());
    };
    let members = u32::try_from(rings.len()).unwrap_or(u32::MAX);
    let group = first.socket().new_fanout(members, outgoing)?;
    first.socket().set_fanout_program(&program)?;
    // A ring that does not get in is offered packets on its own, which is as exact.
    others.iter().try_for_each(|ring| ring.socket().join_fanout(group, members, outgoing))
}

/// Spares the rings what the host sends, unless it is wanted.
fn ignore_outgoing(rings: &[Ring], outgoing: bool) {
    for ring in rings.iter().filter(|_| !outgoing) {
        // Before Linux 4.20 the rings' programs reject it, which costs more and is as exact.
        let _ = ring.socket().set_ignore_outgoing(true);
    }
}

fn describe(
    spec: &Spec,
    device: &Device,
    notes: Vec<String>,
    snaplen: u32,
    lateness: u64,
) -> PortInfo {
    let mut queues = device.queues(spec, Class::Rx);
    queues.extend(device.queues(spec, Class::Tx));
    queues.sort_unstable();
    queues.dedup();
    PortInfo {
        spec: spec.to_string(),
        backend: "packet",
        mode: "tpacket-v3".to_owned(),
        interface: Some(device.name.clone()),
        queues,
        negotiation: vec![Rung {
            rung: "packet",
            outcome: "chosen",
            errno: None,
            cause: None,
            fix: None,
        }],
        notes,
        link_type: device.link_type,
        hardware: device.hardware.clone(),
        speed: device.speed,
        snaplen,
        lossless: false,
        lateness,
    }
}
=======
pub use self::control::Binding;
pub use self::open::PacketPort;
>>>>>>> house
