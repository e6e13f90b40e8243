//! The interfaces of a port that are found while it runs: what `any` is.
//!
//! All of them share the port's rings. So what a ring lost cannot be told by interface, and is
//! counted for all together.

use std::sync::{Arc, Mutex};

use super::bundle::Strand;
use crate::mask::Class;
use crate::pcap::Source;
use crate::stats::RxCounters;
use crate::sync::lock;

/// The interfaces of a port that are found while it runs.
#[derive(Debug)]
pub(crate) struct Growing {
    strands: Mutex<Vec<Strand>>,
    losses: Arc<RxCounters>,
    /// Of each ring. Whoever holds the lock owns the losses.
    rings: Mutex<Vec<Arc<RxCounters>>>,
}

impl Growing {
    /// None yet. `port` is what to call all of them together.
    pub(crate) fn new(port: &str) -> Self {
        let losses = Arc::new(RxCounters::of_rings(port.into()));
        Self { strands: Mutex::default(), losses, rings: Mutex::default() }
    }

    /// The loss in a ring counts, too.
    pub(crate) fn add_ring(&self, counters: &Arc<RxCounters>) {
        lock(&self.rings).push(Arc::clone(counters));
    }

    /// Adds an interface, or a queue of it; its number and its counters. `None` if there are as
    /// many as can be told apart.
    pub(crate) fn add(
        &self,
        source: Source,
        queue: u16,
        class: Class,
    ) -> Option<(u16, Arc<RxCounters>)> {
        let mut strands = lock(&self.strands);
        let number = u16::try_from(strands.len()).ok().filter(|number| *number < Self::MOST)?;
        let counters =
            Arc::new(RxCounters::of_interface(source.name.as_str().into(), queue, class));
        counters.filtered_unseen.set(self.losses.filtered_unseen.value());
        strands.push(Strand { source, counters: Arc::clone(&counters) });
        Some((number, counters))
    }

    /// Most of them.
    pub(crate) const MOST: u16 = u16::MAX;

    /// The description and the counters of the one with this number.
    pub(crate) fn strand(&self, number: usize) -> Option<(Source, Arc<RxCounters>)> {
        let strands = lock(&self.strands);
        strands.get(number).map(|strand| (strand.source.clone(), Arc::clone(&strand.counters)))
    }

    /// What the rings lost and rejected, brought up to date.
    pub(crate) fn losses(&self) -> &Arc<RxCounters> {
        let rings = lock(&self.rings);
        let sum = |of: fn(&RxCounters) -> u64| rings.iter().map(|ring| of(ring)).sum();
        self.losses.kernel.set(sum(|ring| ring.kernel.value()));
        self.losses.ring_full.set(sum(|ring| ring.ring_full.value()));
        self.losses.filtered_kernel.set(sum(|ring| ring.filtered_kernel.value()));
        &self.losses
    }

    /// The losses, and those of every interface found so far.
    pub(crate) fn counters(&self) -> Vec<Arc<RxCounters>> {
        let losses = Arc::clone(self.losses());
        let strands = lock(&self.strands);
        [losses].into_iter().chain(strands.iter().map(|one| Arc::clone(&one.counters))).collect()
    }

    /// The kernel rejects packets from now on, and does not count them. True the first time.
    pub(crate) fn filters_unseen(&self) -> bool {
        let is_new = self.losses.filtered_unseen.value() == 0;
        // Before those that there are: one that comes meanwhile has it from here.
        self.losses.filtered_unseen.set(1);
        lock(&self.strands).iter().for_each(|strand| strand.counters.filtered_unseen.set(1));
        is_new
    }
}
