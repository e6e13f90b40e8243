//! Selection of packets by queues, classes and masks.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wirelane::internal::port::ProgramOptions;
use wirelane::mask::{Class, QueueMask};
use wirelane::port::OpenOptions;
use wirelane_os::iface;
use wirelane_os::packet::PacketSocket;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

/// A socket of the host that sends through `interface`; the kernel selects the queue.
pub(super) fn host(ns: &Namespace, interface: &str) -> PacketSocket {
    ns.inside(|| {
        let socket = PacketSocket::open().unwrap();
        socket.bind(iface::index(interface).unwrap(), 0).unwrap();
        socket
    })
}

#[test]
fn privileged_every_subset_of_four_rx_queues() {
    if !privileged::require() {
        return;
    }
    const ROUNDS: u64 = 40;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-sub", 4);
    for subset in 0..16usize {
        let queues: Vec<usize> = (0..4).filter(|queue| subset >> queue & 1 == 1).collect();
        let mut port = quick(&ns, "wl-sub", &masked(mask(&queues, &[], false)));
        assert_eq!(port.info().queues, [0, 1, 2, 3]);
        let mut ends = port.rx().unwrap();
        assert_eq!(ends.len(), 4 + 4 + 1);
        // The port is not started yet: these are not received.
        (0..4).for_each(|queue| tap.write(queue, &packets::raw(9999)));
        port.start().unwrap();
        for sequence in 0..ROUNDS * 4 {
            tap.write((sequence % 4) as usize, &packets::raw(sequence));
        }
        let got = finish(&*port.control(), &mut ends);
        // These are not received either.
        (0..4).for_each(|queue| tap.write(queue, &packets::raw(8888)));
        for queue in 0..4u16 {
            let expected: Vec<u64> = if queues.contains(&usize::from(queue)) {
                (0..ROUNDS).map(|round| round * 4 + u64::from(queue)).collect()
            } else {
                Vec::new()
            };
            assert_eq!(sequences(&got, Class::Rx, queue), expected, "{queues:?} {queue}");
        }
        assert_eq!(got.len(), queues.len() * ROUNDS as usize);
        for rx in &ends {
            let stats = rx.counters().snapshot(0);
            assert_eq!(stats.dropped.total(), Some(0));
            assert_eq!(stats.received, Some(stats.packets));
        }
        assert_conserved(&port);
    }
}

#[test]
fn privileged_every_subset_of_four_tx_queues() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-tx", 4);
    let host = host(&ns, "wl-tx");
    for subset in 0..16usize {
        let queues: Vec<usize> = (0..4).filter(|queue| subset >> queue & 1 == 1).collect();
        let mut port = quick(&ns, "wl-tx", &masked(mask(&[], &queues, false)));
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        for sequence in 0..200 {
            let frame = packets::udp4(sequence).flow(sequence as u16).build();
            assert_eq!(host.send_frame(&frame).unwrap(), frame.len());
        }
        let got = finish(&*port.control(), &mut ends);
        let sent = tap.drain();
        assert_eq!(sent.len(), 200);
        let used: BTreeSet<_> = sent.iter().map(|(queue, _)| *queue).collect();
        assert!(used.len() > 1, "the kernel spreads flows: {used:?}");
        for queue in 0..4 {
            let left: Vec<u64> = sent
                .iter()
                .filter(|(from, _)| *from == queue && queues.contains(&queue))
                .filter_map(|(_, frame)| packets::sequence(frame))
                .collect();
            assert_eq!(sequences(&got, Class::Tx, queue as u16), left, "{queues:?} {queue}");
        }
        assert!(got.iter().all(|got| got.class == Class::Tx));
        assert_conserved(&port);
    }
}

/// Loopback records no RX queue: received packets are of class OTHER, and sent packets of TX queue
/// 0. A mask that selects both receives each packet once.
#[test]
fn privileged_other_apart_from_tx() {
    if !privileged::require() {
        return;
    }
    stay();
    let ns = Namespace::new();
    let host = host(&ns, "lo");
    for (tx, other) in [(false, false), (true, false), (false, true), (true, true)] {
        let queues: &[usize] = if tx { &[0] } else { &[] };
        let mut port = quick(&ns, "lo", &masked(mask(&[0], queues, other)));
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        for n in 0..50 {
            host.send_frame(&packets::raw(n)).unwrap();
        }
        let sent = tx && !other;
        let count = 50 * (usize::from(sent) + usize::from(other));
        let got = finish_after(&*port.control(), &mut ends, count);
        let all: Vec<u64> = (0..50).collect();
        let expected = |on: bool| if on { all.clone() } else { Vec::new() };
        assert_eq!(sequences(&got, Class::Tx, 0), expected(sent));
        assert_eq!(sequences(&got, Class::Other, 0), expected(other));
        assert!(sequences(&got, Class::Rx, 0).is_empty());
        assert_conserved(&port);
    }
}

#[test]
fn privileged_changing_masks_loses_and_duplicates_nothing() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-chg", 4);
    let options = masked(mask(&[0], &[], false));
    let mut port = open(&ns, "packet:wl-chg?ring=4Mi&block=4Ki&retire=2ms", &options).unwrap();
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let control = port.control();
    let stop = AtomicBool::new(false);
    // The number of packets written to each queue, and of packets received from queue 0.
    let (written, come) = (AtomicU64::new(0), AtomicU64::new(0));
    let (sent, mut got) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut sequence = 0;
            while !stop.load(Ordering::Relaxed) {
                // Stay close enough to the receiver that it loses nothing when it gets no CPU.
                if sequence > come.load(Ordering::Relaxed) + 500 {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                for queue in 0..4 {
                    tap.write(queue, &packets::raw(sequence));
                }
                sequence += 1;
                written.store(sequence, Ordering::Relaxed);
            }
            sequence
        });
        let mut got = Vec::new();
        for round in 0..400usize {
            let others: Vec<usize> = (1..4).filter(|queue| round >> (queue - 1) & 1 == 1).collect();
            let mask = mask(&[&[0], &others[..]].concat(), &[], round % 2 == 0);
            control.set_mask(mask.clone()).unwrap();
            assert_eq!(control.mask(), mask);
            // Wait until every queue has received a packet under this mask.
            let enough = written.load(Ordering::Relaxed) + 2;
            assert!(eventually(|| {
                let mut of_others = Vec::new();
                let came = take(&mut ends[0], &mut got);
                ends[1..].iter_mut().for_each(|rx| {
                    take(rx, &mut of_others);
                });
                got.append(&mut of_others);
                come.fetch_add(came as u64, Ordering::Relaxed);
                written.load(Ordering::Relaxed) >= enough
            }));
        }
        stop.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), got)
    });
    got.extend(finish(&*control, &mut ends));
    let lost: u64 = ends.iter().map(|rx| rx.counters().kernel.value()).sum();
    assert_eq!(lost, 0, "the rings were too small for this test");
    assert_eq!(sequences(&got, Class::Rx, 0), (0..sent).collect::<Vec<_>>());
    for queue in 1..4 {
        let some = sequences(&got, Class::Rx, queue);
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]), "queue {queue} repeats");
        assert!(!some.is_empty() && some.len() < sent as usize, "queue {queue}: {}", some.len());
    }
    assert_conserved(&port);
}

#[test]
fn privileged_a_disabled_mask_passes_everything() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-dis", 2);
    let host = host(&ns, "wl-dis");
    let mut port = quick(&ns, "wl-dis", &masked(QueueMask::NONE));
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let control = port.control();
    let send = |base: u64| {
        tap.write(0, &packets::raw(base));
        tap.write(1, &packets::raw(base + 1));
        host.send_frame(&packets::raw(base + 2)).unwrap();
    };
    send(0);
    control.set_mask(QueueMask { enabled: false, ..QueueMask::NONE }).unwrap();
    assert!(port.bindings().unwrap().iter().all(|binding| binding.selected));
    send(10);
    control.set_mask(QueueMask::NONE).unwrap();
    send(20);
    let got = finish(&*control, &mut ends);
    assert_eq!(sequences(&got, Class::Rx, 0), [10]);
    assert_eq!(sequences(&got, Class::Rx, 1), [11]);
    assert_eq!(got.iter().filter(|got| got.class == Class::Tx).count(), 1);
    assert_eq!(got.len(), 3);
}

/// Packets that leave one end through TX queue q arrive at the other end on RX queue q.
#[test]
fn privileged_both_ends_of_veth_agree_on_queues() {
    if !privileged::require() {
        return;
    }
    stay();
    for queues in [1, 2, 4] {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, queues, 1500);
        let host = host(&near, &pair.a.interface);
        let all = OpenOptions::default();
        let mut ports =
            [quick(&near, &pair.a.interface, &all), quick(&far, &pair.b.interface, &all)];
        let mut ends = ports.each_mut().map(|port| port.rx().unwrap());
        ports.iter_mut().for_each(|port| port.start().unwrap());
        let is_noted = ports[0].info().notes.iter().any(|note| note.contains("veth"));
        assert_eq!(is_noted, queues > 1);
        for sequence in 0..200 {
            let frame = packets::udp4(sequence).flow(sequence as u16).build();
            host.send_frame(&frame).unwrap();
        }
        let [at_near, at_far] =
            [0, 1].map(|side| finish_after(&*ports[side].control(), &mut ends[side], 200));
        assert_eq!((at_near.len(), at_far.len()), (200, 200));
        for queue in 0..queues as u16 {
            let left = sequences(&at_near, Class::Tx, queue);
            assert!(!left.is_empty(), "flows reach queue {queue} of {queues}");
            assert_eq!(sequences(&at_far, Class::Rx, queue), left, "queue {queue} of {queues}");
        }
        ports.iter().for_each(assert_conserved);
    }
}

#[test]
fn privileged_only_the_queues_of_the_spec() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-at", 4);
    let spec = format!("packet:wl-at@1,3{QUICK}");
    let mut port = open(&ns, &spec, &OpenOptions::default()).unwrap();
    assert_eq!(port.info().queues, [1, 3]);
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    (0..4).for_each(|queue| tap.write(queue as usize, &packets::raw(queue)));
    let got = finish(&*port.control(), &mut ends);
    let arrived: Vec<_> = got.iter().map(|got| (got.class, got.queue, got.sequence)).collect();
    assert_eq!(arrived, [(Class::Rx, 1, Some(1)), (Class::Rx, 3, Some(3))]);
    let error = port.control().set_mask(mask(&[0], &[], false)).unwrap_err();
    assert!(error.to_string().contains("was not opened for"), "{error}");
    let bound: Vec<_> = port.bindings().unwrap().iter().map(|b| (b.class, b.queue)).collect();
    let expected =
        [(Class::Rx, 1), (Class::Rx, 3), (Class::Tx, 1), (Class::Tx, 3), (Class::Other, 0)];
    assert_eq!(bound, expected);
}

/// A bridge has one queue, but its packets carry the queue numbers of the device below.
#[test]
fn privileged_a_stacked_device_hides_no_packet() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-low", 4);
    ns.run("ip", ["link", "add", "wl-up", "type", "bridge"]);
    ns.run("ip", ["link", "set", "wl-low", "master", "wl-up"]);
    ns.run("ip", ["link", "set", "wl-up", "up"]);
    let mut port = quick(&ns, "wl-up", &OpenOptions::default());
    assert_eq!(port.info().queues, [0]);
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    for sequence in 0..40 {
        tap.write((sequence % 4) as usize, &packets::raw(sequence));
    }
    let got = finish(&*port.control(), &mut ends);
    let of = |part: fn(&u64) -> bool| (0..40).filter(part).collect::<Vec<_>>();
    assert_eq!(sequences(&got, Class::Rx, 0), of(|n| n % 4 == 0));
    assert_eq!(sequences(&got, Class::Other, 0), of(|n| n % 4 != 0));
    assert_conserved(&port);
}

#[test]
fn privileged_queues_that_change_are_reported() {
    if !privileged::require() {
        return;
    }
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 4, 1500);
    pair.a.ethtool(&["-L", &pair.a.interface, "rx", "2", "tx", "2"]);
    let mut port = quick(&near, &pair.a.interface, &OpenOptions::default());
    assert_eq!(port.info().queues, [0, 1]);
    port.start().unwrap();
    pair.a.ethtool(&["-L", &pair.a.interface, "rx", "3", "tx", "4"]);
    near.inside(|| port.control().stop());
    let notes = port.diagnostics();
    assert!(notes.iter().any(|note| note.contains("from 2 RX and 2 TX to 3 and 4")), "{notes:?}");
}

#[test]
fn privileged_a_port_without_outgoing_packets_receives_and_selects_none() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-inw", 2);
    let options =
        masked(mask(&[0, 1], &[], true)).internal(ProgramOptions::default().outgoing(false));
    let mut port = quick(&ns, "wl-inw", &options);
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let host = host(&ns, "wl-inw");
    for sequence in 0..20 {
        host.send_frame(&packets::raw(1000 + sequence)).unwrap();
        tap.write((sequence % 2) as usize, &packets::raw(sequence));
    }
    let control = port.control();
    let error = control.set_mask(mask(&[0], &[1], false)).unwrap_err();
    assert_eq!(error.kind(), wirelane::ErrorKind::Usage, "{error}");
    let got = finish(&*control, &mut ends);
    assert_eq!(got.len(), 20, "{got:?}");
    for queue in 0..2 {
        let expected: Vec<u64> = (0..10).map(|round| 2 * round + u64::from(queue)).collect();
        assert_eq!(sequences(&got, Class::Rx, queue), expected);
    }
    assert_conserved(&port);
}
