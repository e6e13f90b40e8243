//! Which queue and class the packets of each interface of a file belong to.

use crate::capture::{Direction, Source};
use crate::error::{Error, Result};
use crate::mask::{Class, MAX_QUEUES, QueueMask, QueueSet};

/// One interface of the file.
struct Origin {
    queue: u16,
    /// Of packets that are not marked as sent, and of those that are.
    class: [Class; 2],
    is_selected: [bool; 2],
}

/// The interfaces of a file, by their number.
#[derive(Default)]
pub(super) struct Origins {
    link_type: Option<u16>,
    list: Vec<Origin>,
}

impl Origins {
    /// Adds those of `interfaces` that came since. Nothing selects them yet.
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
            self.list.push(Origin::new(number, source));
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Applies the masks.
    pub(super) fn select(&mut self, mask: &QueueMask) {
        for origin in &mut self.list {
            let queue = usize::from(origin.queue);
            origin.is_selected = origin.class.map(|class| mask.selects(class, queue));
        }
    }

    /// Queue and class of a packet, if it is selected.
    #[inline]
    pub(super) fn selected(&self, interface: u32, direction: Direction) -> Option<(u16, Class)> {
        let origin = self.list.get(interface as usize)?;
        let sent = usize::from(direction == Direction::Outbound);
        origin.is_selected[sent].then_some((origin.queue, origin.class[sent]))
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
        Self { queue, class, is_selected: [false; 2] }
    }
}
