//! The interfaces of a capture file: one for each queue and class, or for each entry of a port that
//! itself reads a capture file.

use std::sync::Arc;

use wirelane_os::{clock, machine};

use crate::frame::Frame;
use crate::pcap::{Direction, Source, Statistics};
use crate::port::{DiscoveredInterfaces, InterfaceEntry, InterfaceTable, PortInfo, Rx};
use crate::stats::RxCounters;

/// An interface of the output.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its description.
    pub source: Source,
    /// The counters of its packets.
    pub counters: Arc<RxCounters>,
}

/// The interfaces of one receiving end, in their order in the file.
pub fn interfaces(info: &PortInfo, rx: &Rx) -> Vec<Interface> {
    if let Some(discovered) = rx.discovered() {
        // Its interfaces are added when they are discovered. One entry for all of them is at the
        // first end.
        let counters = Arc::clone(discovered.losses());
        let name = info.interface.as_deref().unwrap_or_default();
        let source = Source {
            link_type: info.link_type,
            snaplen: info.snaplen,
            name: name.to_owned(),
            description: "packets lost before their interface was known".to_owned(),
            ..Source::default()
        };
        let all = Interface { source, counters };
        return if rx.counters().number == 0 { vec![all] } else { Vec::new() };
    }
    let Some(table) = rx.interface_table() else {
        let counters = Arc::clone(rx.counters());
        return vec![Interface { source: source(info, &counters), counters }];
    };
    let interface = |entry: &InterfaceEntry| Interface {
        source: entry.source.clone(),
        counters: Arc::clone(&entry.counters),
    };
    table.entries().iter().map(interface).collect()
}

/// The counters of a receiving end, or of its entries; none if interfaces are discovered at run
/// time.
pub fn counters(rx: &Rx) -> Vec<Arc<RxCounters>> {
    if rx.discovered().is_some() {
        return Vec::new();
    }
    match rx.interface_table() {
        Some(table) => table.entries().iter().map(|one| Arc::clone(&one.counters)).collect(),
        None => vec![Arc::clone(rx.counters())],
    }
}

/// Assigns the packets of a receiving end to its interfaces.
#[derive(Clone, Default)]
pub struct Placing {
    /// `None`: there is only one.
    table: Option<Arc<InterfaceTable>>,
    /// Interfaces discovered at run time; a frame has the number of its interface.
    discovered: Option<Arc<DiscoveredInterfaces>>,
}

impl Placing {
    /// The packets of `rx`.
    pub fn of(rx: &Rx) -> Self {
        Self { table: rx.interface_table().cloned(), discovered: rx.discovered().cloned() }
    }

    /// Whether a frame may belong to an interface that [`interfaces`] does not have.
    #[inline]
    pub fn has_late(&self) -> bool {
        self.discovered.is_some() || self.table.as_ref().is_some_and(|table| table.has_late())
    }

    /// The number of interfaces so far, as files number them; 0 for the only one of a port.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.len())
    }

    /// The interface at this index, as in [`Placing::place_late`]. `None` for the only one of a
    /// port.
    pub fn interface(&self, position: u32) -> Option<Interface> {
        let (source, counters) = self.entry(position as usize)?;
        Some(Interface { source, counters })
    }

    /// The interfaces discovered so far at run time, or described by a file after its first
    /// packets.
    pub fn later(&self) -> Vec<Interface> {
        let first = self.table.as_ref().map_or(0, |table| table.entries().len());
        let interface = |(source, counters)| Interface { source, counters };
        (first..).map_while(|position| self.entry(position)).map(interface).collect()
    }

    /// Whether there is only one interface.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.table.is_none() && self.discovered.is_none()
    }

    /// The index of a frame's interface, as in [`Placing::place_late`].
    #[inline]
    pub fn position(&self, frame: &Frame) -> u32 {
        match &self.table {
            Some(table) => table.number_of(frame) as u32,
            None => self.place(frame).0,
        }
    }

    /// Whether interfaces are discovered at run time.
    pub fn is_growing(&self) -> bool {
        self.discovered.is_some()
    }

    /// The description of the interface at this index, including interfaces discovered at run time
    /// or described late in a file. `None` for the only one of a port.
    pub fn found(&self, position: u32) -> Option<Source> {
        self.entry(position as usize).map(|(source, _)| source)
    }

    /// Description and counters of the interface at this index.
    fn entry(&self, position: usize) -> Option<(Source, Arc<RxCounters>)> {
        match (&self.table, &self.discovered) {
            (Some(table), _) => table.entry(position),
            (None, Some(discovered)) => discovered.entry(position),
            (None, None) => None,
        }
    }

    /// The index of a frame's interface among the interfaces of its receiving end, and the frame's
    /// direction, if the interface does not determine it.
    #[inline]
    pub fn place(&self, frame: &Frame) -> (u32, Direction) {
        match &self.table {
            None if self.discovered.is_some() => {
                (u32::from(frame.queue_number()), Direction::Unknown)
            }
            None => (0, Direction::Unknown),
            Some(table) => {
                let (entry, direction) = table.number_and_direction(frame);
                let is_known = (entry as usize) < table.entries().len();
                (if is_known { entry } else { 0 }, direction)
            }
        }
    }

    /// As [`Placing::place`], but an interface that a file describes after the first packet has a
    /// separate index after the interfaces of [`interfaces`].
    #[inline]
    pub fn place_late(&self, frame: &Frame) -> (u32, Direction) {
        match &self.table {
            Some(table) => table.number_and_direction(frame),
            None => self.place(frame),
        }
    }
}

/// The contents of statistics blocks with these counters, by index of the interface. Start and end
/// of the whole capture are in nanoseconds since the epoch.
pub fn statistics<'a>(
    counters: impl IntoIterator<Item = &'a Arc<RxCounters>>,
    start: u64,
    end: Option<u64>,
) -> Vec<Statistics> {
    let timestamp = clock::realtime_ns();
    let of = |(interface, counters): (u32, &Arc<RxCounters>)| {
        let stats = counters.snapshot(0);
        Statistics {
            interface,
            timestamp,
            start: Some(start),
            end,
            received: stats.received,
            // Losses in the device are not known per queue.
            dropped: None,
            filter_accepted: stats.dropped.total().map(|lost| stats.packets + lost),
            os_dropped: stats.dropped.kernel,
            delivered: Some(stats.packets),
        }
    };
    (0..).zip(counters).map(of).collect()
}

/// The interface description of one receiving end.
fn source(info: &PortInfo, counters: &RxCounters) -> Source {
    let queue = counters.queue().map(u32::from);
    Source {
        link_type: info.link_type,
        snaplen: info.snaplen,
        hardware: info.hardware.clone(),
        os: Some(machine::system()),
        filter: info.filter.clone(),
        speed: info.speed,
        ..Source::new(
            info.interface.as_deref().unwrap_or(info.backend.as_str()),
            counters.class,
            queue,
        )
    }
}
