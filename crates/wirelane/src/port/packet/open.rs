//! Opens a packet port: from its plan to its ends.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::assignment::Assignment;
use super::control::{Binding, PacketControl};
use super::gauge::TxGauge;
use super::link::OnRemoval;
use super::membership::Membership;
use super::parallel::in_parallel;
use super::plan::PacketPlan;
use super::rejections::Rejections;
use super::ring::PacketRing;
use super::rings::{Rings, open_rings};
use super::rx::Receiver;
use super::setup::PacketRxParts;
use super::tx::{LONGEST, Transmitter};
use super::under_way::{AllSockets, Inquiry, TxSockets};
use crate::error::{Error, Result};
use crate::frame::Sink;
use crate::inspect::{Steering, TxBinding, TxWay};
use crate::mask::Class;
use crate::port::accounting::Accounting;
use crate::port::control::Control;
use crate::port::info::{Attempt, PortInfo, PortMode};
use crate::port::options::OpenOptions;
use crate::port::port::Port;
use crate::port::rx::Rx;
use crate::port::spec::{Backend, Spec};
use crate::port::tx::Tx;
use crate::stats::{RxCounters, TxCounters};

/// An interface opened through AF_PACKET: a [`Port`] that also reports the bindings of its sockets.
/// See the [module documentation](super).
pub struct PacketPort {
    port: Port,
    handle: Arc<PacketControl>,
    bypass: bool,
}

impl PacketPort {
    /// Opens the interface that `spec` names, in the calling thread's network namespace. Nothing is
    /// received before [`Port::start`].
    ///
    /// # Errors
    /// A usage error for a queue that does not exist or an unknown option. Otherwise the interface
    /// does not exist or is down, CAP_NET_RAW is missing, or the kernel has no memory for the
    /// rings.
    pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Self> {
        PacketPlan::new(spec, options)?.open()
    }

    /// As [`PacketPort::open`], after better backends were refused.
    ///
    /// # Errors
    /// The errors of [`PacketPort::open`].
    pub(in crate::port) fn open_after(
        spec: &Spec,
        options: &OpenOptions,
        mut tried: Vec<Attempt>,
    ) -> Result<Self> {
        let mut port = Self::open(spec, options)?;
        tried.append(&mut port.info.negotiation);
        port.info.negotiation = tried;
        Ok(port)
    }

    /// The binding of each receiving socket, and whether it takes packets now.
    ///
    /// # Errors
    /// The system does not report the bindings.
    pub fn bindings(&self) -> Result<Vec<Binding>> {
        self.handle.bindings()
    }

    /// A CPU whose frames leave through TX queue `queue` if the sending thread is pinned to it;
    /// `None` if there is no such CPU.
    ///
    /// AF_PACKET cannot name a queue: the kernel chooses it (`netdev_pick_tx`). With transmit
    /// packet steering (XPS) the sending CPU determines it. Otherwise it is the CPU modulo the
    /// number of queues with `bypass=on` (`packet_pick_tx_queue`), and a hash of the flow without.
    pub fn tx_queue_cpu(&self, queue: u16) -> Option<u32> {
        self.handle.device.tx_queue_cpu(queue, self.bypass)
    }
}

impl Deref for PacketPort {
    type Target = Port;

    fn deref(&self) -> &Port {
        &self.port
    }
}

impl DerefMut for PacketPort {
    fn deref_mut(&mut self) -> &mut Port {
        &mut self.port
    }
}

impl From<PacketPort> for Port {
    fn from(packet: PacketPort) -> Self {
        packet.port
    }
}

impl PacketPlan {
    /// Opens the sockets and rings, and creates their ends.
    fn open(mut self) -> Result<PacketPort> {
        let spare = self.socket()?;
        if self.promiscuous {
            spare
                .set_promiscuous(self.device.index, true)
                .map_err(|error| Error::os(self.device.name.as_str(), error))?;
        }
        let mut notes = std::mem::take(&mut self.notes);
        let rings = open_rings(&self, &mut notes)?;
        let times = rings.times(self.config.is_prompt(), self.device.speed);
        let sockets = self.tx_sockets()?;
        let assignment = self.assign_queues(&sockets, &mut notes);
        let info = self.describe(notes, times.lateness, rings.mode());
        let Rings { rings, fanout, .. } = rings;
        let (tx, gauges) = self.transmitters(sockets, assignment)?;
        let leaves_segmentation = rings.iter().any(|ring| ring.vnet_header > 0);
        let sink = self.sink();
        let interface: Arc<str> = self.device.name.as_str().into();
        let (snaplen, link_type) = (self.snaplen, self.device.link_type);
        let on_removal = match self.wait {
            true => OnRemoval::Wait { promiscuous: self.promiscuous },
            false => OnRemoval::End,
        };
        let counters: Vec<_> = rings
            .iter()
            .map(|ring| Arc::new(RxCounters::new(ring.selection.queue, ring.selection.class)))
            .collect();
        let shared =
            self.config.share.map(|sharing| Membership::new(sharing, &self.spec, &self.device));
        let steering = self.steering();
        let identity = (self.spec, self.device, shared);
        let fanout_program = fanout.program().cloned();
        let rings = (rings, fanout);
        let mut handle =
            PacketControl::new(rings, counters.clone(), identity, self.mask, snaplen, spare);
        handle.at_once = self.config.at_once();
        handle.set_filter(self.filter.as_ref())?;
        let receiver = |(place, (ring, counters)): (usize, (&PacketRing, &Arc<RxCounters>))| {
            let setup = PacketRxParts {
                ring: ring.clone(),
                counters: Arc::clone(counters),
                progress: Arc::clone(&handle.progress),
                interface: Arc::clone(&interface),
                snaplen,
                times,
                link_type,
                on_removal,
                interfaces: None,
                rejections: fanout_program.as_ref().map(|program| Rejections::new(program, place)),
            };
            Rx::new(Receiver::new(setup), Arc::clone(counters))
        };
        let rx: Vec<_> = handle.rings.iter().zip(&counters).enumerate().map(receiver).collect();
        let handle = Arc::new(handle);
        let rings = Arc::downgrade(&handle);
        let accounting = Accounting::new(move || {
            let mut counts = rings.upgrade().map(|handle| handle.frames()).unwrap_or_default();
            gauges.iter().for_each(|gauge| counts += gauge.frames());
            counts
        });
        let driver = Arc::clone(&handle);
        let mut port = Port::new(info, driver, accounting);
        (port.rx, port.tx, port.sink, port.leaves_segmentation) =
            (rx, tx, sink, leaves_segmentation);
        port.steering = steering.map(Arc::new);
        Ok(PacketPort { port, handle, bypass: self.config.bypass })
    }

    /// Reads the steering of the TX queues while the port sends, if CPUs determine them.
    fn steering(&self) -> Option<Steering> {
        let by_cpu = |binding: &TxBinding| matches!(binding.way, TxWay::Xps | TxWay::Bypass);
        let device = &self.device;
        self.tx_bindings.iter().any(by_cpu).then(|| {
            let named = (device.name.as_str(), device.index);
            let driver = device.hardware.as_deref();
            Steering::open(named, driver, device.tx_queues, self.config.bypass)
        })?
    }

    /// The sockets of each transmitting end.
    fn tx_sockets(&self) -> Result<Vec<TxSockets>> {
        let sockets = |_: &TxBinding| -> Result<TxSockets> {
            let handing_on = self.hands_on().then(|| self.socket()).transpose()?;
            Ok((Arc::new(self.socket()?), handing_on.map(Arc::new)))
        };
        self.tx_bindings.iter().map(sockets).collect()
    }

    /// Assigns the TX queues that the kernel would choose by the flow. Notes for the user describe
    /// queues that nothing assigns.
    fn assign_queues(
        &mut self,
        sockets: &[TxSockets],
        notes: &mut Vec<String>,
    ) -> Option<Arc<Assignment>> {
        let is_by_flow = self.tx_bindings.iter().any(|binding| binding.way == TxWay::Flow);
        let ends = self.tx_bindings.iter().zip(sockets);
        let each = ends.flat_map(|(binding, (socket, handing_on))| {
            let sockets = [Some(socket), handing_on.as_ref()].into_iter().flatten();
            sockets.map(|socket| (&**socket, binding.queue))
        });
        let assignment = is_by_flow.then(|| Assignment::new(self.device.index, each)).transpose();
        if let Ok(Some(_)) = assignment {
            let assigned = |one: &TxBinding| TxBinding::new(one.queue, TxWay::Program);
            self.tx_bindings = self.tx_bindings.iter().map(assigned).collect();
        }
        let unassigned = assignment.as_ref().err().map_or("", String::as_str);
        notes.extend(self.device.tx_notes(&self.tx_bindings, unassigned));
        assignment.ok().flatten().map(Arc::new)
    }

    /// One transmitting end per queue, and the gauges of its frames.
    fn transmitters(
        &self,
        sockets: Vec<TxSockets>,
        assignment: Option<Arc<Assignment>>,
    ) -> Result<(Vec<Tx>, Vec<TxGauge>)> {
        let hands_on = self.hands_on();
        let all = AllSockets::new(sockets.iter());
        let ends: Vec<_> = self.tx_bindings.iter().zip(sockets).collect();
        let ends = in_parallel(&ends, self.config.at_once(), |_, (binding, sockets)| {
            let counters = Arc::new(TxCounters::new(binding.queue));
            let inquiry = Inquiry::new(all.clone(), self.config.bypass);
            let (sockets, of) = (sockets.clone(), Arc::clone(&counters));
            let mut end = Transmitter::new(sockets, inquiry, &self.device, of)?;
            end.assignment = assignment.clone();
            let gauge = end.gauge();
            Ok((Tx::new(end, counters).takes_offloads(hands_on), gauge))
        });
        Ok(ends?.into_iter().unzip())
    }

    fn sink(&self) -> Sink {
        let mtu = self.device.mtu as usize;
        if !self.hands_on() {
            return Sink { mtu, ..Sink::ethernet() };
        }
        Sink { mtu, checksum: true, gso_max: Some(LONGEST), gso: self.handed_on }
    }

    fn describe(&self, notes: Vec<String>, lateness: u64, mode: PortMode) -> PortInfo {
        let mut queues = self.device.queues(&self.spec, Class::Rx);
        queues.extend(self.device.queues(&self.spec, Class::Tx));
        queues.sort_unstable();
        queues.dedup();
        PortInfo {
            interface: Some(self.device.name.clone()),
            mac: self.device.mac,
            queues,
            notes,
            link_type: self.device.link_type,
            hardware: self.device.hardware.clone(),
            speed: self.device.speed,
            snaplen: self.snaplen,
            lateness,
            tx_queues: self.tx_bindings.clone(),
            ..PortInfo::new(&self.spec, Backend::Packet, mode)
        }
    }
}
