//! Tests of the bulk ring, for every combination of sides.

use super::*;
use wirelane_testkit::oracle::{self, FifoUnderTest};

struct Bulk<P: Side, C: Side>(Enqueuer<u64, P, C>, Dequeuer<u64, P, C>);

impl<P: Side, C: Side> FifoUnderTest for Bulk<P, C> {
    fn push_bulk(&mut self, items: &[u64]) -> usize {
        self.0.enqueue_bulk(&mut items.to_vec())
    }

    fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize {
        self.1.dequeue_bulk(into, max)
    }
}

/// The same through reservations that are made too large, given up, and cut short.
struct Reserving<P: Side, C: Side>(Enqueuer<u64, P, C>, Dequeuer<u64, P, C>);

impl<P: Side, C: Side> FifoUnderTest for Reserving<P, C> {
    fn push_bulk(&mut self, items: &[u64]) -> usize {
        if let Some(mut reservation) = self.0.reserve(7) {
            reservation.push(u64::MAX).unwrap();
        }
        let Some(mut reservation) = self.0.reserve(items.len() + 3) else { return 0 };
        for item in items {
            if reservation.push(*item).is_err() {
                break;
            }
        }
        reservation.commit()
    }

    fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize {
        if max == 1 {
            return self.1.dequeue().map(|item| into.push(item)).is_some().into();
        }
        self.1.dequeue_bulk(into, max)
    }
}

/// Near the wrap of 64 bits what the oracle means near the wrap of 32.
fn wide(start: u32) -> u64 {
    start as i32 as i64 as u64
}

fn behaves_like_a_fifo<P: Side, C: Side>() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        oracle::check(seed, |start, capacity| {
            let (tx, rx) = Ring::<u64, P, C>::bounded_at(capacity, wide(start));
            Bulk(tx, rx)
        });
        oracle::check(seed, |start, capacity| {
            let (tx, rx) = Ring::<u64, P, C>::bounded_at(capacity, wide(start));
            Reserving(tx, rx)
        });
    }
}

#[test]
fn single_to_single_behaves_like_a_fifo() {
    behaves_like_a_fifo::<Single, Single>();
}

#[test]
fn multi_to_single_behaves_like_a_fifo() {
    behaves_like_a_fifo::<Multi, Single>();
}

#[test]
fn single_to_multi_behaves_like_a_fifo() {
    behaves_like_a_fifo::<Single, Multi>();
}

#[test]
fn multi_to_multi_behaves_like_a_fifo() {
    behaves_like_a_fifo::<Multi, Multi>();
}
