//! Which interface, class and queue a packet belongs to.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use wirelane_os::machine;
use wirelane_os::netdev::LinkTable;
use wirelane_os::packet::{PACKET_OUTGOING, SockaddrLl};

use super::super::control::PortProgress;
use crate::inspect::{QueueMapping, rx_mapping};
use crate::mask::{Class, QueueMask, QueueSet};
use crate::pcap::Source;
use crate::port::device::{ETHERNET, link_type};
use crate::port::metadata::discovered::DiscoveredInterfaces;
use crate::port::spec::Spec;
use crate::stats::RxCounters;
use crate::sync::lock;

/// Shared by the rings of a port: discovers interfaces, and decides which of their queues are
/// selected.
pub(super) struct Finder {
    table: Mutex<LinkTable>,
    discovered: Arc<DiscoveredInterfaces>,
    /// The queues of the spec.
    queues: Option<QueueSet>,
    mask: Mutex<QueueMask>,
    /// Number of changes of the mask.
    changes: AtomicU32,
    progress: Arc<PortProgress>,
    snaplen: u32,
    /// Notes already made.
    said: Mutex<HashSet<String>>,
}

impl Finder {
    pub(super) fn new(
        table: LinkTable,
        discovered: &Arc<DiscoveredInterfaces>,
        spec: &Spec,
        mask: QueueMask,
        progress: &Arc<PortProgress>,
        snaplen: u32,
    ) -> Self {
        Self {
            table: Mutex::new(table),
            discovered: Arc::clone(discovered),
            queues: spec.queues.clone(),
            mask: Mutex::new(mask),
            changes: AtomicU32::new(0),
            progress: Arc::clone(progress),
            snaplen,
            said: Mutex::default(),
        }
    }

    /// Whether the spec names queues, which then limit the masks.
    pub(super) fn has_queues(&self) -> bool {
        self.queues.is_some()
    }

    pub(super) fn mask(&self) -> QueueMask {
        lock(&self.mask).clone()
    }

    pub(super) fn set_mask(&self, mask: QueueMask) {
        *lock(&self.mask) = mask;
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn selects(&self, class: Class, queue: u16) -> bool {
        let queue = usize::from(queue);
        let is_open = class == Class::Other
            || self.queues.as_ref().is_none_or(|queues| queues.contains(queue));
        is_open && lock(&self.mask).selects(class, queue)
    }

    /// Makes a note once.
    fn note(&self, note: String) {
        if lock(&self.said).insert(note.clone()) {
            self.progress.note(note);
        }
    }

    /// Classifies packets of a new kind: of the interface and direction of `key`, with queue number
    /// `value`, or `None` for a number without a separate ring.
    #[cold]
    fn find(&self, key: RingKey, value: Option<u16>) -> Classification {
        let mut table = lock(&self.table);
        let link = table.find(key.index);
        let unnamed = || format!("interface {}", key.index);
        let name = link.map_or_else(unnamed, |link| link.name.clone());
        let kind = link.and_then(|link| link.kind.clone());
        drop(table);
        let Some(link_type) = link_type(key.hardware) else {
            let hardware = key.hardware;
            self.note(format!(
                "{name} is left out: frames of ARPHRD type {hardware} are not supported"
            ));
            return Classification::REJECTED;
        };
        let (class, queue) = match (key.is_sent, value) {
            (true, Some(value)) => (Class::Tx, value),
            (false, Some(value)) => {
                // For a veth, the kind of link is the driver's name.
                let mapping = kind.as_deref().map_or(QueueMapping::Shifted, rx_mapping);
                mapping.rx_queue(value).map_or((Class::Other, 0), |queue| (Class::Rx, queue))
            }
            (_, None) => {
                self.note(format!(
                    "{name} has more queues than the interfaces had at first: packets of the new \
                     ones count as OTHER"
                ));
                (Class::Other, 0)
            }
        };
        let number = (class != Class::Other).then(|| u32::from(queue));
        let (snaplen, os) = (self.snaplen, Some(machine::system()));
        let source = Source { link_type, snaplen, os, ..Source::new(&name, class, number) };
        let Some((number, counters)) = self.discovered.add(source, queue, class) else {
            let most = DiscoveredInterfaces::MOST;
            self.note(format!(
                "there were more than {most} queues of interfaces: the last ones are left out"
            ));
            return Classification::REJECTED;
        };
        let known = KnownQueue { counters, class, queue, is_selected: self.selects(class, queue) };
        Classification { number, is_ethernet: link_type == ETHERNET, known: Some(known) }
    }
}

/// Distinguishes the packets of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RingKey {
    index: u32,
    hardware: u16,
    is_sent: bool,
}

/// The classification of packets with the same key.
struct Classification {
    number: u16,
    is_ethernet: bool,
    /// `None` for packets that are left out.
    known: Option<KnownQueue>,
}

impl Classification {
    const REJECTED: Self = Self { number: REJECTED, is_ethernet: false, known: None };
}

/// The number of packets that are left out.
const REJECTED: u16 = DiscoveredInterfaces::MOST;

struct KnownQueue {
    counters: Arc<RxCounters>,
    class: Class,
    queue: u16,
    is_selected: bool,
}

/// Looks up the interfaces of the packets of one ring.
pub(in crate::port::packet) struct InterfaceLookup {
    finder: Arc<Finder>,
    /// The queue number of all packets of the ring, if they have the same.
    value: Option<u16>,
    found: Vec<Classification>,
    places: HashMap<RingKey, usize>,
    last: Option<(RingKey, usize)>,
    /// The number of mask changes seen so far.
    changes: u32,
}

/// The interface entry of a packet.
pub(in crate::port::packet) struct PacketInterface {
    pub(in crate::port::packet) class: Class,
    /// The number of its entry; see [`PacketInterface::is_taken`].
    pub(in crate::port::packet) number: u16,
    pub(in crate::port::packet) is_ethernet: bool,
    found: usize,
}

impl PacketInterface {
    /// Whether a frame with this number is kept.
    pub(in crate::port::packet) fn is_taken(number: u16) -> bool {
        number != REJECTED
    }
}

impl InterfaceLookup {
    pub(super) fn new(finder: &Arc<Finder>, value: Option<u16>) -> Self {
        Self {
            finder: Arc::clone(finder),
            value,
            found: Vec::new(),
            places: HashMap::new(),
            last: None,
            changes: 0,
        }
    }

    /// Updates the sum of the rings' losses.
    pub(in crate::port::packet) fn sum_losses(&self) {
        self.finder.discovered.losses();
    }

    /// Applies a changed mask; called before each batch.
    #[inline]
    pub(in crate::port::packet) fn begin(&mut self) {
        let changes = self.finder.changes.load(Ordering::Acquire);
        if std::mem::replace(&mut self.changes, changes) != changes {
            for known in self.found.iter_mut().filter_map(|found| found.known.as_mut()) {
                known.is_selected = self.finder.selects(known.class, known.queue);
            }
        }
    }

    /// The entry of a packet with this address.
    #[inline]
    pub(in crate::port::packet) fn look_up(&mut self, address: &SockaddrLl) -> PacketInterface {
        let key = RingKey {
            index: address.ifindex.cast_unsigned(),
            hardware: address.hatype,
            is_sent: address.pkttype == PACKET_OUTGOING,
        };
        let found = match self.last {
            Some((last, found)) if last == key => found,
            _ => self.find(key),
        };
        let taken = |found: &Classification| {
            let known = found.known.as_ref().filter(|known| known.is_selected)?;
            Some((known.class, found.number, found.is_ethernet))
        };
        let (class, number, is_ethernet) =
            self.found.get(found).and_then(taken).unwrap_or((Class::Other, REJECTED, false));
        PacketInterface { class, number, is_ethernet, found }
    }

    fn find(&mut self, key: RingKey) -> usize {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.found.push(self.finder.find(key, self.value));
            self.found.len() - 1
        });
        self.last = Some((key, place));
        place
    }

    #[inline]
    pub(in crate::port::packet) fn count(&self, place: &PacketInterface, bytes: u32) {
        let found = self.found.get(place.found).and_then(|found| found.known.as_ref());
        if let Some(known) = found.filter(|_| place.number != REJECTED) {
            known.counters.packets.add(1);
            known.counters.bytes.add(u64::from(bytes));
        }
    }
}
