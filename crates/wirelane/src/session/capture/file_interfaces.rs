//! The interfaces of a file, including interfaces that are found while it is written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::pcap::Source;
use crate::port::{DiscoveredInterfaces, InterfaceTable};
use crate::session::interfaces::Interface;
use crate::stats::RxCounters;
use crate::sync::lock;

/// The interfaces of one file, in their order.
#[derive(Default)]
pub(super) struct FileInterfaces {
    all: Mutex<Vec<Interface>>,
    count: AtomicUsize,
}

impl FileInterfaces {
    /// Starts with the interfaces that are known.
    pub(super) fn new(first: Vec<Interface>) -> Self {
        Self { count: AtomicUsize::new(first.len()), all: Mutex::new(first) }
    }

    /// Adds an interface and returns its number. Packets with that number may be handed over after
    /// this.
    fn add(&self, interface: Interface) -> u32 {
        let mut all = lock(&self.all);
        all.push(interface);
        self.count.store(all.len(), Ordering::Release);
        (all.len() - 1) as u32
    }

    /// The interfaces from number `first` on.
    pub(super) fn since(&self, first: usize) -> Vec<Interface> {
        if self.count.load(Ordering::Acquire) <= first {
            return Vec::new();
        }
        lock(&self.all).get(first..).unwrap_or_default().to_vec()
    }
}

/// The numbers in a file of the interfaces that one receiving end finds.
pub(super) struct Numbers {
    file_interfaces: Arc<FileInterfaces>,
    found: FoundInterface,
    /// By entry: number in the file, and counters.
    known: Vec<Option<(u32, Arc<RxCounters>)>>,
}

/// The table of later interfaces.
pub(super) enum FoundInterface {
    /// A port that starts without interfaces.
    DiscoveredInterfaces(Arc<DiscoveredInterfaces>),
    /// A file that describes further interfaces after packets.
    Late(Arc<InterfaceTable>),
}

impl FoundInterface {
    /// Description and counters of the later interface with this number.
    fn entry(&self, number: usize) -> Option<(Source, Arc<RxCounters>)> {
        match self {
            Self::DiscoveredInterfaces(discovered) => discovered.entry(number),
            Self::Late(table) => table.entry(table.entries().len() + number),
        }
    }
}

impl Numbers {
    pub(super) fn new(file_interfaces: &Arc<FileInterfaces>, found: FoundInterface) -> Self {
        Self { file_interfaces: Arc::clone(file_interfaces), found, known: Vec::new() }
    }

    /// The number of an entry in the file, and its counters.
    #[inline]
    pub(super) fn of(&mut self, entry: u32) -> Option<&(u32, Arc<RxCounters>)> {
        let place = entry as usize;
        if self.known.get(place).is_none_or(Option::is_none) {
            self.find(place);
        }
        self.known.get(place)?.as_ref()
    }

    #[cold]
    fn find(&mut self, place: usize) {
        let Some((source, counters)) = self.found.entry(place) else { return };
        self.known.resize(self.known.len().max(place + 1), None);
        let number =
            self.file_interfaces.add(Interface { source, counters: Arc::clone(&counters) });
        if let Some(known) = self.known.get_mut(place) {
            *known = Some((number, counters));
        }
    }
}
