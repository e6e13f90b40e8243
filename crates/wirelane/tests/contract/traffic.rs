//! Frames that carry their queue and their expected contents.

use std::collections::{BTreeMap, HashSet};

use wirelane_testkit::packets;

/// The tag of a frame, stored as its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The number of the session that made it.
    pub(crate) run: u8,
    /// Its queue.
    pub(crate) queue: u8,
    /// Its length in bytes.
    pub(crate) length: u16,
    /// Its number among the frames of the session and queue.
    pub(crate) number: u32,
}

impl Tag {
    /// Reads the tag of a frame, if it has one.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let [run, queue, a, b, number @ ..] = packets::sequence(frame)?.to_be_bytes();
        let length = u16::from_be_bytes([a, b]);
        Some(Self { run, queue, length, number: u32::from_be_bytes(number) })
    }

    /// Builds the frame with this tag: a UDP packet of a flow, between two link-layer addresses.
    pub(crate) fn frame(self, flow: u16, [source, destination]: [[u8; 6]; 2]) -> Vec<u8> {
        let [a, b] = self.length.to_be_bytes();
        let [c, d, e, f] = self.number.to_be_bytes();
        let sequence = u64::from_be_bytes([self.run, self.queue, a, b, c, d, e, f]);
        packets::udp4(sequence)
            .flow(flow)
            .macs(source, destination)
            .length(usize::from(self.length))
            .build()
    }
}

/// The length of the frame `number`: a mix of lengths around powers of two, up to `longest`.
pub(crate) fn mixed(number: u32, longest: usize) -> u16 {
    const LENGTHS: [usize; 24] = [
        60, 1514, 61, 64, 1500, 63, 65, 127, 128, 129, 1024, 255, 256, 60, 257, 511, 512, 513,
        1023, 1025, 1513, 777, 66, 60,
    ];
    // One frame in 24 has the maximum length.
    let length = if number % 24 == 1 { longest } else { LENGTHS[number as usize % 24] };
    length.min(longest) as u16
}

/// The minimum length of a frame.
pub(crate) fn short(_: u32, _: usize) -> u16 {
    60
}

/// The maximum length of a frame.
pub(crate) fn long(_: u32, longest: usize) -> u16 {
    longest as u16
}

/// Checks the frames of one direction and queue: each arrives once, unchanged, and in order on its
/// path.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    run: u8,
    queue: u16,
    flow: u16,
    macs: [[u8; 6]; 2],
    snaplen: usize,
    /// By path, the lowest number that the next frame may have.
    next: BTreeMap<u16, u32>,
    /// The numbers of the frames that arrived.
    came: HashSet<u32>,
    /// The number of frames that arrived.
    pub(crate) seen: u64,
    /// The sum of their lengths on the wire.
    pub(crate) bytes: u64,
    /// The number of frames of other sessions, which are not checked.
    pub(crate) late: u64,
}

impl Ledger {
    /// Expects frames of `run` for `queue` that [`Tag::frame`] made.
    pub(crate) fn new(run: u8, queue: u16, flow: u16, macs: [[u8; 6]; 2], snaplen: u32) -> Self {
        let snaplen = snaplen as usize;
        let (next, came) = Default::default();
        Self { run, queue, flow, macs, snaplen, next, came, seen: 0, bytes: 0, late: 0 }
    }

    /// Checks a frame that arrived on `queue`, if the queue is known. Returns true if the frame
    /// belongs to this session.
    ///
    /// # Panics
    /// When the frame was changed, arrived twice, out of order, or on another queue.
    #[track_caller]
    pub(crate) fn check(&mut self, queue: Option<u16>, bytes: &[u8]) -> bool {
        self.check_on(0, queue, bytes)
    }

    /// As [`Ledger::check`], for a frame that took one of several paths.
    #[track_caller]
    pub(crate) fn check_on(&mut self, path: u16, queue: Option<u16>, bytes: &[u8]) -> bool {
        let tag = Tag::of(bytes).expect("a frame that this test has not made");
        if tag.run != self.run {
            self.late += 1;
            return false;
        }
        let place = format!("frame {} of queue {}", tag.number, tag.queue);
        assert_eq!(u16::from(tag.queue), self.queue, "{place} came on the wrong queue");
        assert_eq!(queue.unwrap_or(self.queue), self.queue, "{place} says another queue");
        let length = usize::from(tag.length);
        let expected = tag.frame(self.flow, self.macs);
        let kept = &expected[..length.min(self.snaplen)];
        if bytes != kept {
            let at = bytes.iter().zip(kept).position(|(a, b)| a != b);
            panic!("{place} is damaged: {} of {} bytes, first at {at:?}", bytes.len(), kept.len());
        }
        assert!(self.came.insert(tag.number), "{place} came twice");
        let next = self.next.entry(path).or_default();
        assert!(tag.number >= *next, "{place} came after frame {}", *next - 1);
        *next = tag.number + 1;
        self.seen += 1;
        self.bytes += length as u64;
        true
    }

    /// An empty ledger that expects the same frames as `other`.
    pub(crate) fn like(other: &Self) -> Self {
        Self::new(other.run, other.queue, other.flow, other.macs, u32::MAX)
    }

    /// The queue of the frames expected.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }
}
