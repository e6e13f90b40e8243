//! The interface table of a port that discovers its interfaces while it runs: `any`.
//!
//! All interfaces share the port's rings. So the losses of a ring cannot be counted per interface,
//! and are counted for all of them together.

use std::sync::{Arc, Mutex};

use crate::mask::Class;
use crate::pcap::Source;
use crate::port::metadata::interfaces::InterfaceEntry;
use crate::stats::RxCounters;
use crate::sync::lock;

/// The interfaces that a port has discovered so far.
#[derive(Debug)]
pub(crate) struct DiscoveredInterfaces {
    entries: Mutex<Vec<InterfaceEntry>>,
    losses: Arc<RxCounters>,
    /// The counters of each ring. This lock also protects `losses`.
    rings: Mutex<Vec<Arc<RxCounters>>>,
}

impl DiscoveredInterfaces {
    /// An empty table. `port` is the name for all interfaces together.
    pub(crate) fn new(port: &str) -> Self {
        let losses = Arc::new(RxCounters::of_rings(port.into()));
        Self { entries: Mutex::default(), losses, rings: Mutex::default() }
    }

    /// Includes the losses of this ring.
    pub(crate) fn add_ring(&self, counters: &Arc<RxCounters>) {
        lock(&self.rings).push(Arc::clone(counters));
    }

    /// Adds an interface, or a queue of it, and returns its number and its counters; `None` if the
    /// table is full.
    pub(crate) fn add(
        &self,
        source: Source,
        queue: u16,
        class: Class,
    ) -> Option<(u16, Arc<RxCounters>)> {
        let mut entries = lock(&self.entries);
        let number = u16::try_from(entries.len()).ok().filter(|number| *number < Self::MOST)?;
        let counters =
            Arc::new(RxCounters::of_interface(source.name.as_str().into(), queue, class));
        counters.filtered_unseen.set(self.losses.filtered_unseen.value());
        entries.push(InterfaceEntry { source, counters: Arc::clone(&counters) });
        Some((number, counters))
    }

    /// The largest number of entries.
    pub(crate) const MOST: u16 = u16::MAX;

    /// The description and the counters of the entry with this number.
    pub(crate) fn entry(&self, number: usize) -> Option<(Source, Arc<RxCounters>)> {
        let entries = lock(&self.entries);
        entries.get(number).map(|entry| (entry.source.clone(), Arc::clone(&entry.counters)))
    }

    /// Packets that the rings have lost and rejected, up to date.
    pub(crate) fn losses(&self) -> &Arc<RxCounters> {
        let rings = lock(&self.rings);
        let sum = |of: fn(&RxCounters) -> u64| rings.iter().map(|ring| of(ring)).sum();
        self.losses.kernel.set(sum(|ring| ring.kernel.value()));
        self.losses.ring_full.set(sum(|ring| ring.ring_full.value()));
        self.losses.filtered_kernel.set(sum(|ring| ring.filtered_kernel.value()));
        &self.losses
    }

    /// The losses, and the counters of every interface found so far.
    pub(crate) fn counters(&self) -> Vec<Arc<RxCounters>> {
        let losses = Arc::clone(self.losses());
        let entries = lock(&self.entries);
        [losses].into_iter().chain(entries.iter().map(|one| Arc::clone(&one.counters))).collect()
    }

    /// Records that the kernel rejects packets and does not count them. True the first time.
    pub(crate) fn filters_unseen(&self) -> bool {
        let is_new = self.losses.filtered_unseen.value() == 0;
        // Set before the loop: an interface added during the loop copies it from here.
        self.losses.filtered_unseen.set(1);
        lock(&self.entries).iter().for_each(|entry| entry.counters.filtered_unseen.set(1));
        is_new
    }
}
