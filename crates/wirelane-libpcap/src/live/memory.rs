//! How large the rings and their blocks are.
//!
//! The kernel hands a block over when it is full, or after the time `retire`, however little is in
//! it. So a program that stalls loses nothing for the number of blocks times `retire`. That is 10 s
//! at every rate that fits the bytes of the ring, unless a short timeout of the program requires
//! more blocks than fit into the memory.

use std::time::Duration;

/// What libpcap takes for one ring, if the program does not say.
const DEFAULT: usize = 2 << 20;
/// Up to this much, each ring gets what libpcap's only ring has, so that a burst on one queue fits.
const EACH: usize = 32 << 20;
/// The least and the most that a ring has; what a user may ask for.
const LEAST: usize = 1 << 20;
const SMALLEST: usize = 16 << 10;
const MOST: usize = 4 << 30;
/// How long a program may stall.
const STALL: Duration = Duration::from_millis(10_500);
/// Most memory of all rings for that.
const FOR_STALLS: usize = 80 << 20;
/// A block for an uncut packet of segmentation offload.
const BLOCK: usize = 128 << 10;
const LARGEST_BLOCK: usize = 1 << 20;
const SMALLEST_BLOCK: usize = 4 << 10;
/// Blocks of a ring that has a block for nearly every packet, as long as all rings fit into this
/// much.
const IMMEDIATE_BLOCKS: usize = 64;
const IMMEDIATE: usize = 64 << 20;
/// What the kernel puts around a packet that is alone in its block.
const AROUND: usize = 256;

/// What is known before the rings are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Bytes of all rings together that the program asked for; 0 for the default.
    pub(super) program: usize,
    /// Those that the user asked for, which count instead.
    pub(super) user: Option<usize>,
    pub(super) rings: usize,
    pub(super) snaplen: usize,
    /// Packets are handed over one by one.
    pub(super) is_immediate: bool,
    /// How long a packet may wait in its block; and the longest wait, if that saves memory.
    pub(super) retire: Duration,
    pub(super) longest_retire: Duration,
}

/// Bytes of a ring and of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) ring: usize,
    /// A power of two. `None` leaves it to the port.
    pub(super) block: Option<usize>,
    /// The time after which the kernel hands over a block that is not full.
    pub(super) retire: Duration,
}

impl Need {
    /// The shape of each ring.
    pub(super) fn shape(self) -> Shape {
        let rings = self.rings.max(1);
        if let Some(all) = self.user {
            let ring = (all / rings).clamp(SMALLEST, MOST);
            let block = self.is_immediate.then(|| self.single().min(power(ring / 16)));
            let block = block.map(|block| block.max(SMALLEST_BLOCK));
            return Shape { ring, block, retire: self.retire };
        }
        let asked = if self.program == 0 { DEFAULT } else { self.program };
        let all = asked.max(rings.saturating_mul(asked.min(DEFAULT)).min(EACH));
        let ring = (all / rings).clamp(LEAST, MOST);
        if !self.is_immediate {
            let blocks = STALL.as_millis().div_ceil(self.retire.as_millis().max(1)) as usize;
            let block = power(ring / blocks).clamp(self.single(), LARGEST_BLOCK);
            // Memory that does not suffice even for the longest time is not worth its cost.
            let fewest = STALL.as_millis().div_ceil(self.longest_retire.as_millis().max(1));
            let suffices = fewest as usize * block <= FOR_STALLS / rings;
            let most = if suffices { FOR_STALLS } else { FOR_STALLS / 4 };
            let count = blocks.min(most / rings / block).max(ring / block);
            let enough = STALL.as_millis().div_ceil(count as u128);
            let enough = Duration::from_millis(u64::try_from(enough).unwrap_or(u64::MAX));
            let retire = enough.min(self.longest_retire).max(self.retire);
            return Shape { ring: count * block, block: Some(block), retire };
        }
        let block = self.single();
        let count = (IMMEDIATE / rings / block).min(IMMEDIATE_BLOCKS);
        Shape { ring: ring.max(count * block), block: Some(block), retire: self.retire }
    }

    /// A block with room for one packet.
    fn single(self) -> usize {
        (self.snaplen.min(BLOCK) + AROUND).next_power_of_two().clamp(SMALLEST_BLOCK, BLOCK)
    }
}

/// The largest power of two that is not above it.
fn power(bytes: usize) -> usize {
    1 << bytes.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        program: 0,
        user: None,
        rings: 3,
        snaplen: 262_144,
        is_immediate: false,
        retire: Duration::from_millis(250),
        longest_retire: Duration::from_millis(1000),
    };

    fn shape(need: Need) -> (usize, usize) {
        let Shape { ring, block, .. } = need.shape();
        (ring, block.unwrap_or(0))
    }

    #[test]
    fn rings_hold_ten_seconds() {
        for (rings, blocks, retire) in
            [(0, 42, 250), (3, 42, 250), (9, 42, 250), (31, 20, 525), (129, 8, 1000)]
        {
            let need = Need { rings, ..NEED };
            assert_eq!(shape(need), (blocks * BLOCK, BLOCK), "{rings}");
            assert_eq!(need.shape().retire.as_millis(), retire, "{rings}");
        }
        let quick = |millis, longest| {
            let retire = Duration::from_millis(millis);
            let longest_retire = Duration::from_millis(longest);
            let Shape { ring, retire, .. } = Need { retire, longest_retire, ..NEED }.shape();
            (ring / BLOCK, retire.as_millis())
        };
        assert_eq!([quick(50, 100), quick(5, 10), quick(8, 8)], [(210, 50), (53, 10), (53, 8)]);
    }

    #[test]
    fn short_packets_have_small_blocks() {
        let short = Need { snaplen: 96, retire: Duration::from_millis(50), ..NEED };
        assert_eq!(shape(short), (256 * (8 << 10), 8 << 10));
    }

    #[test]
    fn programs_ask_for_all_rings_together() {
        let ask = |program| shape(Need { program, ..NEED });
        assert_eq!(ask(1), (42 * BLOCK, BLOCK));
        assert_eq!(ask(64 << 20), (42 * (512 << 10), 512 << 10));
        assert_eq!(ask(usize::MAX), (4 << 30, 1 << 20));
    }

    #[test]
    fn users_get_what_they_ask_for() {
        let ask = |user, is_immediate| shape(Need { user: Some(user), is_immediate, ..NEED });
        assert_eq!(ask(3 << 20, false), (1 << 20, 0));
        assert_eq!(ask(3 << 20, true), (1 << 20, 64 << 10));
        assert_eq!(ask(1, true), (16 << 10, 4 << 10));
    }

    #[test]
    fn packets_one_by_one_have_many_blocks() {
        let immediate = Need { is_immediate: true, ..NEED };
        assert_eq!(shape(immediate), (8 << 20, BLOCK));
        assert_eq!(shape(Need { snaplen: 2048, ..immediate }), (2 << 20, 4 << 10));
        assert_eq!(shape(Need { snaplen: 65_535, ..immediate }), (8 << 20, BLOCK));
        assert_eq!(shape(Need { rings: 129, ..immediate }), (1 << 20, BLOCK));
    }
}
