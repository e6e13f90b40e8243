//! A bit map of received packets, shared by all queues.

use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_gen::signature::SignatureKey;

/// The packets that a trial will send: determines the size of the bit map.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The key of its signatures. Each trial needs a different key.
    pub key: SignatureKey,
    /// The largest number of packets of each flow, by flow number.
    pub packets: Vec<u64>,
}

impl Expectation {
    /// The largest number of bits for one trial: 256 MiB.
    pub const MOST_BITS: u64 = 1 << 31;
}

/// A bit for each expected packet.
pub(super) struct SeenPackets {
    words: Box<[AtomicU64]>,
    /// The index of each flow's first word, and the end of the last flow.
    starts: Box<[usize]>,
}

const BITS: u64 = u64::BITS as u64;

impl SeenPackets {
    /// Creates the bits for `expected`. Above [`Expectation::MOST_BITS`] in total, each flow gets a
    /// proportional share.
    pub(super) fn new(expected: &Expectation) -> Self {
        let all: u64 = expected.packets.iter().fold(0, |sum, packets| sum.saturating_add(*packets));
        let share = (Expectation::MOST_BITS as f64 / all.max(1) as f64).min(1.0);
        let mut starts = vec![0];
        let mut words = 0;
        for packets in &expected.packets {
            let packets = if share < 1.0 { (*packets as f64 * share) as u64 } else { *packets };
            words += packets.div_ceil(BITS) as usize;
            starts.push(words);
        }
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { words, starts: starts.into() }
    }

    /// The number of flows.
    pub(super) fn flows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Marks a packet. Returns whether it is the first with its number; `None` if it has no bit.
    #[inline]
    pub(super) fn is_first(&self, flow: usize, sequence: u64) -> Option<bool> {
        let [start, end] = *self.starts.get(flow..flow + 2)? else { return None };
        let word = usize::try_from(sequence / BITS).ok()?.checked_add(start)?;
        let bit = 1 << (sequence % BITS);
        let word = self.words.get(word).filter(|_| word < end)?;
        // Relaxed: no other memory depends on this bit.
        Some(word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_have_bits_of_their_own() {
        let seen =
            SeenPackets::new(&Expectation { key: SignatureKey(1), packets: vec![64, 0, 65] });
        assert_eq!(seen.flows(), 3);
        for (flow, bits) in [(0, 64), (2, 128)] {
            for sequence in 0..bits {
                assert_eq!(seen.is_first(flow, sequence), Some(true), "{flow} {sequence}");
                assert_eq!(seen.is_first(flow, sequence), Some(false), "{flow} {sequence}");
            }
            assert_eq!(seen.is_first(flow, bits), None);
            assert_eq!(seen.is_first(flow, u64::MAX), None);
        }
        assert_eq!(seen.is_first(1, 0), None);
        assert_eq!(seen.is_first(3, 0), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let packets = vec![u64::MAX / 2, 0, u64::MAX / 2];
        let seen = SeenPackets::new(&Expectation { key: SignatureKey(1), packets });
        assert!(seen.words.len() as u64 * BITS <= Expectation::MOST_BITS + 2 * BITS);
        assert_eq!(seen.is_first(2, Expectation::MOST_BITS / 2 - 100), Some(true));
        assert_eq!(seen.is_first(2, Expectation::MOST_BITS), None);
    }

    #[test]
    fn two_threads_agree_on_who_was_first() {
        let seen = SeenPackets::new(&Expectation { key: SignatureKey(1), packets: vec![10_000] });
        let count = || (0..10_000).filter(|k| seen.is_first(0, *k) == Some(true)).count();
        let firsts = std::thread::scope(|scope| {
            let [one, other] = [(); 2].map(|()| scope.spawn(count));
            one.join().unwrap() + other.join().unwrap()
        });
        assert_eq!(firsts, 10_000);
    }
}
