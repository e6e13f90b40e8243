//! Metadata that an interface reports with a packet: its flow hash and the hardware time.
//!
//! The XDP program writes them directly before the packet (`port/xdp/hints.rs`). A prepended header
//! would overwrite them there, so a frame stores them at the start of its headroom
//! (`frame/kept.rs`):
//!
//! ```text
//!   │ Offload │ hints │ merged │  headroom  │ hints │ packet │
//!               ▲ kept                       │ found
//!               └────────────────────────────┘
//! ```
#![allow(unsafe_code)]

use std::fmt;

use super::handle::Frame;
use super::kept;
use super::marks::Marks;

/// The flow hash of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxHash {
    /// Packets of one flow have the same value. The interface chooses the function.
    pub value: u32,
    /// The fields that it covers.
    pub kind: RxHashKind,
}

/// The fields that a hash covers (`enum xdp_rss_hash_type`). [`RxHashKind::default`]: the interface
/// does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RxHashKind(u16);

impl RxHashKind {
    /// The kernel's bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether it covers more than addresses: ports, or fields like them.
    pub fn covers_ports(self) -> bool {
        self.0 & 1 << 3 != 0
    }
}

impl fmt::Display for RxHashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names =
            ["IPv4", "IPv6", "extension headers", "L4", "TCP", "UDP", "SCTP", "IPsec", "ICMP"];
        let named = names.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0);
        let mut separator = "";
        for (_, name) in named {
            write!(f, "{separator}{name}")?;
            separator = " ";
        }
        if separator.is_empty() { f.write_str("unknown") } else { Ok(()) }
    }
}

/// The layout in memory, in the machine's byte order: the time in nanoseconds, the hash, its kind,
/// and a word that marks hints as present and says whether there is a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// 0 if there is none.
    time: u64,
    hash: Option<RxHash>,
}

impl Hints {
    pub(crate) const BYTES: usize = kept::HINTS_BYTES;
    /// Offsets of the fields.
    pub(crate) const TIME: i16 = 0;
    pub(crate) const HASH: i16 = 8;
    pub(crate) const MARKS: i16 = 12;
    /// Parts of the marks: the kind of the hash, whether there is one, and a magic number. Senders
    /// cannot write it, because packets do not extend before the position where they are received.
    pub(crate) const KIND: u32 = 0x7fff;
    pub(crate) const HASHED: u32 = 0x8000;
    pub(crate) const PRESENT: u32 = 0x5743_0000;

    /// Parses the bytes; `None` if they are not hints.
    #[inline]
    fn parse(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [time @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = bytes;
        let (value, marks) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        if marks & 0xffff_0000 != Self::PRESENT {
            return None;
        }
        let hash = RxHash { value, kind: RxHashKind((marks & Self::KIND) as u16) };
        // A driver without a hash may report 0, with an empty kind.
        let hashed = marks & Self::HASHED != 0 && (value, hash.kind) != (0, RxHashKind(0));
        Some(Self { time: u64::from_ne_bytes(time), hash: hashed.then_some(hash) })
    }
}

impl Frame {
    /// The hash of the packet's flow; `None` if the interface did not report one, or was not asked
    /// to (`xdp:eth0?rx_hash=on`).
    pub fn rx_hash(&self) -> Option<RxHash> {
        self.hints()?.hash
    }

    /// Time of reception by the hardware, in nanoseconds of the device's clock, which may differ
    /// from the clock of [`Frame::timestamp`]; `None` if the interface did not report it, or was
    /// not asked to (`xdp:eth0?rx_timestamps=on`).
    pub fn hardware_timestamp(&self) -> Option<u64> {
        self.hints().map(|hints| hints.time).filter(|time| *time != 0)
    }

    /// Whether it has hints.
    #[inline(always)]
    pub(crate) fn has_hints(&self) -> bool {
        self.meta().marks.has(Marks::HINTS)
    }

    #[inline]
    fn hints(&self) -> Option<Hints> {
        if !self.has_hints() {
            return None;
        }
        Hints::parse(self.kept(kept::HINTS))
    }

    /// Takes the hints directly before the packet, once: they must not apply to the next packet at
    /// this position.
    #[inline]
    pub(crate) fn take_hints(&mut self) -> Option<RawHints> {
        let found = self.read_before::<{ Hints::BYTES }>()?;
        let hints = Hints::parse(found)?;
        let before = self.meta_mut().data;
        // SAFETY: these bytes before the packet were just read, and belong to this frame.
        unsafe { before.sub(Hints::BYTES).cast::<[u8; Hints::BYTES]>().write([0; Hints::BYTES]) };
        (hints != Hints::default()).then_some(RawHints(found))
    }

    /// Stores the hints, if there is room for them and the next header.
    #[inline]
    pub(crate) fn keep_hints(&mut self, hints: RawHints) {
        if self.before() >= kept::HINTS + 2 * Hints::BYTES && self.keep(kept::HINTS, hints.0) {
            let meta = self.meta_mut();
            meta.marks = meta.marks.with(Marks::HINTS);
        }
    }

    /// Stores the hints directly before the packet.
    #[inline]
    pub(crate) fn adopt_hints(&mut self) {
        if let Some(hints) = self.take_hints() {
            self.keep_hints(hints);
        }
    }
}

/// Hints in their layout in memory.
pub(crate) struct RawHints([u8; Hints::BYTES]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Batch;
    use crate::frame::{Offload, PartialChecksum};
    use crate::pool::{Pool, PoolConfig};

    fn bytes(time: u64, hash: u32, marks: u32) -> Vec<u8> {
        [&time.to_ne_bytes()[..], &hash.to_ne_bytes(), &marks.to_ne_bytes()].concat()
    }

    /// The frame of a pool of one, with `hints` directly before its packet.
    fn frame(pool: &mut Pool, hints: &[u8]) -> Frame {
        let mut batch = Batch::new(1);
        assert_eq!(pool.take(&mut batch, 1), 1);
        let mut frame = batch.pop().unwrap();
        assert!(frame.fill(&[7; 60]) && frame.write_before(hints));
        frame
    }

    fn pool(headroom: u32) -> Pool {
        Pool::new(PoolConfig { chunks: 1, chunk_size: 2048, headroom, numa_node: None }).unwrap()
    }

    const TCP: u32 = 1 << 3 | 1 << 4 | 1;

    #[test]
    fn each_is_there_or_unknown() {
        let mut pool = pool(256);
        let both = Hints::PRESENT | Hints::HASHED | TCP;
        for (time, hash, marks, expected) in [
            (5, 9, both, (Some(5), Some(9))),
            (0, 9, both, (None, Some(9))),
            (5, 9, Hints::PRESENT, (Some(5), None)),
            (0, 0, Hints::PRESENT, (None, None)),
            // A hash may be 0, unless its kind is empty.
            (0, 0, both, (None, Some(0))),
            (0, 0, Hints::PRESENT | Hints::HASHED, (None, None)),
            (0, 1, Hints::PRESENT | Hints::HASHED, (None, Some(1))),
            (5, 9, Hints::HASHED | TCP, (None, None)),
            (5, 9, both ^ 1 << 31, (None, None)),
        ] {
            let mut frame = frame(&mut pool, &bytes(time, hash, marks));
            assert_eq!((frame.hardware_timestamp(), frame.rx_hash()), (None, None));
            frame.adopt_hints();
            let got = (frame.hardware_timestamp(), frame.rx_hash().map(|hash| hash.value));
            assert_eq!(got, expected, "{time} {hash} {marks:x}");
            assert_eq!(frame.data(), [7; 60]);
        }
    }

    #[test]
    fn they_stay_with_the_packet_and_go_with_it() {
        let mut pool = pool(256);
        let hints = bytes(5, 9, Hints::PRESENT | Hints::HASHED | TCP);
        let mut first = frame(&mut pool, &hints);
        first.adopt_hints();
        let checksum = Some(PartialChecksum { start: 34, offset: 6 });
        let offload = Offload { checksum, ..Offload::default() };
        let is_whole = |frame: &Frame| {
            (frame.hardware_timestamp(), frame.rx_hash().unwrap().value) == (Some(5), 9)
        };
        assert!(first.set_offload(offload) && is_whole(&first));
        assert_eq!(first.offload(), Some(offload));
        // Every byte of headroom that it admits to.
        let headroom = first.headroom();
        assert!(headroom >= 128 && !first.prepend(headroom + 1) && first.prepend(headroom));
        first.data_mut()[..headroom].fill(0xff);
        assert!(is_whole(&first) && first.strip(headroom + 2) && is_whole(&first));
        let kind = first.rx_hash().unwrap().kind;
        assert!(kind.covers_ports() && u32::from(kind.bits()) == TCP);
        assert_eq!(
            (kind.to_string().as_str(), RxHashKind(0).to_string().as_str()),
            ("IPv4 L4 TCP", "unknown")
        );
        // Another packet in this frame has no hints, and a later packet in its chunk has none,
        // either.
        assert!(first.fill(&[1; 60]) && first.rx_hash().is_none());
        drop(first);
        let mut second = frame(&mut pool, &[]);
        second.adopt_hints();
        assert_eq!((second.hardware_timestamp(), second.rx_hash()), (None, None));
    }

    #[test]
    fn without_room_to_keep_them_they_are_unknown() {
        for headroom in [0, 15, 16, 16 + kept::HINTS as u32] {
            let mut pool = pool(headroom);
            let hints = bytes(5, 9, Hints::PRESENT | Hints::HASHED | TCP);
            let fits = headroom as usize >= hints.len();
            let mut frame = frame(&mut pool, if fits { &hints } else { &[] });
            frame.adopt_hints();
            assert_eq!((frame.hardware_timestamp(), frame.rx_hash()), (None, None), "{headroom}");
        }
    }
}
