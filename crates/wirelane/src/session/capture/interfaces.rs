//! The interfaces of a capture file: one for each queue and class, or for each strand of a bundle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::pcap::{Source, split_name};
use crate::port::{PortInfo, Rx, Strand};
use crate::stats::RxCounters;

/// An interface of the output.
pub(super) struct Interface {
    pub(super) source: Source,
    pub(super) counters: Arc<RxCounters>,
}

/// The names of files that hold one interface each.
#[derive(Default)]
pub(super) struct Names(BTreeSet<PathBuf>);

impl Names {
    /// The next one, and no two are the same. What says neither queue nor class has the number by which the port knows it.
    pub(super) fn of(&mut self, path: &Path, interface: &Interface) -> PathBuf {
        let Interface { source, counters } = interface;
        let number = || u32::from(counters.number);
        let queue = match source.class {
            None => Some(source.queue.unwrap_or_else(number)),
            Some(_) => source.queue,
        };
        let source = Source { queue, ..source.clone() };
        let mut name = split_name(path, &source);
        while !self.0.insert(name.clone()) {
            name = split_name(&name, &source);
        }
        name
    }
}

/// What one receiving end is in the output.
pub(super) fn interfaces(info: &PortInfo, rx: &Rx) -> Vec<Interface> {
    let Some(bundle) = rx.bundle() else {
        let counters = Arc::clone(rx.counters());
        return vec![Interface { source: source(info, &counters), counters }];
    };
    let interface = |strand: &Strand| Interface {
        source: strand.source.clone(),
        counters: Arc::clone(&strand.counters),
    };
    bundle.strands().iter().map(interface).collect()
}

/// The counters of a receiving end, or of its strands.
pub(super) fn counters(rx: &Rx) -> Vec<Arc<RxCounters>> {
    match rx.bundle() {
        Some(bundle) => bundle.strands().iter().map(|one| Arc::clone(&one.counters)).collect(),
        None => vec![Arc::clone(rx.counters())],
    }
}

/// The interface description of one receiving end.
fn source(info: &PortInfo, counters: &RxCounters) -> Source {
    let queue = counters.queue().map(u32::from);
    Source {
        link_type: info.link_type,
        snaplen: info.snaplen,
        hardware: info.hardware.clone(),
        speed: info.speed,
        ..Source::new(
            info.interface.as_deref().unwrap_or(info.backend.as_str()),
            counters.class,
            queue,
        )
    }
}
