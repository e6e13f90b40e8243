//! Which queue and class the packets of each interface of a file belong to.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::mask::{Class, MAX_QUEUES, QueueMask, QueueSet};
use crate::pcap::{Direction, Source};
use crate::port::Bundle;

/// One interface of the file.
struct Origin {
    queue: u16,
    /// Of packets that are not marked as sent, and of those that are.
    class: [Class; 2],
    is_selected: [bool; 2],
    /// No interface before it has its queue and class.
    is_first: bool,
}

/// The interfaces of a file, by their number. A file may describe one before each of its packets, so nothing may look at
/// all of them when one comes.
#[derive(Default)]
pub(super) struct Origins {
    link_type: Option<u16>,
    list: Vec<Origin>,
    /// Queues and classes that have an interface.
    places: BTreeSet<(u8, u16)>,
    /// What they are selected by.
    mask: Option<QueueMask>,
}

impl Origins {
    /// Adds those of `interfaces` that came since; nothing is done for those that are known.
    ///
    /// # Errors
    /// The interfaces of the file `name` have different link types: its packets cannot be one
    /// stream.
    pub(super) fn extend(&mut self, interfaces: &[Source], name: &str) -> Result<()> {
        for (number, source) in interfaces.iter().enumerate().skip(self.list.len()) {
            let link_type = *self.link_type.get_or_insert(source.link_type);
            if link_type != source.link_type {
                let other = source.link_type;
                let cause = format!("mixes packets of the link types {link_type} and {other}");
                return Err(Error::failed(name, cause).help("split the file by interface first"));
            }
            let mut origin = Origin::new(number, source);
            let place = (origin.class[0] as u8, origin.queue);
            origin.is_first = self.places.insert(place);
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

    /// Applies the masks, also to what is added later.
    pub(super) fn select(&mut self, mask: QueueMask) {
        self.list.iter_mut().for_each(|origin| origin.select(&mask));
        self.mask = Some(mask);
    }

    /// Queue and class of a packet, if it is selected.
    #[inline]
    pub(super) fn selected(&self, interface: u32, direction: Direction) -> Option<(u16, Class)> {
        let origin = self.list.get(interface as usize)?;
        let sent = usize::from(direction == Direction::Outbound);
        origin.is_selected[sent].then_some((origin.queue, origin.class[sent]))
    }

    /// Whether queue and class of a packet do not tell which interface it is of.
    #[inline]
    pub(super) fn is_hidden(&self, interface: u32) -> bool {
        self.list.get(interface as usize).is_some_and(|origin| !origin.is_first)
    }

    /// The places that packets of `interfaces` come from: one for each, of which no packet is kept longer than `snaplen`.
    /// Those that say neither queue nor class keep what they say of themselves, and packets that are marked as sent.
    pub(super) fn bundle(&self, interfaces: &[Source], snaplen: u32) -> Option<Bundle> {
        let strand = |(origin, source): (&Origin, &Source)| {
            let mut source = source.clone();
            source.snaplen =
                if source.snaplen == 0 { snaplen } else { source.snaplen.min(snaplen) };
            let classes = origin.class.to_vec();
            (source, origin.queue, classes)
        };
        Bundle::new(self.list.iter().zip(interfaces).map(strand))
    }

    /// How many interfaces from number `first` on have a queue that `bundle` does not know: the file has described them
    /// too late.
    pub(super) fn strangers(&self, first: usize, bundle: Option<&Bundle>) -> usize {
        let is_stranger = |o: &&Origin| !bundle.is_some_and(|b| b.contains(o.class[0], o.queue));
        self.list.iter().skip(first).filter(is_stranger).count()
    }

    /// The queues of a class.
    pub(super) fn queues(&self, class: Class) -> QueueSet {
        let of_class = self.list.iter().filter(|origin| origin.class.contains(&class));
        of_class.map(|origin| usize::from(origin.queue)).collect()
    }
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
        // A queue that no mask can name is none that this library has recorded.
        let class = if queue < MAX_QUEUES { class } else { [Class::Other; 2] };
        let queue = if queue < MAX_QUEUES { queue as u16 } else { 0 };
        Self { queue, class, is_selected: [false; 2], is_first: true }
    }

    fn select(&mut self, mask: &QueueMask) {
        let queue = usize::from(self.queue);
        self.is_selected = self.class.map(|class| mask.selects(class, queue));
    }
}
