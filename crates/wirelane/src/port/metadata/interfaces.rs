//! The interface table of a packet stream that mixes several interfaces, as a capture file does.
//!
//! A receiving end of such a port ([`Rx::interface_table`](crate::port::Rx::interface_table))
//! counts packets per entry and in total, and a capture writes each entry as a separate interface.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::frame::Frame;
use crate::mask::Class;
use crate::pcap::{Direction, Source, pcapng};
use crate::stats::RxCounters;
use crate::sync::lock;

/// One source of the packets of a receiving end.
#[derive(Debug)]
pub(crate) struct InterfaceEntry {
    /// Its description in a capture file.
    pub source: Source,
    /// The counters of its packets.
    pub counters: Arc<RxCounters>,
}

/// All sources of the packets of one receiving end.
#[derive(Debug)]
pub(crate) struct InterfaceTable {
    entries: Vec<InterfaceEntry>,
    /// Entries that were described after the first packet.
    late: Mutex<Late>,
    late_count: AtomicUsize,
    /// The entry of each queue, by class.
    places: [Vec<Option<u16>>; 3],
}

/// Entries that were described after the first packet.
#[derive(Debug, Default)]
struct Late {
    entries: Vec<InterfaceEntry>,
    /// The index of each entry, by its description as a pcapng block.
    known: HashMap<Vec<u8>, usize>,
}

/// The counters of an entry, without its name if no earlier entry has its queue and class
/// (`is_alone`). An interface recorded by another program is not a queue.
fn counters(source: &Source, queue: u16, class: Class, is_alone: bool) -> Arc<RxCounters> {
    let is_foreign = source.class.is_none();
    let class = if is_foreign { Class::Other } else { class };
    Arc::new(match is_alone && !is_foreign || source.name.is_empty() {
        true => RxCounters::new(queue, class),
        false => RxCounters::named(source.name.as_str().into(), queue, class),
    })
}

/// Packets and their bytes on the wire.
pub(crate) type Tally = (u64, u64);

impl InterfaceTable {
    /// A table of these interfaces with their queues and classes; `None` if there are none. If two
    /// have the same queue, its packets belong to the first, except packets that name their entry
    /// ([`Frame::attach`]). Packets without an entry belong to the first.
    pub(crate) fn new(
        entries: impl IntoIterator<Item = (Source, u16, Vec<Class>)>,
    ) -> Option<Self> {
        let mut table = Self {
            entries: Vec::new(),
            late: Mutex::default(),
            late_count: AtomicUsize::new(0),
            places: Default::default(),
        };
        for (source, queue, classes) in entries {
            let number = u16::try_from(table.entries.len()).ok()?;
            let mut is_new = false;
            for class in &classes {
                let Some(places) = table.places.get_mut(*class as usize) else { continue };
                let at = usize::from(queue);
                places.resize(places.len().max(at + 1), None);
                if let Some(place @ None) = places.get_mut(at) {
                    *place = Some(number);
                    is_new = true;
                }
            }
            let class = classes.first().copied().unwrap_or_default();
            let counters = counters(&source, queue, class, is_new);
            table.entries.push(InterfaceEntry { source, counters });
        }
        (!table.entries.is_empty()).then_some(table)
    }

    /// The entries that were described before the first packet, in file order.
    pub(crate) fn entries(&self) -> &[InterfaceEntry] {
        &self.entries
    }

    /// A description as a file has it: interfaces that are described alike are one.
    pub(crate) fn description(source: &Source) -> Vec<u8> {
        let mut block = Vec::new();
        pcapng::interface(&mut block, source);
        block
    }

    /// Adds an entry that is described after the first packets, and returns its index. If its
    /// description equals an existing one, returns the index of that entry. `None` if the table is
    /// full.
    pub(crate) fn adopt(&self, source: Source, queue: u16, class: Class) -> Option<usize> {
        let mut late = lock(&self.late);
        if late.known.is_empty() {
            let known = self.entries.iter().enumerate().rev();
            late.known
                .extend(known.map(|(number, entry)| (Self::description(&entry.source), number)));
        }
        let block = Self::description(&source);
        if let Some(number) = late.known.get(&block) {
            return Some(*number);
        }
        let number = self.entries.len() + late.entries.len();
        u16::try_from(number).ok()?;
        let counters = counters(&source, queue, class, false);
        late.known.insert(block, number);
        late.entries.push(InterfaceEntry { source, counters });
        self.late_count.store(late.entries.len(), Ordering::Release);
        Some(number)
    }

    /// Whether there are entries that were described after the first packets.
    #[inline]
    pub(crate) fn has_late(&self) -> bool {
        self.late_count.load(Ordering::Acquire) > 0
    }

    /// The number of entries, including late ones.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.late_count.load(Ordering::Acquire)
    }

    /// Description and counters of the entry with this index.
    pub(crate) fn entry(&self, number: usize) -> Option<(Source, Arc<RxCounters>)> {
        let both = |entry: &InterfaceEntry| (entry.source.clone(), Arc::clone(&entry.counters));
        match number.checked_sub(self.entries.len()) {
            None => self.entries.get(number).map(both),
            Some(late) => lock(&self.late).entries.get(late).map(both),
        }
    }

    /// Counters of the late entries.
    pub(crate) fn late_counters(&self) -> Vec<Arc<RxCounters>> {
        if !self.has_late() {
            return Vec::new();
        }
        lock(&self.late).entries.iter().map(|entry| Arc::clone(&entry.counters)).collect()
    }

    /// The index of a frame's entry.
    #[inline]
    pub(crate) fn number_of(&self, frame: &Frame) -> usize {
        if frame.has_attached()
            && let Some((entry, _)) = frame.attached()
            && (entry as usize) < self.len()
        {
            return entry as usize;
        }
        if self.entries.len() == 1 {
            return 0;
        }
        self.place(frame.class(), frame.queue_number()).map_or(0, usize::from)
    }

    /// The index of a frame's entry, and the direction of the frame if the entry has neither queue
    /// nor class.
    #[inline]
    pub(crate) fn number_and_direction(&self, frame: &Frame) -> (u32, Direction) {
        let entry = self.number_of(frame);
        let says_none = match self.entries.get(entry) {
            Some(one) => one.source.class.is_none(),
            None => self.entry(entry).is_some_and(|(source, _)| source.class.is_none()),
        };
        let is_sent = says_none && frame.class() == Class::Tx;
        (entry as u32, if is_sent { Direction::Outbound } else { Direction::Unknown })
    }

    #[inline]
    fn place(&self, class: Class, queue: u16) -> Option<u16> {
        *self.places.get(class as usize)?.get(usize::from(queue))?
    }

    /// Counts frames that were received.
    #[inline]
    pub(crate) fn count(&self, frames: &[Frame]) {
        for frame in frames {
            let number = self.number_of(frame);
            match self.entries.get(number) {
                Some(entry) => tick(&entry.counters, frame),
                None => {
                    self.entry(number).iter().for_each(|(_, counters)| tick(counters, frame));
                }
            }
        }
    }

    /// Counts the frames and bytes of each entry.
    pub(crate) fn tally(&self, frames: &[Frame], tallies: &mut Vec<Tally>) {
        tallies.clear();
        tallies.resize(self.len(), (0, 0));
        for frame in frames {
            if let Some((packets, bytes)) = tallies.get_mut(self.number_of(frame)) {
                *packets += 1;
                *bytes += u64::from(frame.original_len());
            }
        }
    }
}

#[inline]
fn tick(counters: &RxCounters, frame: &Frame) {
    counters.packets.add(1);
    counters.bytes.add(u64::from(frame.original_len()));
}
