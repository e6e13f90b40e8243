//! Several TX queues, and a simulated port behind them.

use super::*;
use crate::port::sim;
use crate::port::{OpenOptions, Port, Readiness};

fn open(spec: &str) -> Port {
    let options = OpenOptions::default().transmit(true);
    let mut sim = sim::open(&spec.parse().unwrap(), &options).unwrap();
    sim.start().unwrap();
    sim
}

/// Every packet of a simulated port reaches a verifying port, through any queue.
#[test]
fn sim_to_sim_through_every_discipline_and_choice() {
    let count = if cfg!(miri) { 200 } else { 10_000 };
    for choice in [QueueSelection::FlowHash, QueueSelection::Cpu, QueueSelection::Explicit] {
        for spec in ALL {
            let mut from = open(&format!("sim:2?count={count}&flows=63&size=imix"));
            let mut to = open("sim:3?verify=on");
            let spec = spec.parse().unwrap();
            let egresses = Egresses::new(
                to.tx().unwrap().into_iter().map(|tx| Egress::new(&spec, tx)),
                choice,
            );
            std::thread::scope(|scope| {
                for mut rx in from.rx().unwrap() {
                    let egresses = egresses.clone();
                    scope.spawn(move || {
                        let mut producer = egresses.producer();
                        let mut batch = Batch::default();
                        loop {
                            let received = rx.receive(&mut batch);
                            if received == 0 && batch.is_empty() {
                                match rx.readiness().unwrap() {
                                    Readiness::End => break,
                                    _ => std::thread::yield_now(),
                                }
                            }
                            let _ = producer.send(&mut batch, 0);
                            producer.flush(0).unwrap();
                        }
                        while producer.flush(0).unwrap() > 0 {}
                    });
                }
            });
            let stats = egresses.queues().iter().map(Egress::stats).collect::<Vec<_>>();
            let sent: u64 =
                egresses.queues().iter().map(|queue| queue.tx_counters().packets.value()).sum();
            let dropped: u64 = stats.iter().map(|stats| stats.dropped.total()).sum();
            assert_eq!(sent + dropped, count, "{choice:?}: {stats:?}");
            assert_eq!(stats.iter().map(|stats| stats.dropped.tx_error).sum::<u64>(), 0);
            let used = egresses.queues().iter().filter(|it| it.tx_counters().packets.value() > 0);
            match choice {
                QueueSelection::FlowHash => assert_eq!(used.count(), 3),
                QueueSelection::Cpu => assert!(used.count() <= 2),
                QueueSelection::Explicit => assert_eq!(used.count(), 1),
            }
        }
    }
}

/// One producer, several queues, some of them full at times: each flow keeps its order.
#[test]
fn order_within_a_flow_holds_when_queues_are_full() {
    let mut sim = open("sim:1?count=3000&flows=16");
    let mut rx = sim.rx().unwrap().remove(0);
    for spec in ["noqueue", "lockless,tsq=2k"] {
        let (queues, seen): (Vec<_>, Vec<_>) =
            [3, 50, 7].map(|slots| egress(spec, slots)).into_iter().unzip();
        let egresses = Egresses::new(queues, QueueSelection::FlowHash);
        let mut producer = egresses.producer();
        let (mut batch, mut expected, mut next) = (Batch::new(200), vec![Vec::new(); 3], 0_u32);
        let hash = producer.hash_for_tests();
        while next < 1000 {
            batch.set_limit(200);
            let first = batch.len();
            rx.receive(&mut batch);
            for frame in &mut batch[first..] {
                // The order of reception; kept in bytes that are no part of the flow.
                expected[hash(frame.data())].push(next);
                frame.data_mut()[4..8].copy_from_slice(&next.to_be_bytes());
                next += 1;
            }
            let _ = producer.send(&mut batch, 0);
            producer.flush(0).unwrap();
        }
        while producer.flush(0).unwrap() > 0 || !batch.is_empty() {
            let _ = producer.send(&mut batch, 0);
        }
        for (seen, expected) in seen.iter().zip(&expected) {
            let numbers: Vec<_> = seen.frames.lock().unwrap().iter().map(|frame| frame.1).collect();
            assert_eq!(&numbers, expected, "{spec}");
            assert!(!expected.is_empty());
        }
    }
}

#[test]
fn the_caller_chooses_the_queue() {
    let (queues, seen): (Vec<_>, Vec<_>) =
        [100, 100].map(|slots| egress("lockless", slots)).into_iter().unzip();
    let egresses = Egresses::new(queues, QueueSelection::Explicit);
    let (mut producer, mut source) = (egresses.producer(), Source::new(64));
    assert_eq!(producer.send_to(1, source.frames(5, 64), 0).accepted, 5);
    assert_eq!(producer.send(source.frames(3, 64), 0).accepted, 3);
    assert_eq!(producer.send_to(2, source.frames(1, 64), 0).refused, 1);
    assert_eq!(source.batch.len(), 1);
    assert_eq!(seen.iter().map(|it| it.frames.lock().unwrap().len()).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(
        Egresses::new([], QueueSelection::FlowHash).producer().send(&mut source.batch, 0).refused,
        1
    );
}
