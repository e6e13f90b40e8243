//! Every interleaving of a few threads and elements in the bulk ring.
//!
//! All models start just before the indices wrap. Threads try a bounded number of times, which
//! keeps the models exhaustive in seconds; remaining elements are moved after the threads have
//! ended.

use super::side::Side;
use super::*;
use crate::sync::thread;

const START: u64 = u64::MAX;

/// Receives the available elements in batches of up to `max`.
fn drain<P: Side, C: Side>(rx: &mut Dequeuer<u32, P, C>, got: &mut Vec<u32>, max: usize) {
    while rx.dequeue_bulk(got, max) > 0 {}
}

/// The elements of one producer: its number and the following ones up to the next multiple of ten.
fn of(producer: u32, got: &[u32]) -> Vec<u32> {
    got.iter().copied().filter(|item| item / 10 == producer / 10).collect()
}

/// Two producers whose elements do not all fit, and a consumer.
#[test]
fn loom_ring_two_producers() {
    loom::model(|| {
        let (tx, mut rx) = Ring::<u32, Multi, Single>::bounded_at(2, START);
        let threads = [vec![10, 11], vec![20]].map(|mut items| {
            let mut tx = tx.clone();
            thread::spawn(move || {
                tx.enqueue_bulk(&mut items);
                (tx, items)
            })
        });
        let mut got = Vec::new();
        rx.dequeue_bulk(&mut got, 2);
        rx.dequeue_bulk(&mut got, 1);
        for thread in threads {
            let (mut tx, mut left) = thread.join().unwrap();
            drain(&mut rx, &mut got, 2);
            tx.enqueue_bulk(&mut left);
            assert!(left.is_empty());
        }
        drain(&mut rx, &mut got, 2);
        assert_eq!(of(10, &got), [10, 11]);
        assert_eq!(of(20, &got), [20]);
        assert_eq!(got.len(), 3);
    });
}

/// A producer whose elements do not fit at once, and two consumers.
#[test]
fn loom_ring_two_consumers() {
    loom::model(|| {
        let (mut tx, mut rx) = Ring::<u32, Single, Multi>::bounded_at(2, START);
        let mut second = rx.clone();
        let consumer = thread::spawn(move || {
            let mut got = Vec::new();
            second.dequeue_bulk(&mut got, 1);
            got
        });
        let producer = thread::spawn(move || {
            let mut items = vec![10, 11, 12];
            tx.enqueue_bulk(&mut items);
            tx.enqueue_bulk(&mut items);
            (tx, items)
        });
        let mut got = Vec::new();
        rx.dequeue_bulk(&mut got, 2);
        let theirs = consumer.join().unwrap();
        let (mut tx, mut left) = producer.join().unwrap();
        drain(&mut rx, &mut got, 2);
        tx.enqueue_bulk(&mut left);
        drain(&mut rx, &mut got, 2);
        assert!(got.is_sorted(), "{got:?}");
        got.extend(theirs);
        got.sort_unstable();
        assert_eq!(got, [10, 11, 12]);
    });
}

/// Two producers, two consumers, one element each way.
#[test]
fn loom_ring_two_and_two() {
    loom::model(|| {
        let (mut tx, mut rx) = Ring::<u32, Multi, Multi>::bounded_at(2, START);
        let (mut second_tx, mut second_rx) = (tx.clone(), rx.clone());
        let producer = thread::spawn(move || second_tx.enqueue(20).unwrap());
        let consumer = thread::spawn(move || second_rx.dequeue());
        tx.enqueue(10).unwrap();
        let mut got: Vec<_> = rx.dequeue().into_iter().collect();
        producer.join().unwrap();
        got.extend(consumer.join().unwrap());
        drain(&mut rx, &mut got, 2);
        got.sort_unstable();
        assert_eq!(got, [10, 20]);
    });
}

/// One producer commits half of its reservation, or none of it, while another sends.
#[test]
fn loom_ring_reservations_given_up() {
    for written in [0, 1] {
        loom::model(move || {
            let (mut tx, mut rx) = Ring::<u32, Multi, Single>::bounded_at(4, START);
            let mut second = tx.clone();
            let producer = thread::spawn(move || {
                let mut reservation = tx.reserve(2).unwrap();
                reservation.push(10).unwrap();
                if written == 1 {
                    reservation.commit();
                }
            });
            let sender = thread::spawn(move || second.enqueue(20).unwrap());
            let mut got = Vec::new();
            rx.dequeue_bulk(&mut got, 4);
            producer.join().unwrap();
            sender.join().unwrap();
            rx.dequeue_bulk(&mut got, 4);
            assert_eq!(of(10, &got).len(), written);
            assert_eq!(of(20, &got), [20]);
            assert_eq!(got.len(), written + 1);
            assert!(rx.is_empty());
        });
    }
}
