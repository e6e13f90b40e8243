//! The contents of received packets, the counters, and the end of a capture.

use wirelane::ErrorKind;
use wirelane::mask::Class;
use wirelane::port::OpenOptions;
use wirelane_os::iface;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{packets, privileged};

use super::*;

#[test]
fn privileged_captured_and_dropped_are_what_was_sent() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 5000;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-drop", 2);
    let options = masked(mask(&[0, 1], &[], false));
    let mut port = open(&ns, "packet:wl-drop?ring=64Ki&block=16Ki&retire=2ms", &options).unwrap();
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let mut got = Vec::new();
    for sequence in 0..SENT {
        tap.write(0, &packets::raw(sequence));
        if sequence % 10 == 0 {
            tap.write(1, &packets::raw(sequence));
        }
        if sequence % 1500 == 0 {
            for rx in &mut ends {
                take(rx, &mut got);
            }
        }
    }
    got.extend(finish(&*port.control(), &mut ends));
    for (queue, sent) in [(0, SENT), (1, SENT / 10)] {
        let stats = ends[queue].counters().snapshot(0);
        let dropped = stats.dropped.kernel.unwrap();
        assert!(queue == 1 || dropped > 0, "the ring was too large for this test");
        assert_eq!(stats.packets + dropped, sent, "queue {queue}");
        assert_eq!(stats.packets, sequences(&got, Class::Rx, queue as u16).len() as u64);
        let order = sequences(&got, Class::Rx, queue as u16);
        assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert_conserved(&port);
}

#[test]
fn privileged_packets_are_whole_with_their_tags_and_times() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-vlan", 2);
    let mut sent = vec![
        packets::raw(0),
        packets::udp4(1).vlan(100).build(),
        packets::udp6(2).vlan(4095).length(1514).build(),
        packets::tcp4(3).length(1514).build(),
    ];
    // A service tag (802.1ad) in front of another tag.
    let mut stacked = packets::udp4(4).vlan(7).build();
    stacked.splice(12..12, [0x88, 0xa8, 0x60, 0x05]);
    sent.push(stacked);
    for snaplen in [OpenOptions::MAX_SNAPLEN, 40, 16, 14, 5] {
        let options = masked(mask(&[1], &[], false)).snaplen(snaplen);
        let mut port = quick(&ns, "wl-vlan", &options);
        let mut ends = port.rx().unwrap();
        port.start().unwrap();
        let before = wirelane_os::clock::realtime_ns();
        sent.iter().for_each(|frame| tap.write(1, frame));
        let after = wirelane_os::clock::realtime_ns();
        let got = finish(&*port.control(), &mut ends);
        assert_eq!(got.len(), sent.len());
        let mut last = before;
        for (got, sent) in got.iter().zip(&sent) {
            let kept = sent.len().min(snaplen as usize);
            assert_eq!(got.bytes, &sent[..kept], "snap length {snaplen}");
            assert_eq!(got.original_len as usize, sent.len());
            assert!((last..=after).contains(&got.timestamp));
            last = got.timestamp;
        }
    }
}

/// Held frames are neither overwritten nor freed; the kernel drops packets instead.
#[test]
fn privileged_frames_outlive_the_port_and_keep_their_block() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-keep", 2);
    let options = masked(mask(&[0], &[], false));
    let mut port = open(&ns, "packet:wl-keep?ring=64Ki&block=16Ki&retire=5ms", &options).unwrap();
    let mut rx = port.rx().unwrap().into_iter().next().unwrap();
    port.start().unwrap();
    let mut kept = Batch::new(4);
    // The timer may expire between the packets, which are then in several blocks.
    let is_one_block = eventually(|| {
        kept.clear();
        (0..4).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
        eventually(|| {
            rx.receive(&mut kept);
            kept.len() == 4
        }) && port.frames().held() == 1
    });
    assert!(is_one_block, "{:?}", port.frames());
    assert!(matches!(rx.readiness().unwrap(), Readiness::After(_)), "poll would return at once");
    // The ring wraps several times while the block is held.
    let mut got = Vec::new();
    for sequence in 4..2000 {
        tap.write(0, &packets::raw(sequence));
        take(&mut rx, &mut got);
    }
    let numbers: Vec<_> = kept.iter().map(|frame| packets::sequence(frame.data())).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2), Some(3)]);
    // Writing around a packet in its slot does not change its neighbours.
    for frame in kept.iter_mut() {
        let headroom = frame.headroom();
        assert!(frame.prepend(headroom));
        let capacity = frame.capacity();
        assert!(frame.set_len(capacity));
        frame.data_mut()[..headroom].fill(0xee);
        frame.data_mut()[headroom + 60..].fill(0xee);
        assert!(frame.strip(headroom) && frame.set_len(60));
    }
    got.extend(finish(&*port.control(), std::slice::from_mut(&mut rx)));
    let lost = rx.counters().kernel.value();
    assert_eq!(got.len() as u64 + lost, 1996);
    drop((rx, port));
    drop(tap);
    let reader = std::thread::spawn(move || {
        kept.iter().map(|frame| packets::sequence(frame.data())).collect::<Vec<_>>()
    });
    assert_eq!(reader.join().unwrap(), [Some(0), Some(1), Some(2), Some(3)]);
}

/// A consumer that holds frames of every block of a ring stops only this ring.
#[test]
fn privileged_a_ring_that_is_held_as_a_whole_goes_on_later() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-full", 2);
    let options = masked(mask(&[0], &[], false));
    let mut port = open(&ns, "packet:wl-full?ring=64Ki&block=16Ki&retire=1ms", &options).unwrap();
    let mut rx = port.rx().unwrap().into_iter().next().unwrap();
    port.start().unwrap();
    (0..2000).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
    let mut held = Batch::new(4000);
    let patience = Instant::now() + PATIENCE;
    while port.frames().held() < 4 {
        rx.receive(&mut held);
        assert!(Instant::now() < patience);
    }
    let before = held.len();
    (2000..2100).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(rx.receive(&mut held), 0);
    assert!(matches!(rx.readiness().unwrap(), Readiness::After(_)));
    let counts = port.frames();
    assert_eq!((counts.held(), counts.fill), (4, counts.pool - 4), "the other rings are empty");
    held.clear();
    assert_eq!((port.frames().held(), port.frames().fill), (0, counts.pool));
    (2100..2110).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
    let got = finish(&*port.control(), std::slice::from_mut(&mut rx));
    assert_eq!(sequences(&got, Class::Rx, 0), (2100..2110).collect::<Vec<_>>());
    assert_eq!((before + got.len()) as u64 + rx.counters().kernel.value(), 2110);
    assert_conserved(&port);
}

#[test]
fn privileged_a_receiver_dropped_in_the_middle_of_a_block_gives_it_back() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-mid", 2);
    let mut port = quick(&ns, "wl-mid", &masked(mask(&[0], &[], false)));
    let mut rx = port.rx().unwrap().into_iter().next().unwrap();
    port.start().unwrap();
    (0..20).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
    let mut batch = Batch::new(3);
    let patience = Instant::now() + PATIENCE;
    while batch.len() < 3 {
        rx.receive(&mut batch);
        assert!(Instant::now() < patience);
    }
    drop(rx);
    // They may be in one block, or in several if the timer expired in between.
    let held = port.frames().held();
    assert!((1..=3).contains(&held), "three frames are out, in {held} blocks");
    drop(batch);
    assert_eq!(port.frames().held(), 0);
}

#[test]
fn privileged_the_watermark_follows_time() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-mark", 2);
    let mut port = quick(&ns, "wl-mark", &OpenOptions::default());
    let mut rx = port.rx().unwrap().into_iter().next().unwrap();
    port.start().unwrap();
    let lateness = port.info().lateness;
    let mut got = Vec::new();
    for sequence in 0..200 {
        let before = rx.watermark();
        tap.write(0, &packets::raw(sequence));
        take(&mut rx, &mut got);
        let _ = rx.readiness().unwrap();
        assert!(rx.watermark() >= before);
        let marks = rx.watermark();
        let seen = got.len();
        std::thread::sleep(Duration::from_micros(300));
        take(&mut rx, &mut got);
        assert!(got[seen..].iter().all(|got| got.timestamp >= marks));
    }
    // Afterwards no packet in the ring holds the watermark back.
    assert!(eventually(|| {
        take(&mut rx, &mut got);
        got.len() == 200
    }));
    let now = wirelane_os::clock::realtime_ns();
    let _ = rx.readiness().unwrap();
    assert!(rx.watermark() >= now - lateness && rx.watermark() <= now + lateness);
}

#[test]
fn privileged_an_interface_that_is_removed_ends_every_queue_with_an_error() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-gone", 2);
    let mut port = quick(&ns, "wl-gone", &OpenOptions::default());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    (0..10).for_each(|sequence| tap.write(0, &packets::raw(sequence)));
    drop(tap);
    for rx in &mut ends {
        let mut got = Vec::new();
        let patience = Instant::now() + PATIENCE;
        let error = loop {
            take(rx, &mut got);
            match rx.readiness() {
                Ok(Readiness::End) => panic!("an end like any other"),
                Ok(_) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => break error,
            }
            assert!(Instant::now() < patience, "no error");
        };
        assert!(error.to_string().contains("the interface was removed"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Failed);
        let expected = if (rx.class(), rx.queue()) == (Class::Rx, Some(0)) { 10 } else { 0 };
        assert_eq!(sequences(&got, Class::Rx, 0), (0..expected).collect::<Vec<_>>());
        assert!(matches!(rx.readiness().unwrap(), Readiness::End));
    }
    port.control().stop();
    assert_eq!(port.diagnostics(), Vec::<String>::new());
}

/// When the link is up again, the kernel registers the sockets again, and each receives the packets
/// of its queue: in a fanout group they get new numbers.
#[test]
fn privileged_a_link_that_goes_down_ends_nothing() {
    if !privileged::require() {
        return;
    }
    const QUEUES: u16 = 4;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flap", QUEUES.into());
    let mut port = quick(&ns, "wl-flap", &OpenOptions::default());
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let mut got = Vec::new();
    for round in 0..3 {
        for sequence in 10 * round..10 * (round + 1) {
            (0..QUEUES).for_each(|queue| tap.write(queue.into(), &packets::raw(sequence)));
        }
        // When a link is set down, the kernel drops packets that it has not delivered to sockets.
        let all: Vec<_> = (0..10 * (round + 1)).collect();
        assert!(eventually(|| {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            (0..QUEUES).all(|queue| sequences(&got, Class::Rx, queue) == all)
        }));
        ns.inside(|| iface::down("wl-flap").unwrap());
        // Ends check their link every 10 ms.
        for _ in 0..30 {
            for rx in &mut ends {
                assert!(!matches!(rx.readiness().unwrap(), Readiness::End));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        ns.inside(|| iface::up("wl-flap").unwrap());
    }
    port.control().stop();
    for rx in &mut ends {
        assert!(eventually(|| matches!(rx.readiness().unwrap(), Readiness::End)));
    }
    let notes = port.diagnostics();
    assert!(notes.iter().any(|note| note.contains("wl-flap went down")), "{notes:?}");
}

#[test]
fn privileged_promiscuous_mode_is_undone() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-prom", 2);
    let promiscuity = || {
        let text = ns.run("ip", ["-d", "link", "show", "wl-prom"]);
        let number = text.split("promiscuity ").nth(1).unwrap().split(' ').next().unwrap();
        number.parse::<u32>().unwrap()
    };
    assert_eq!(promiscuity(), 0);
    let options = OpenOptions::default().promiscuous(true);
    let port = quick(&ns, "wl-prom", &options);
    assert_eq!(promiscuity(), 1);
    drop(port);
    // This may take a moment: while a test in another thread starts a program, the child holds
    // copies of all descriptors.
    assert!(eventually(|| promiscuity() == 0));
    let port = quick(&ns, "wl-prom", &OpenOptions::default());
    assert_eq!(promiscuity(), 0);
    drop(port);
}

#[test]
fn privileged_what_cannot_be_opened_says_why() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-err", 4);
    let refused = |spec: &str, options: &OpenOptions| {
        let error = open(&ns, spec, options).map(|_| ()).unwrap_err();
        (error.kind(), error.to_string())
    };
    let all = OpenOptions::default();
    for (spec, options, kind, part) in [
        ("packet:wl-none", &all, ErrorKind::Failed, "there is no such interface"),
        ("packet:wl-err@4", &all, ErrorKind::Usage, "has 4 RX queues"),
        ("packet:wl-err?rign=1M", &all, ErrorKind::Usage, "'rign' is not an option"),
        ("packet:wl-err?block=4M&ring=4M", &all, ErrorKind::Usage, "a quarter of the ring"),
        (
            "packet:wl-err",
            &masked(mask(&[1, 7], &[], false)),
            ErrorKind::Usage,
            "there is no RX queue 7: wl-err has 4 RX queues; they are numbered 0 to 3",
        ),
        (
            "packet:wl-err@0",
            &masked(mask(&[1], &[], false)),
            ErrorKind::Usage,
            "was not opened for",
        ),
    ] {
        let (found, message) = refused(spec, options);
        assert!(found == kind && message.contains(part), "{spec}: {message}");
    }
    let port = quick(&ns, "wl-err", &all);
    let before = port.control().mask();
    let error = port.control().set_mask(mask(&[], &[9], false)).unwrap_err();
    assert!(error.to_string().contains("there is no TX queue 9"), "{error}");
    assert_eq!(port.control().mask(), before);
    ns.inside(|| iface::down(tap.name()).unwrap());
    let (_, message) = refused("packet:wl-err", &all);
    assert!(message.contains("is down") && message.contains("ip link set wl-err up"), "{message}");
}

#[test]
fn privileged_without_the_capability_the_message_names_it() {
    if !privileged::require() {
        return;
    }
    // Capabilities belong to threads: only this thread drops them.
    let thread = std::thread::spawn(|| {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
        PacketPort::open(&"packet:lo".parse().unwrap(), &OpenOptions::default()).map(|_| ())
    });
    let error = thread.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
}
