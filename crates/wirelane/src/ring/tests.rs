//! Tests of the bulk ring, for every combination of sides.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use super::side::Side;
use super::stats::{End, HandleStats};
use super::*;
use wirelane_testkit::oracle::{self, FifoUnderTest, Random};

struct Bulk<P: Side, C: Side>(Enqueuer<u64, P, C>, Dequeuer<u64, P, C>);

impl<P: Side, C: Side> FifoUnderTest for Bulk<P, C> {
    fn push_bulk(&mut self, items: &[u64]) -> usize {
        self.0.enqueue_bulk(&mut items.to_vec())
    }

    fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize {
        self.1.dequeue_bulk(into, max)
    }
}

/// The same through reservations that are too large, dropped, or partly filled.
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

/// The position near the 64-bit wrap that corresponds to the oracle's near the 32-bit wrap.
fn wide(start: u32) -> u64 {
    start as i32 as i64 as u64
}

fn behaves_like_a_fifo<P: Side, C: Side>() {
    // Miri takes minutes for both ways to send; the soaks mix them too.
    let (bulk, reserving) = (!cfg!(miri) || !P::MULTI, !cfg!(miri) || P::MULTI);
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        let ring = |start, capacity| Ring::<u64, P, C>::bounded_at(capacity, wide(start));
        if bulk {
            oracle::check(seed, |start, capacity| {
                let (tx, rx) = ring(start, capacity);
                Bulk(tx, rx)
            });
        }
        if reserving {
            oracle::check(seed, |start, capacity| {
                let (tx, rx) = ring(start, capacity);
                Reserving(tx, rx)
            });
        }
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

#[test]
fn all_or_nothing() {
    let (mut tx, mut rx) = Ring::<u32, Multi, Multi>::bounded(4);
    let (mut items, mut got) = (vec![1, 2, 3], Vec::new());
    assert!(tx.enqueue_exact(&mut items) && items.is_empty());
    items = vec![4, 5];
    assert!(!tx.enqueue_exact(&mut items) && items == [4, 5]);
    assert!(!tx.enqueue_slice(&items) && tx.enqueue_slice(&[]) && tx.enqueue_slice(&[4]));
    assert_eq!(tx.enqueue(6), Err(6));
    assert!(!tx.enqueue_slice(&[0; 5]), "never fits");
    assert_eq!((tx.len(), tx.capacity(), tx.ring().is_empty()), (4, 4, false));
    assert_eq!(rx.dequeue_exact(&mut got, 5), 0);
    assert_eq!(rx.dequeue_exact(&mut got, 3), 3);
    assert_eq!(rx.dequeue_exact(&mut got, 2), 0);
    assert_eq!((rx.dequeue(), rx.dequeue(), got), (Some(4), None, vec![1, 2, 3]));
}

/// A handle whose cached index is many rounds old neither overwrites nor invents elements.
#[test]
fn a_handle_that_slept_is_not_fooled() {
    let (mut tx, mut rx) = Ring::<u64, Multi, Multi>::bounded(4);
    let (mut late_tx, mut late_rx) = (tx.clone(), rx.clone());
    for round in 0..100 {
        assert!(tx.enqueue_slice(&[round; 3]));
        assert_eq!(rx.dequeue_exact(&mut Vec::new(), 3), 3);
    }
    assert!(tx.enqueue_slice(&[7; 3]) && late_tx.enqueue(8) == Ok(()));
    assert_eq!(late_tx.enqueue(9), Err(9));
    let mut got = Vec::new();
    assert_eq!(late_rx.dequeue_bulk(&mut got, 8), 4);
    assert_eq!((got, late_rx.dequeue(), rx.dequeue()), (vec![7, 7, 7, 8], None, None));
}

/// Elements that are counted by their `Arc`.
fn counted() -> (Arc<()>, impl Fn(usize) -> Vec<Arc<()>>) {
    let element = Arc::new(());
    let source = Arc::clone(&element);
    (element, move |count| vec![Arc::clone(&source); count])
}

fn what_is_left_is_dropped_once<P: Side, C: Side>() {
    let (element, make) = counted();
    let (mut tx, mut rx) = Ring::<_, P, C>::bounded_at(8, u64::MAX - 2);
    assert_eq!(tx.enqueue_bulk(&mut make(6)), 6);
    assert_eq!(rx.dequeue_bulk(&mut Vec::new(), 2), 2);
    let mut reservation = tx.reserve(9).unwrap();
    assert_eq!(reservation.capacity(), 4);
    make(4).into_iter().for_each(|item| reservation.push(item).unwrap());
    assert!(reservation.push(Arc::clone(&element)).is_err());
    drop(reservation);
    assert_eq!((Arc::strong_count(&element), rx.len()), (2 + 4, 4));
    drop((tx, rx));
    assert_eq!(Arc::strong_count(&element), 2);
}

#[test]
fn what_is_left_in_the_ring_is_dropped_once() {
    what_is_left_is_dropped_once::<Single, Single>();
    what_is_left_is_dropped_once::<Multi, Multi>();
}

/// A producer drops a reservation after others have made later ones.
#[test]
fn a_hole_is_stepped_over() {
    for (written, committed) in [(0, true), (2, true), (3, true), (2, false), (3, false)] {
        let (element, make) = counted();
        let (mut tx, mut rx) = Ring::<_, Multi, Multi>::bounded_at(8, u64::MAX - 2);
        let (mut behind, ring) = (tx.clone(), tx.ring());
        tx.enqueue(Arc::clone(&element)).unwrap();
        let mut reservation = tx.reserve(3).unwrap();
        make(written).into_iter().for_each(|item| reservation.push(item).unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| behind.enqueue_bulk(&mut make(9)));
            // It has claimed all remaining slots before it waits for us.
            wait_for(&ring, |handle| handle.waits > 0);
            if committed {
                assert_eq!(reservation.commit(), written);
            } else {
                drop(reservation);
            }
            assert_eq!(waiting.join().unwrap(), 4);
        });
        let sent = if committed { written } else { 0 };
        let mut got = Vec::new();
        assert_eq!(rx.dequeue_bulk(&mut got, 3), 3.min(1 + sent));
        if committed {
            got.extend(std::iter::from_fn(|| rx.dequeue()));
            assert_eq!(got.len(), 1 + sent + 4);
        }
        drop((got, rx, tx, behind, ring));
        assert_eq!(Arc::strong_count(&element), 2);
    }
}

/// Waits until `is` holds for some handle.
fn wait_for<T>(ring: &Ring<T>, mut is: impl FnMut(&HandleStats) -> bool) {
    while !ring.stats().iter().any(&mut is) {
        thread::yield_now();
    }
}

#[test]
fn a_panic_while_filling_blocks_nobody() {
    let (element, make) = counted();
    let (mut tx, mut rx) = Ring::<_, Multi, Single>::bounded(8);
    let mut other = tx.clone();
    let filling = catch_unwind(AssertUnwindSafe(|| {
        let mut reservation = tx.reserve(4).unwrap();
        reservation.push(Arc::clone(&element)).unwrap();
        panic!("while filling");
    }));
    assert!(filling.is_err());
    assert_eq!(other.enqueue_bulk(&mut make(8)), 8);
    assert_eq!(rx.dequeue_bulk(&mut Vec::new(), 8), 8);
    assert_eq!(Arc::strong_count(&element), 2);
}

/// If dropping an element panics, the ring still works, and the other elements are dropped once.
#[test]
fn a_panic_while_dropping_blocks_nobody() {
    struct Bad(bool);
    impl Drop for Bad {
        fn drop(&mut self) {
            assert!(!self.0, "while dropping");
        }
    }
    let (mut tx, mut rx) = Ring::<_, Multi, Single>::bounded(4);
    let dropping = catch_unwind(AssertUnwindSafe(|| {
        let mut reservation = tx.reserve(3).unwrap();
        let _ = reservation.push(Bad(true));
        let _ = reservation.push(Bad(false));
    }));
    assert!(dropping.is_err());
    assert_eq!(tx.enqueue_bulk(&mut (0..5).map(|_| Bad(false)).collect()), 4);
    assert_eq!(rx.dequeue_bulk(&mut Vec::new(), 8), 4);
}

/// The handle that stalls others between reserving and committing is counted.
#[test]
fn a_stalled_peer_is_named() {
    let (mut tx, mut rx) = Ring::<u32, Multi, Multi>::bounded(8);
    let (mut other, ring) = (tx.clone(), tx.ring());
    let mut reservation = tx.reserve(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || other.enqueue(2).unwrap());
        wait_for(&ring, |handle| handle.stalled_others > 0);
        assert!(rx.is_empty(), "nothing overtakes a reservation");
        reservation.push(1).unwrap();
        reservation.commit();
    });
    let stats = ring.stats();
    let named = |end, id| stats.iter().find(|handle| (handle.end, handle.id) == (end, id)).unwrap();
    assert_eq!(named(End::Enqueue, 0).stalled_others, 1);
    assert_eq!((named(End::Enqueue, 1).waits, named(End::Enqueue, 1).stalled), (1, 1));
    assert_eq!(named(End::Dequeue, 0).stalled_others, 0);
    assert_eq!((rx.dequeue(), rx.dequeue(), rx.dequeue()), (Some(1), Some(2), None));
}

#[test]
fn elements_of_no_size() {
    let (mut tx, mut rx) = Ring::<(), Multi, Multi>::bounded(4);
    assert_eq!(tx.enqueue_bulk(&mut vec![(); 6]), 4);
    assert_eq!((rx.dequeue(), rx.dequeue_bulk(&mut Vec::new(), 9)), (Some(()), 3));
}

/// The account of received elements: their number per producer, and a fingerprint that a loss or a
/// duplicate leaves unchanged only with a chance of 2⁻⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    count: u64,
    fingerprint: u64,
    next: u64,
}

impl Account {
    fn add(&mut self, number: u64) {
        assert!(number >= self.next, "{number} after {}", self.next);
        self.next = number + 1;
        self.count += 1;
        self.fingerprint = self.fingerprint.wrapping_add(Random::new(number).next());
    }

    fn plus(self, other: Self) -> Self {
        let fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
        Self { count: self.count + other.count, fingerprint, next: self.next.max(other.next) }
    }
}

/// Producers send in every way, in random portions, while `more` returns true; consumers take
/// random portions. Every element arrives once, and elements of one producer arrive in order at
/// each consumer.
fn soak<P: Side, C: Side>(
    producers: Vec<Enqueuer<(usize, u64), P, C>>,
    consumers: Vec<Dequeuer<(usize, u64), P, C>>,
    more: impl Fn(u64) -> bool + Sync,
) -> u64 {
    let (count, running) = (producers.len(), AtomicUsize::new(producers.len()));
    let (running, more) = (&running, &more);
    let (sent, received) = thread::scope(|scope| {
        let send = |(id, tx)| {
            scope.spawn(move || {
                let account = send_all(id, tx, more);
                running.fetch_sub(1, Release);
                account
            })
        };
        let receive = |(id, rx)| {
            scope.spawn(move || receive_all(id, rx, count, || running.load(Acquire) > 0))
        };
        let senders: Vec<_> = producers.into_iter().enumerate().map(send).collect();
        let receivers: Vec<_> = consumers.into_iter().enumerate().map(receive).collect();
        let sent: Vec<_> = senders.into_iter().map(|thread| thread.join().unwrap()).collect();
        let received = receivers.into_iter().map(|thread| thread.join().unwrap());
        let together = |all: Vec<Account>, one: Vec<Account>| {
            all.into_iter().zip(one).map(|(a, b)| a.plus(b)).collect()
        };
        (sent, received.reduce(together).unwrap())
    });
    assert_eq!(received, sent);
    sent.iter().map(|account| account.count).sum()
}

fn send_all<P: Side, C: Side>(
    id: usize,
    mut tx: Enqueuer<(usize, u64), P, C>,
    more: impl Fn(u64) -> bool,
) -> Account {
    let (mut random, mut account, mut batch) = (Random::new(id as u64), Account::default(), vec![]);
    while more(account.count) {
        let portion = random.below(64) + 1;
        let first = account.count;
        batch.clear();
        batch.extend((first..first + portion).map(|number| (id, number)));
        let moved = match random.below(8) {
            0 => usize::from(tx.enqueue(batch[0]).is_ok()),
            1 => batch.len() * usize::from(tx.enqueue_slice(&batch)),
            // Reserved too many slots, or dropped the reservation.
            2 | 3 => tx.reserve(batch.len()).map_or(0, |mut reservation| {
                let written = random.below(portion + 1) as usize;
                batch.iter().take(written).for_each(|item| _ = reservation.push(*item));
                if random.below(4) > 0 { reservation.commit() } else { 0 }
            }),
            _ => tx.enqueue_bulk(&mut batch),
        };
        (first..first + moved as u64).for_each(|number| account.add(number));
        if moved == 0 {
            thread::yield_now();
        }
    }
    account
}

fn receive_all<P: Side, C: Side>(
    id: usize,
    mut rx: Dequeuer<(usize, u64), P, C>,
    producers: usize,
    running: impl Fn() -> bool,
) -> Vec<Account> {
    let mut random = Random::new(1000 + id as u64);
    let (mut accounts, mut batch) = (vec![Account::default(); producers], vec![]);
    loop {
        // The order matters: elements sent before the producers ended are visible once the end is.
        let last = !running();
        match random.below(8) {
            0 => batch.extend(rx.dequeue()),
            1 => _ = rx.dequeue_exact(&mut batch, random.below(32) as usize),
            _ => _ = rx.dequeue_bulk(&mut batch, random.below(64) as usize + 1),
        }
        if batch.is_empty() {
            if last && rx.is_empty() {
                return accounts;
            }
            thread::yield_now();
        }
        batch.drain(..).for_each(|(id, number)| accounts[id].add(number));
    }
}

#[test]
fn soak_one_to_one() {
    let (tx, rx) = Ring::<_, Single, Single>::bounded_at(SLOTS, NEAR_WRAP);
    soak(vec![tx], vec![rx], |count| count < EACH);
}

#[test]
fn soak_many_to_one() {
    let (tx, rx) = Ring::<_, Multi, Single>::bounded_at(SLOTS, NEAR_WRAP);
    soak(vec![tx; 4], vec![rx], |count| count < EACH);
}

#[test]
fn soak_one_to_many() {
    let (tx, rx) = Ring::<_, Single, Multi>::bounded_at(SLOTS, NEAR_WRAP);
    soak(vec![tx], vec![rx; 4], |count| count < EACH);
}

#[test]
fn soak_eight_to_two() {
    let (tx, rx) = Ring::<_, Multi, Multi>::bounded_at(SLOTS, NEAR_WRAP);
    soak(vec![tx; 8], vec![rx; 2], |count| count < EACH);
}

/// The long soak: `WIRELANE_SOAK_SECONDS=600 cargo test --release -p wirelane --lib -- --ignored
/// --nocapture soak_for`.
#[test]
#[ignore = "takes as long as WIRELANE_SOAK_SECONDS says, 600 by default"]
#[expect(clippy::print_stdout, reason = "says what was proven")]
fn soak_for_ten_minutes() {
    let seconds = std::env::var("WIRELANE_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let (tx, rx) = Ring::<_, Multi, Multi>::bounded_at(SLOTS, NEAR_WRAP);
    let ring = tx.ring();
    let sent = soak(vec![tx; 8], vec![rx; 2], |_| Instant::now() < end);
    println!("{sent} elements in {seconds} s, each once and in order");
    ring.stats().iter().for_each(|handle| println!("{handle:?}"));
}

const SLOTS: usize = if cfg!(miri) { 64 } else { 256 };
const EACH: u64 = if cfg!(miri) { 60 } else { 20_000 };
const NEAR_WRAP: u64 = u64::MAX - 1000;
