//! Several queues in one stream of packets, in the order of that stream: what a capture file is.
//!
//! A receiving end of such a port ([`Rx::bundle`](super::Rx::bundle)) counts each of its strands as
//! well as the whole, and a capture writes each strand as an interface of its own.

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
pub(crate) struct Strand {
    /// How a capture file describes it.
    pub source: Source,
    /// What became of its packets.
    pub counters: Arc<RxCounters>,
}

/// All sources of the packets of one receiving end.
#[derive(Debug)]
pub(crate) struct Bundle {
    strands: Vec<Strand>,
    /// Those that were described later, and how many they are.
    late: Mutex<Late>,
    late_count: AtomicUsize,
    /// The strand of each queue, by class.
    places: [Vec<Option<u16>>; 3],
}

/// Strands that were described when packets had come already.
#[derive(Debug, Default)]
struct Late {
    strands: Vec<Strand>,
    /// The number of each description, as a block of a file.
    known: HashMap<Vec<u8>, usize>,
}

/// The counters of a strand; with its name unless queue and class are its own, as `is_alone` says.
/// An interface of another program is no queue.
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

impl Bundle {
    /// Strands with their queues and classes. If two name a queue, the first has it, but for
    /// packets that say which is theirs ([`Frame::attach`]). Packets of no strand belong to the
    /// first. Without strands there is no bundle.
    pub(crate) fn new(
        strands: impl IntoIterator<Item = (Source, u16, Vec<Class>)>,
    ) -> Option<Self> {
        let mut bundle = Self {
            strands: Vec::new(),
            late: Mutex::default(),
            late_count: AtomicUsize::new(0),
            places: Default::default(),
        };
        for (source, queue, classes) in strands {
            let number = u16::try_from(bundle.strands.len()).ok()?;
            let mut is_new = false;
            for class in &classes {
                let Some(places) = bundle.places.get_mut(*class as usize) else { continue };
                let at = usize::from(queue);
                places.resize(places.len().max(at + 1), None);
                if let Some(place @ None) = places.get_mut(at) {
                    *place = Some(number);
                    is_new = true;
                }
            }
            let class = classes.first().copied().unwrap_or_default();
            let counters = counters(&source, queue, class, is_new);
            bundle.strands.push(Strand { source, counters });
        }
        (!bundle.strands.is_empty()).then_some(bundle)
    }

    /// The strands, in the order in which they were described, without those that were when packets
    /// had come already.
    pub(crate) fn strands(&self) -> &[Strand] {
        &self.strands
    }

    /// A description as a file has it: interfaces that are described alike are one.
    pub(crate) fn description(source: &Source) -> Vec<u8> {
        let mut block = Vec::new();
        pcapng::interface(&mut block, source);
        block
    }

    /// The number of a strand that is described when packets have come already. What is described
    /// as another one is that one. `None` if there are as many as can be told apart.
    pub(crate) fn adopt(&self, source: Source, queue: u16, class: Class) -> Option<usize> {
        let mut late = lock(&self.late);
        if late.known.is_empty() {
            let known = self.strands.iter().enumerate().rev();
            late.known
                .extend(known.map(|(number, strand)| (Self::description(&strand.source), number)));
        }
        let block = Self::description(&source);
        if let Some(number) = late.known.get(&block) {
            return Some(*number);
        }
        let number = self.strands.len() + late.strands.len();
        u16::try_from(number).ok()?;
        let counters = counters(&source, queue, class, false);
        late.known.insert(block, number);
        late.strands.push(Strand { source, counters });
        self.late_count.store(late.strands.len(), Ordering::Release);
        Some(number)
    }

    /// Whether there are strands that were described when packets had come already.
    #[inline]
    pub(crate) fn has_late(&self) -> bool {
        self.late_count.load(Ordering::Acquire) > 0
    }

    /// How many strands there are, with those that were described later.
    pub(crate) fn len(&self) -> usize {
        self.strands.len() + self.late_count.load(Ordering::Acquire)
    }

    /// Description and counters of the strand with this number.
    pub(crate) fn strand(&self, number: usize) -> Option<(Source, Arc<RxCounters>)> {
        let both = |strand: &Strand| (strand.source.clone(), Arc::clone(&strand.counters));
        match number.checked_sub(self.strands.len()) {
            None => self.strands.get(number).map(both),
            Some(late) => lock(&self.late).strands.get(late).map(both),
        }
    }

    /// Counters of those that were described later.
    pub(crate) fn late_counters(&self) -> Vec<Arc<RxCounters>> {
        if !self.has_late() {
            return Vec::new();
        }
        lock(&self.late).strands.iter().map(|strand| Arc::clone(&strand.counters)).collect()
    }

    /// The number of a frame's strand.
    #[inline]
    pub(crate) fn strand_of(&self, frame: &Frame) -> usize {
        if frame.has_attached()
            && let Some((strand, _)) = frame.attached()
            && (strand as usize) < self.len()
        {
            return strand as usize;
        }
        if self.strands.len() == 1 {
            return 0;
        }
        self.place(frame.class(), frame.queue_number()).map_or(0, usize::from)
    }

    /// The number of a frame's strand, and where it went if that strand says neither queue nor
    /// class.
    #[inline]
    pub(crate) fn place_of(&self, frame: &Frame) -> (u32, Direction) {
        let strand = self.strand_of(frame);
        let says_none = match self.strands.get(strand) {
            Some(one) => one.source.class.is_none(),
            None => self.strand(strand).is_some_and(|(source, _)| source.class.is_none()),
        };
        let is_sent = says_none && frame.class() == Class::Tx;
        (strand as u32, if is_sent { Direction::Outbound } else { Direction::Unknown })
    }

    #[inline]
    fn place(&self, class: Class, queue: u16) -> Option<u16> {
        *self.places.get(class as usize)?.get(usize::from(queue))?
    }

    /// Counts frames that were received.
    #[inline]
    pub(crate) fn count(&self, frames: &[Frame]) {
        for frame in frames {
            let number = self.strand_of(frame);
            match self.strands.get(number) {
                Some(strand) => tick(&strand.counters, frame),
                None => {
                    self.strand(number).iter().for_each(|(_, counters)| tick(counters, frame));
                }
            }
        }
    }

    /// How many of the frames are of each strand.
    pub(crate) fn tally(&self, frames: &[Frame], tallies: &mut Vec<Tally>) {
        tallies.clear();
        tallies.resize(self.len(), (0, 0));
        for frame in frames {
            if let Some((packets, bytes)) = tallies.get_mut(self.strand_of(frame)) {
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
