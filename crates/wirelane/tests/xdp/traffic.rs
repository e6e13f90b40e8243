//! Every packet arrives once, unchanged, on the queue to which it was sent.

use wirelane_testkit::privileged;

use super::*;

/// The queue on which packets arrive that were sent to `queue` of a veth. It is the same queue,
/// except in generic mode: `netif_get_rxqueue` counts queues from 1, but veth leaves the TX queue
/// counted from 0 in the packet.
fn arrival(query: &str, queue: u64) -> u64 {
    if query.contains("generic") { queue.saturating_sub(1) } else { queue }
}

/// Sends `count` packets of mixed lengths to every queue and compares what arrives.
fn exchange(bench: &Bench, query: &str, queues: u16, count: u64, longest: u64) {
    stay();
    let mut receiver = bench.far(query, &receiving());
    let mut sender = bench.near(query, &sending());
    let (mut ends, mut senders) = (receiver.rx().unwrap(), sender.tx().unwrap());
    assert_eq!((ends.len(), senders.len()), (usize::from(queues), usize::from(queues)));
    assert!(receiver.rx().is_err() && receiver.tx().is_err());
    receiver.start().unwrap();
    let frame = |n: u64| packets::udp4(n).length((60 + n * 7 % (longest - 59)) as usize).build();
    let before = wirelane_os::clock::realtime_ns();
    let mut got = Vec::new();
    for (queue, tx) in senders.iter_mut().enumerate() {
        let numbers = (0..count).map(|i| i * u64::from(queues) + queue as u64);
        send(tx, numbers.map(frame), || {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
        });
        let stats = tx.counters().snapshot(0);
        assert_eq!((stats.packets, stats.errors), (count, 0));
        assert_eq!(tx.counters().copied.value(), 0);
    }
    let total = usize::from(queues) * count as usize;
    finish_after(&*receiver.control(), &mut ends, &mut got, total);
    assert_eq!(got.len() as u64, u64::from(queues) * count, "{query}: {:?}", ends[0].counters());
    let after = wirelane_os::clock::realtime_ns();
    for (queue, rx) in ends.iter().enumerate() {
        let sent_to = |n: u64| n % u64::from(queues);
        let comes_by = |n: u64| arrival(query, sent_to(n)) == queue as u64;
        let mut expected: Vec<u64> =
            (0..count * u64::from(queues)).filter(|n| comes_by(*n)).collect();
        expected.sort_by_key(|n| sent_to(*n));
        assert!(sequences(&got, queue as u16) == expected, "{query}: queue {queue}");
        let stats = rx.counters().snapshot(0);
        let expected = expected.len() as u64;
        assert_eq!((stats.received, stats.packets), (Some(expected), expected));
    }
    for got in &got {
        assert_eq!(got.bytes, frame(got.sequence.unwrap()), "{query}");
        assert!((before..=after).contains(&got.timestamp));
    }
    assert_conserved(&receiver);
    assert_conserved(&sender);
    drop((ends, senders));
    for port in [&receiver, &sender] {
        let counts = port.frames();
        assert!(counts.free + counts.fill == counts.pool, "{counts:?}");
    }
}

#[test]
fn privileged_every_packet_once_on_every_number_of_queues() {
    if !privileged::require() {
        return;
    }
    for queues in [1, 2, 4] {
        let bench = Bench::new(queues.into(), 1500);
        for mode in MODES {
            exchange(&bench, &format!("?mode={mode}"), queues, 3000, 1514);
        }
    }
}

#[test]
fn privileged_frames_of_every_kind() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 1500);
    for mode in MODES {
        for kind in [
            "frame=2048",
            "frame=4096",
            "frame=2048&chunks=unaligned",
            "frame=3000",
            "frame=2500&headroom=100",
            "need_wakeup=off",
            "busy=20us",
            "ring=64&frames=100",
            "tx_budget=32",
        ] {
            exchange(&bench, &format!("?mode={mode}&{kind}"), 1, 2000, 1514);
        }
    }
}

#[test]
fn privileged_jumbo_frames_come_and_go_in_pieces() {
    if !privileged::require() {
        return;
    }
    let bench = Bench::new(1, 9000);
    for mode in MODES {
        for kind in ["frame=4096", "frame=2048", "frame=3000"] {
            exchange(&bench, &format!("?mode={mode}&{kind}"), 1, 1000, 9014);
        }
    }
}
