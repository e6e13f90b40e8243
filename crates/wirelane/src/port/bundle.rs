//! Several queues in one stream of packets, in the order of that stream: what a capture file is.
//!
//! A receiving end of such a port ([`Rx::bundle`](super::Rx::bundle)) counts each of its strands as
//! well as the whole, and a capture writes each strand as an interface of its own.

use std::sync::Arc;

use crate::frame::Frame;
use crate::mask::Class;
use crate::pcap::{Direction, Source};
use crate::stats::RxCounters;

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
    /// The strand of each queue, by class.
    places: [Vec<Option<u16>>; 3],
}

/// Packets and their bytes on the wire.
pub(crate) type Tally = (u64, u64);

impl Bundle {
    /// Strands with their queues and classes. If two name a queue, the first has it, but for packets that say which is theirs
    /// ([`Frame::attach`]). Packets of no strand belong to the first. Without strands there is no bundle.
    pub(crate) fn new(
        strands: impl IntoIterator<Item = (Source, u16, Vec<Class>)>,
    ) -> Option<Self> {
        let mut bundle = Self { strands: Vec::new(), places: Default::default() };
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
            let counters = match is_new {
                true => RxCounters::new(queue, class),
                false => RxCounters::named(source.name.as_str().into(), queue, class),
            };
            bundle.strands.push(Strand { source, counters: Arc::new(counters) });
        }
        (!bundle.strands.is_empty()).then_some(bundle)
    }

    /// The strands, in the order in which they were described.
    pub(crate) fn strands(&self) -> &[Strand] {
        &self.strands
    }

    /// Whether it has a strand for that queue.
    pub(crate) fn contains(&self, class: Class, queue: u16) -> bool {
        self.place(class, queue).is_some()
    }

    /// The number of a frame's strand.
    #[inline]
    pub(crate) fn strand_of(&self, frame: &Frame) -> usize {
        if self.strands.len() == 1 {
            return 0;
        }
        if frame.has_attached()
            && let Some((interface, _)) = frame.attached()
            && (interface as usize) < self.strands.len()
        {
            return interface as usize;
        }
        self.place(frame.class(), frame.queue_number()).map_or(0, usize::from)
    }

    /// The number of a frame's strand, and where it went if that strand says neither queue nor class.
    #[inline]
    pub(crate) fn place_of(&self, frame: &Frame) -> (u32, Direction) {
        let strand = self.strand_of(frame);
        let says_none = self.strands.get(strand).is_some_and(|one| one.source.class.is_none());
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
            if let Some(strand) = self.strands.get(self.strand_of(frame)) {
                strand.counters.packets.add(1);
                strand.counters.bytes.add(u64::from(frame.original_len()));
            }
        }
    }

    /// How many of the frames are of each strand.
    pub(crate) fn tally(&self, frames: &[Frame], tallies: &mut Vec<Tally>) {
        tallies.clear();
        tallies.resize(self.strands.len(), (0, 0));
        for frame in frames {
            if let Some((packets, bytes)) = tallies.get_mut(self.strand_of(frame)) {
                *packets += 1;
                *bytes += u64::from(frame.original_len());
            }
        }
    }
}
