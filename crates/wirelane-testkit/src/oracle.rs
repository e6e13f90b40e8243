//! A FIFO that is obviously correct, and random operations that compare another FIFO with it.
//!
//! Tests and models run every ring of the project through [`check`]. The start index is the point:
//! a ring whose cursors begin just below `u32::MAX` wraps within a few operations. A ring that
//! begins at zero would need 2³² operations to show the same mistake.

use std::collections::VecDeque;

/// The queue under test.
///
/// It holds at most as many items as the capacity that it was made with. It never reorders, loses
/// or invents items.
pub trait FifoUnderTest {
    /// Appends a prefix of `items`, as long as there is room, and returns its length.
    fn push_bulk(&mut self, items: &[u64]) -> usize;

    /// Moves at most `max` of the oldest items to the end of `into`, and returns their number.
    fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize;
}

/// Compares the queues that `make` builds with a [`VecDeque`], operation by operation.
///
/// `make` receives the index at which both cursors start and the capacity, a power of two. For each
/// of several start indices, some of them close to the wrap, and each of several capacities, it
/// runs a random mix of bulk pushes and pops on both. Some of them are empty or oversized. The same
/// `seed` gives the same operations.
///
/// # Panics
/// When the queue and the oracle disagree; the message names the operation.
pub fn check<F: FifoUnderTest>(seed: u64, make: impl Fn(u32, usize) -> F) {
    let mut random = Random::new(seed);
    for capacity in [1, 2, 4, 64, 256] {
        let near_wrap = u32::MAX - random.below(2 * capacity as u64) as u32;
        for start in [0, u32::MAX, near_wrap, 1 << 31, random.next() as u32] {
            let context = format!("seed {seed}, capacity {capacity}, start index {start}");
            compare(&mut random, make(start, capacity), capacity, &context);
        }
    }
}

/// A small random number generator that is good enough for tests: xorshift64*, by Vigna, "An
/// experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers depend only on `seed`.
    pub fn new(seed: u64) -> Self {
        // The state must not be zero. Neighbouring seeds should not give similar numbers.
        let mut random = Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        random.next();
        random
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number, from 0 to `bound` − 1.
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The low bits of this generator are the least random.
        (self.next() >> 11) % bound
    }
}

/// Miri runs this so slowly that it needs fewer operations.
const OPERATIONS: usize = if cfg!(miri) { 60 } else { 2_000 };

fn compare(random: &mut Random, mut queue: impl FifoUnderTest, capacity: usize, context: &str) {
    let mut oracle = VecDeque::with_capacity(capacity);
    let mut next = 0_u64;
    let mut popped = Vec::new();
    for operation in 0..OPERATIONS {
        let bulk = random.below(capacity as u64 + 3) as usize;
        if random.below(2) == 0 {
            let items: Vec<u64> = (next..).take(bulk).collect();
            let expected = bulk.min(capacity - oracle.len());
            let pushed = queue.push_bulk(&items);
            assert_eq!(pushed, expected, "{context}: push of {bulk} at operation {operation}");
            oracle.extend(&items[..pushed]);
            next += pushed as u64;
        } else {
            popped.clear();
            let expected: Vec<u64> = oracle.drain(..bulk.min(oracle.len())).collect();
            let count = queue.pop_bulk(&mut popped, bulk);
            assert_eq!(count, popped.len(), "{context}: count of pop at operation {operation}");
            assert_eq!(popped, expected, "{context}: pop of {bulk} at operation {operation}");
        }
    }
    popped.clear();
    queue.pop_bulk(&mut popped, capacity + 1);
    assert!(popped.iter().eq(&oracle), "{context}: the rest is {popped:?}, not {oracle:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Right {
        items: VecDeque<u64>,
        capacity: usize,
        spoil: fn(&mut VecDeque<u64>),
    }

    impl FifoUnderTest for Right {
        fn push_bulk(&mut self, items: &[u64]) -> usize {
            let count = items.len().min(self.capacity - self.items.len());
            self.items.extend(&items[..count]);
            (self.spoil)(&mut self.items);
            count
        }

        fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize {
            let count = max.min(self.items.len());
            into.extend(self.items.drain(..count));
            count
        }
    }

    fn make(spoil: fn(&mut VecDeque<u64>)) -> impl Fn(u32, usize) -> Right {
        move |_start, capacity| Right { items: VecDeque::new(), capacity, spoil }
    }

    #[test]
    fn right_queue_passes() {
        check(1, make(|_items| {}));
    }

    #[test]
    #[should_panic(expected = "capacity")]
    fn reordering_queue_fails() {
        check(2, make(|items| items.make_contiguous().reverse()));
    }

    #[test]
    #[should_panic(expected = "capacity")]
    fn losing_queue_fails() {
        check(
            3,
            make(|items| {
                items.pop_back();
            }),
        );
    }

    #[test]
    fn start_indices_are_close_to_the_wrap() {
        let starts = std::cell::RefCell::new(Vec::new());
        check(4, |start, capacity| {
            starts.borrow_mut().push((start, capacity as u32));
            make(|_items| {})(start, capacity)
        });
        let wraps = |&(start, capacity): &(u32, u32)| {
            start > 0 && start.checked_add(2 * capacity).is_none()
        };
        assert!(starts.borrow().iter().filter(|start| wraps(start)).count() >= 10);
    }

    #[test]
    fn random_numbers_repeat_and_stay_in_bounds() {
        let take = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        assert!((0..10).all(|digit| take(7).contains(&digit)));
    }
}
