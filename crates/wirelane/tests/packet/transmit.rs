//! Sent frames leave once, unchanged, and through the promised queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use wirelane::internal::qdisc::Egress;
use wirelane::mask::Class;
use wirelane::port::{self, OpenOptions, Tx};
use wirelane::session::Session;
use wirelane::session::forward::{Forward, ForwardConfig, ForwardOutcome};
use wirelane_os::{affinity, clock};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

/// Sends all frames and waits until the kernel has completed them.
fn send(tx: &mut Tx, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut frames = frames.into_iter().peekable();
    let mut batch = Batch::new(32);
    let patience = Instant::now() + PATIENCE;
    while frames.peek().is_some() || !batch.is_empty() || tx.pending() > 0 {
        let mut empty = Batch::new(32 - batch.len());
        tx.allocate(&mut empty, 32);
        while frames.peek().is_some()
            && let Some(mut frame) = empty.pop()
        {
            assert!(frame.fill(&frames.next().unwrap()));
            batch.push(frame).unwrap();
        }
        tx.transmit(&mut batch);
        tx.flush().unwrap();
        tx.wait(Duration::from_millis(1)).unwrap();
        assert!(Instant::now() < patience, "{} pending", tx.pending());
    }
}

#[test]
fn privileged_both_modes_send_every_frame_once() {
    if !privileged::require() {
        return;
    }
    stay();
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let mut before = 0;
    for mode in ["on", "off"] {
        let spec = format!("packet:{}?bypass={mode}", pair.a.interface);
        let mut port = open(&near, &spec, &transmitting()).unwrap();
        let mut tx = port.tx().unwrap().pop().unwrap();
        assert!(port.tx().is_err() && port.rx().unwrap().is_empty());
        let only_rx = masked(mask(&[0], &[], false));
        let mut receiver = open(&far, &format!("packet:{}", pair.b.interface), &only_rx).unwrap();
        let mut ends = receiver.rx().unwrap();
        receiver.start().unwrap();
        let frame = |n: u64| packets::udp4(n).length(60 + n as usize % 1455).build();
        let mut got = Vec::new();
        for first in (0..10_000).step_by(100) {
            send(&mut tx, (first..first + 100).map(frame));
            // A veth queues up to a thousand packets for its peer (net.core.netdev_max_backlog) and
            // drops the others.
            let patience = Instant::now() + PATIENCE;
            while got.len() < first as usize + 100 && Instant::now() < patience {
                for rx in &mut ends {
                    take(rx, &mut got);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        got.extend(finish(&*receiver.control(), &mut ends));
        assert_eq!(got.len(), 10_000, "bypass={mode}");
        for (n, got) in got.iter().enumerate() {
            assert_eq!(got.bytes, frame(n as u64), "bypass={mode}");
        }
        assert_eq!(tx.counters().packets.value(), 10_000);
        assert_eq!(tx.counters().errors.value(), 0);
        assert_eq!(
            tx.counters().bytes.value(),
            got.iter().map(|got| got.bytes.len() as u64).sum::<u64>()
        );
        let counted = pair.a.statistic("tx_packets");
        assert_eq!(counted - before, 10_000);
        before = counted;
        // A flush updates the counts of the pool.
        tx.flush().unwrap();
        assert_eq!(port.frames().held(), 0);
    }
}

#[test]
fn privileged_frames_of_the_wrong_size_are_errors() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    // One queue: with several, frames are in order only within their queue.
    let tap = MultiQueueTap::new(&ns, "wl-size", 1);
    let mut port = open(&ns, "packet:wl-size@0", &transmitting()).unwrap();
    let mut tx = port.tx().unwrap().pop().unwrap();
    let largest = packets::udp4(1).length(1514).build();
    let too_long = packets::udp4(2).length(1515).build();
    let tagged = packets::udp4(3).vlan(5).length(1518).build();
    let too_short = vec![0; 13];
    send(&mut tx, [largest, too_long, tagged, too_short, packets::raw(4)]);
    let sent: Vec<_> =
        tap.drain().iter().filter_map(|(_, frame)| packets::sequence(frame)).collect();
    assert_eq!(sent, [1, 3, 4]);
    assert_eq!((tx.counters().packets.value(), tx.counters().errors.value()), (3, 2));
    // The MTU shrinks after the port has read it: the kernel refuses long frames, and the others
    // are still sent.
    ns.run("ip", ["link", "set", "wl-size", "mtu", "500"]);
    let mixed =
        (10..30).map(|n| packets::udp4(n).length(if n % 3 == 0 { 900 } else { 300 }).build());
    send(&mut tx, mixed);
    let mut sent: Vec<_> =
        tap.drain().iter().filter_map(|(_, frame)| packets::sequence(frame)).collect();
    sent.sort_unstable();
    assert_eq!(sent, (10..30).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    assert_eq!(tx.counters().errors.value(), 2 + 6);
}

/// On a link that is too slow to send all frames before an end gives up, each frame is counted as
/// sent or as an error.
#[test]
fn privileged_an_end_dropped_on_a_slow_link_counts_every_frame() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    let name = pair.a.interface.as_str();
    slow_down(&near, name, "16kbit");
    let mut port = open(&near, &format!("packet:{name}"), &transmitting()).unwrap();
    let mut tx = port.tx().unwrap().remove(0);
    let mut batch = Batch::new(50);
    assert_eq!(tx.allocate(&mut batch, 50), 50);
    for (number, frame) in (0..).zip(batch.iter_mut()) {
        assert!(frame.fill(&packets::udp4(number).length(1000).build()));
    }
    assert_eq!(tx.transmit(&mut batch), 50);
    let left = tx.drain(Duration::from_millis(1)).unwrap();
    assert!((1..50).contains(&left) && left == tx.pending(), "{left} left");
    let counters = Arc::clone(tx.counters());
    drop(tx);
    let (sent, errors) = (counters.packets.value(), counters.errors.value());
    assert!(sent + errors == 50 && sent > 0 && errors > 0, "{sent} + {errors}");
    // All frames are in the pool: the kernel only has slots of a closed ring.
    assert_eq!(port.frames().held(), 0);
}

/// When a forwarder ends, it counts the packets that the link did not accept, whether they wait
/// before the TX ring or in it.
#[test]
fn privileged_forwarding_to_a_link_that_stands_still_counts_every_packet() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    slow_down(&near, &pair.a.interface, "1kbit");
    for discipline in [None, Some("lockless")] {
        let forward = forward(&near, "sim:1?count=200&size=1000", &pair.a.interface, discipline);
        assert!(forward.wait(PATIENCE), "{discipline:?}");
        let outcome = forward.join();
        let (errors, _) = assert_balanced(&outcome);
        assert!(errors > 0, "{discipline:?}: {outcome:?}");
        let said = outcome.errors.iter().any(|error| error.to_string().contains("were not sent"));
        assert!(said, "{discipline:?}: {:?}", outcome.errors);
    }
}

/// When forwarding is stopped, it waits only two seconds for a slow link, instead of the half
/// minute that the queued packets would take.
#[test]
fn privileged_a_slow_link_does_not_keep_forwarding_from_ending() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    slow_down(&near, &pair.a.interface, "200kbit");
    for discipline in [None, Some("fifo")] {
        let forward = forward(&near, "sim:1?rate=100kpps&size=1000", &pair.a.interface, discipline);
        let begun = Instant::now();
        while forward.queues()[0].packets < 500 {
            assert!(begun.elapsed() < PATIENCE, "{discipline:?}: {:?}", forward.queues());
            thread::sleep(Duration::from_millis(1));
        }
        let asked = Instant::now();
        let outcome = forward.join();
        assert!(asked.elapsed() < Duration::from_secs(15), "{:?}: {outcome:?}", asked.elapsed());
        let (errors, purged) = assert_balanced(&outcome);
        assert!(errors + purged > 0, "{discipline:?}: {outcome:?}");
    }
}

/// An urgent packet leaves before earlier packets if these wait in lower bands of the discipline;
/// it cannot overtake packets in the TX ring.
#[test]
fn privileged_control_passes_bulk_on_a_slow_link() {
    if !privileged::require() {
        return;
    }
    const BULK: u64 = 100;
    stay();
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    slow_down(&near, &pair.a.interface, "8mbit");
    let places = ["fifo,bql=on", "pfifo_fast", "pfifo_fast,bql=on"].map(|spec| {
        let mut port =
            open(&near, &format!("packet:{}", pair.a.interface), &transmitting()).unwrap();
        let mut receiver = quick(&far, &pair.b.interface, &OpenOptions::default());
        let mut ends = receiver.rx().unwrap();
        receiver.start().unwrap();
        let egress = Egress::new(&spec.parse().unwrap(), port.tx().unwrap().remove(0));
        let mut handle = egress.handle();
        let mut offer = |bytes: &[u8]| {
            let mut batch = Batch::new(1);
            assert_eq!(handle.allocate(&mut batch, 1), 1);
            assert!(batch.last_mut().unwrap().fill(bytes));
            assert_eq!(handle.send(&mut batch, clock::monotonic_ns()).accepted, 1);
        };
        (0..BULK).for_each(|n| offer(&packets::udp4(n).length(1000).build()));
        let mut control = packets::udp4(BULK).build();
        // DSCP CS6: network control.
        control[15] = 48 << 2;
        offer(&control);
        let patience = Instant::now() + PATIENCE;
        while handle.flush(clock::monotonic_ns()).unwrap() + handle.pending() > 0 {
            assert!(Instant::now() < patience, "{spec}: {:?}", egress.stats());
            thread::sleep(Duration::from_millis(1));
        }
        let got = finish_after(&*receiver.control(), &mut ends, BULK as usize + 1);
        let numbers: Vec<_> = got.iter().filter_map(|got| got.sequence).collect();
        assert_eq!(numbers.len() as u64, BULK + 1, "{spec}");
        let bulk = numbers.iter().filter(|number| **number != BULK);
        assert!(bulk.is_sorted(), "{spec}: {numbers:?}");
        numbers.iter().position(|number| *number == BULK).unwrap() as u64
    });
    // The ring accepts all packets at once, unless BQL limits its bytes.
    assert_eq!(places[..2], [BULK, BULK]);
    assert!(places[2] < BULK / 2, "{places:?}");
}

/// Forwards from a simulated interface to one of the namespace.
fn forward(
    ns: &Namespace,
    source: &str,
    interface: &str,
    discipline: Option<&str>,
) -> Session<Forward> {
    let open = |spec: &str, options| {
        let spec = spec.parse().unwrap();
        ns.inside(|| port::open(&spec, &options)).unwrap()
    };
    let source = open(source, OpenOptions::default());
    let sink = open(&format!("packet:{interface}"), transmitting());
    let qdisc = discipline.map(|discipline| discipline.parse().unwrap());
    let config = ForwardConfig::default().one_way(true).qdisc(qdisc);
    Forward::start(vec![source, sink], &config).unwrap()
}

/// Checks that packets were delivered, and that each was sent, counted as an error, or purged from
/// a discipline. Returns the numbers of errors and purged packets.
#[track_caller]
fn assert_balanced(outcome: &ForwardOutcome) -> (u64, u64) {
    let delivered: u64 = outcome.queues.iter().map(|queue| queue.packets).sum();
    let (sent, errors) = (outcome.tx[0].packets, outcome.tx[0].errors);
    let purged: u64 = outcome.qdiscs.iter().map(|(.., stats)| stats.dropped.purged).sum();
    assert!(delivered > 0 && sent + errors + purged == delivered, "{outcome:?}");
    (errors, purged)
}

/// Limits the rate at which an interface sends.
fn slow_down(ns: &Namespace, interface: &str, rate: &str) {
    let shape = ["root", "tbf", "rate", rate, "burst", "4000", "limit", "1000000"];
    ns.run("tc", ["qdisc", "add", "dev", interface].into_iter().chain(shape));
}

/// With `bypass=on` the CPU selects the queue, and `tx_queue_cpu` returns the CPU of a queue.
#[test]
fn privileged_a_pinned_thread_sends_through_its_queue() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 2, 1500);
    let spec = format!("packet:{}?bypass=on", pair.a.interface);
    let mut port = open(&near, &spec, &transmitting()).unwrap();
    let mut receiver = quick(&far, &pair.b.interface, &OpenOptions::default());
    let mut ends = receiver.rx().unwrap();
    receiver.start().unwrap();
    let senders: Vec<_> =
        port.tx().unwrap().into_iter().map(|tx| (port.tx_queue_cpu(tx.queue()), tx)).collect();
    let mut expected = BTreeMap::new();
    for (cpu, mut tx) in senders {
        let queue = tx.queue();
        let Some(cpu) = cpu else {
            assert!(port.info().notes.iter().any(|note| note.contains(&format!("queue {queue}"))));
            continue;
        };
        let base = u64::from(queue) * 1000;
        let numbers = base..base + 300;
        expected.insert(queue, numbers.clone().collect::<Vec<_>>());
        let sender = std::thread::spawn(move || {
            affinity::pin(cpu).unwrap();
            // Many flows, so that a hash of the flow would use several queues.
            let frame = |n: u64| packets::udp4(n).flow(n as u16).build();
            send(&mut tx, numbers.map(frame));
        });
        sender.join().unwrap();
    }
    let count = expected.values().map(Vec::len).sum();
    let got = finish_after(&*receiver.control(), &mut ends, count);
    assert!(!expected.is_empty());
    for (queue, numbers) in expected {
        assert_eq!(sequences(&got, Class::Rx, queue), numbers, "queue {queue}");
    }
}
