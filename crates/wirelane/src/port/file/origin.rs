//! The queue and class of the packets of each interface of a file.

use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::mask::{Class, MAX_QUEUES, QueueMask, QueueSet};
use crate::pcap::{Direction, Source};
use crate::port::InterfaceTable;
use crate::remedy::Remedy;

/// One interface of the file.
struct Origin {
    queue: u16,
    /// The class of packets that are not marked as sent, and of packets that are.
    class: [Class; 2],
    is_selected: [bool; 2],
    /// Another program recorded it, so `queue` is only an identifier.
    is_foreign: bool,
    /// Its number among the interfaces of the port.
    number: u32,
    /// Queue and class do not identify the interface.
    is_hidden: bool,
}

/// The interfaces of a file, by number. A file may describe a new one before each packet, so no
/// step per interface may visit all of them.
#[derive(Default)]
pub(super) struct Origins {
    /// Several link types are allowed.
    is_mixed: bool,
    link_type: Option<u16>,
    list: Vec<Origin>,
    /// Queues and classes that have an interface.
    places: BTreeSet<(u8, u16)>,
    /// The mask that selects them.
    mask: Option<QueueMask>,
}

impl Origins {
    /// No interfaces. `is_mixed`: several link types are allowed.
    pub(super) fn new(is_mixed: bool) -> Self {
        Self { is_mixed, ..Self::default() }
    }

    /// Adds the new ones among `interfaces`; known ones are skipped.
    ///
    /// # Errors
    /// The interfaces of the file `name` have different link types, and that is not allowed.
    pub(super) fn extend(&mut self, interfaces: &[Source], name: &str) -> Result<()> {
        for (number, source) in interfaces.iter().enumerate().skip(self.list.len()) {
            let link_type = *self.link_type.get_or_insert(source.link_type);
            if link_type != source.link_type && !self.is_mixed {
                let other = source.link_type;
                let cause = format!("mixes packets of the link types {link_type} and {other}");
                return Err(Error::failed(name, cause).remedy(Remedy::SplitLinkTypes));
            }
            let mut origin = Origin::new(number, source);
            // An interface without a class uses both classes.
            let classes = BTreeSet::from(origin.class.map(|class| class as u8));
            for class in classes {
                origin.is_hidden |= !self.places.insert((class, origin.queue));
            }
            if let Some(mask) = &self.mask {
                origin.select(mask);
            }
            self.list.push(origin);
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Applies the mask, also to interfaces added later.
    pub(super) fn select(&mut self, mask: QueueMask) {
        self.list.iter_mut().for_each(|origin| origin.select(&mask));
        self.mask = Some(mask);
    }

    /// Queue and class of a packet, if it is selected, and whether several interfaces have this
    /// queue and class.
    #[inline]
    pub(super) fn selected(
        &self,
        interface: u32,
        direction: Direction,
    ) -> Option<(u16, Class, bool)> {
        let origin = self.list.get(interface as usize)?;
        let sent = usize::from(direction == Direction::Outbound);
        let place = (origin.queue, origin.class[sent], origin.is_hidden);
        origin.is_selected[sent].then_some(place)
    }

    /// The number of an interface among the interfaces of the port.
    pub(super) fn number(&self, interface: u32) -> u32 {
        self.list.get(interface as usize).map_or(0, |origin| origin.number)
    }

    /// Adds the interfaces from number `first` on, which were described after the first packets, to
    /// the table, with a snap length of at most `snaplen`. Returns how many did not fit; their
    /// packets count as packets of the first interface.
    pub(super) fn adopt(
        &mut self,
        first: usize,
        all: &[Source],
        snaplen: u32,
        table: &InterfaceTable,
    ) -> usize {
        let mut strangers = 0;
        for (origin, source) in self.list.iter_mut().zip(all).skip(first) {
            let adopted = table.adopt(cut(source, snaplen), origin.queue, origin.class[0]);
            strangers += usize::from(adopted.is_none());
            (origin.number, origin.is_hidden) = (adopted.unwrap_or(0) as u32, true);
        }
        strangers
    }

    /// The table for the packets of `interfaces`, whose snap lengths are at most `snaplen`. An
    /// interface without a class has received and sent packets. The file describes the first
    /// `early` interfaces before its packets; a later interface with the description of an earlier
    /// one is the same interface.
    pub(super) fn interface_table(
        &mut self,
        interfaces: &[Source],
        early: usize,
        snaplen: u32,
    ) -> Option<InterfaceTable> {
        let has_late = interfaces.len() > early;
        let mut known = HashMap::new();
        let mut entries = Vec::new();
        for (at, (origin, source)) in self.list.iter_mut().zip(interfaces).enumerate() {
            let source = cut(source, snaplen);
            if has_late {
                let next = entries.len() as u32;
                let number = *known.entry(InterfaceTable::description(&source)).or_insert(next);
                if at >= early {
                    (origin.number, origin.is_hidden) = (number, true);
                    if number < next {
                        continue;
                    }
                }
            }
            entries.push((source, origin.queue, origin.class.to_vec()));
        }
        InterfaceTable::new(entries)
    }

    pub(super) fn queues(&self, class: Class) -> QueueSet {
        let is_one = |origin: &&Origin| !origin.is_foreign && origin.class.contains(&class);
        let of_class = self.list.iter().filter(is_one);
        of_class.map(|origin| usize::from(origin.queue)).collect()
    }
}

/// `source` with a snap length of at most `snaplen`.
fn cut(source: &Source, snaplen: u32) -> Source {
    let snaplen = if source.snaplen == 0 { snaplen } else { source.snaplen.min(snaplen) };
    Source { snaplen, ..source.clone() }
}

impl Origin {
    fn new(number: usize, source: &Source) -> Self {
        let class = match source.class {
            Some(class) => [class; 2],
            None => [Class::Rx, Class::Tx],
        };
        let queue = match source.class {
            Some(Class::Other) => 0,
            Some(_) => source.queue.unwrap_or(0) as usize,
            None => number,
        };
        // Wirelane records no queue beyond the range of masks.
        let class = if queue < MAX_QUEUES { class } else { [Class::Other; 2] };
        let queue = if queue < MAX_QUEUES { queue as u16 } else { 0 };
        let number = number as u32;
        let is_foreign = source.class.is_none();
        Self { queue, class, is_selected: [false; 2], is_foreign, number, is_hidden: false }
    }

    fn select(&mut self, mask: &QueueMask) {
        // A list of queues never selects another program's interfaces.
        let queue = if self.is_foreign { usize::MAX } else { usize::from(self.queue) };
        self.is_selected = self.class.map(|class| mask.selects(class, queue));
    }
}
