//! The exact number of packets that the kernel's filter rejects, even if masks and filters change.

use std::sync::atomic::{AtomicBool, Ordering};

use wirelane::filter::Filter;
use wirelane::internal::port::ProgramOptions;
use wirelane::mask::QueueMask;
use wirelane::port;
use wirelane::session::capture::{Capture, CaptureConfig};
use wirelane_os::privilege::{self, Capability, Set};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::selection::host;
use super::*;

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

/// The numbers of packets received and rejected for this class and queue. Checks that all counters
/// add up.
fn counted(ends: &[Rx], class: Class, queue: u16) -> (u64, u64) {
    let of = |rx: &&Rx| (rx.class(), rx.counters().queue().unwrap_or(0)) == (class, queue);
    let stats = ends.iter().find(of).unwrap().counters().snapshot(0);
    let filtered = stats.filtered.unwrap();
    let dropped = stats.dropped.total().unwrap();
    assert_eq!(stats.received, Some(filtered + stats.packets + dropped), "{stats:?}");
    (stats.received.unwrap(), filtered)
}

#[test]
fn privileged_each_queue_counts_its_own() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-rej", 4);
    let host = host(&ns, "wl-rej");
    // Queues with a gap; the masks select some of them.
    let masks = mask(&[0, 2], &[0, 2, 3], true);
    let options = masked(masks).filter(filter("greater 200"));
    let spec = format!("packet:wl-rej@0,2-3{QUICK}");
    let mut port = open(&ns, &spec, &options).unwrap();
    let (mut ends, control) = (port.rx().unwrap(), port.control());
    // These are not counted: the port has not started.
    (0..4).for_each(|queue| tap.write(queue, &packets::raw(0)));
    port.start().unwrap();
    for queue in 0..4_u64 {
        for n in 0..10 + queue {
            tap.write(
                queue as usize,
                &packets::udp4(n).length(if n < 2 { 300 } else { 100 }).build(),
            );
        }
    }
    for n in 0..100 {
        host.send_frame(&packets::udp4(n).flow(n as u16).build()).unwrap();
    }
    finish(&*control, &mut ends);
    // These are not counted either: the port has stopped.
    (0..4).for_each(|queue| tap.write(queue, &packets::raw(0)));
    let by_queue = [0, 2, 3].map(|queue| counted(&ends, Class::Rx, queue));
    assert_eq!(by_queue, [(10, 8), (12, 10), (0, 0)]);
    let mut sent = [0; 4];
    tap.drain().iter().for_each(|(queue, _)| sent[*queue] += 1);
    let rejected = [0, 2, 3].map(|queue| counted(&ends, Class::Tx, queue));
    assert_eq!(rejected, [0, 2, 3].map(|queue| (sent[queue], sent[queue])));
    assert!(sent.iter().sum::<u64>() == 100 && sent[0] < 100, "{sent:?}");
    assert_conserved(&port);
}

#[test]
fn privileged_a_packet_of_no_queue_is_counted_as_such() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let mut port = quick(&ns, "lo", &OpenOptions::default().filter(filter("udp")));
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    let socket = host(&ns, "lo");
    for n in 0..12 {
        let frame = if n < 7 { packets::raw(n) } else { packets::udp4(n).build() };
        socket.send_frame(&frame).unwrap();
    }
    finish_after(&*port.control(), &mut ends, 5);
    assert_eq!(counted(&ends, Class::Other, 0), (12, 7));
    assert_eq!(counted(&ends, Class::Tx, 0), (0, 0));
    assert_eq!(counted(&ends, Class::Rx, 0), (0, 0));
}

/// The filter and the masks of some queues change all the time while packets arrive. Every packet
/// is counted exactly once.
#[test]
fn privileged_changes_lose_no_count() {
    if !privileged::require() {
        return;
    }
    const ROUNDS: u64 = 4000;
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-chg", 4);
    let spec = "packet:wl-chg?ring=8Mi&block=64Ki&retire=2ms";
    let all = mask(&[0, 1, 2, 3], &[], false);
    let mut port = open(&ns, spec, &masked(all.clone())).unwrap();
    let (mut ends, control) = (port.rx().unwrap(), port.control());
    port.start().unwrap();
    let ended = AtomicBool::new(false);
    let got = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ROUNDS {
                (0..4).for_each(|queue| tap.write(queue, &packets::udp4(n).build()));
            }
            ended.store(true, Ordering::Release);
        });
        let mut got = Vec::new();
        for round in 0.. {
            let of_some = [Some(filter("udp")), Some(filter("tcp")), None];
            control.set_filter(of_some[round % 3].as_ref()).unwrap();
            // Queues 0 and 1 are always selected.
            let masks = if round % 2 == 0 { &all } else { &mask(&[0, 1], &[], false) };
            control.set_mask(masks.clone()).unwrap();
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            if ended.load(Ordering::Acquire) {
                break;
            }
        }
        got.extend(finish(&*control, &mut ends));
        got
    });
    for queue in 0..4 {
        let (received, filtered) = counted(&ends, Class::Rx, queue);
        let taken = sequences(&got, Class::Rx, queue).len() as u64;
        assert_eq!(received, taken + filtered, "queue {queue}");
        if queue < 2 {
            assert_eq!(received, ROUNDS, "queue {queue}");
        } else {
            assert!(received <= ROUNDS, "queue {queue}: {received}");
        }
    }
    assert_conserved(&port);
}

/// A packet is counted as seen before the filter program runs, and as accepted after it. In
/// between, it must not count as rejected. The counts are compared every 256 blocks, here once in
/// 512 packets.
#[test]
fn privileged_what_is_on_its_way_is_not_rejected() {
    if !privileged::require() {
        return;
    }
    const PACKETS: u64 = 60_000;
    // Accepts every packet, slowly: it divides by one many times.
    const STEPS: usize = 4000;
    let slow = format!("{},{}6 0 0 262144", STEPS + 1, "52 0 0 1,".repeat(STEPS));
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-slow", 1);
    let mut port = quick(&ns, "wl-slow", &OpenOptions::default().filter(filter(&slow)));
    let (mut ends, control) = (port.rx().unwrap(), port.control());
    port.start().unwrap();
    let ended = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..PACKETS).for_each(|n| tap.write(0, &packets::udp4(n).length(1400).build()));
            ended.store(true, Ordering::Release);
        });
        let (mut batch, mut taken) = (Batch::new(64), 0);
        while !ended.load(Ordering::Acquire) {
            for rx in &mut ends {
                taken += rx.receive(&mut batch) as u64;
                batch.clear();
            }
        }
        taken
    });
    let (live, _) = counted(&ends, Class::Rx, 0);
    assert!(live >= taken, "{live} received, {taken} taken");
    let taken = taken + finish(&*control, &mut ends).len() as u64;
    let end = ends.iter().find(|rx| rx.class() == Class::Rx).unwrap();
    let dropped = end.counters().snapshot(0).dropped.total().unwrap();
    assert_eq!(counted(&ends, Class::Rx, 0), (PACKETS, 0));
    assert_eq!(taken + dropped, PACKETS);
}

/// When the link is up again, the kernel rebuilds the fanout group in the order in which its
/// sockets were created.
#[test]
fn privileged_the_count_goes_on_when_the_link_comes_back() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-flap", 4);
    let masks = mask(&[0, 1, 3], &[], true);
    let mut port = quick(&ns, "wl-flap", &masked(masks).filter(filter("greater 200")));
    let (mut ends, control) = (port.rx().unwrap(), port.control());
    port.start().unwrap();
    let mut got = Vec::new();
    for round in 0..3 {
        for n in 0..20 {
            let length = if n < 4 { 300 } else { 100 };
            tap.write(n as usize % 4, &packets::udp4(round * 20 + n).length(length).build());
        }
        ns.run("ip", ["link", "set", "wl-flap", "down"]);
        ns.run("ip", ["link", "set", "wl-flap", "up"]);
        let before = got.len();
        assert!(eventually(|| {
            ends.iter_mut().for_each(|rx| {
                take(rx, &mut got);
            });
            got.len() == before + 3
        }));
    }
    got.extend(finish(&*control, &mut ends));
    let by_queue = [0, 1, 2, 3].map(|queue| counted(&ends, Class::Rx, queue));
    assert_eq!(by_queue, [(15, 12), (15, 12), (0, 0), (15, 12)]);
    assert_eq!(got.len(), 9);
}

/// Packets that were rejected just before are counted, too.
#[test]
fn privileged_an_interface_that_goes_away_leaves_its_count() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-gone", 1);
    let mut port = quick(&ns, "wl-gone", &OpenOptions::default().filter(filter("greater 200")));
    let mut ends = port.rx().unwrap();
    port.start().unwrap();
    (0..20).for_each(|n| tap.write(0, &packets::udp4(n).build()));
    ns.run("ip", ["link", "del", "wl-gone"]);
    let rx = ends.iter_mut().find(|rx| rx.class() == Class::Rx).unwrap();
    assert!(eventually(|| rx.readiness().is_err()), "the interface is gone");
    assert_eq!(counted(&ends, Class::Rx, 0), (20, 20));
}

#[test]
fn privileged_all_interfaces_count_together() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let pair = VethPair::new(&ns, &ns, 1, 1500);
    let tap = MultiQueueTap::new(&ns, "wl-yt", 2);
    let (socket, local) = (host(&ns, &pair.a.interface), host(&ns, "lo"));
    let run = |options: OpenOptions| {
        let spec = format!("any{QUICK}").parse().unwrap();
        let options =
            options.internal(ProgramOptions::default().every_interface(true)).filter(filter("udp"));
        let port = ns.inside(|| port::open(&spec, &options)).unwrap();
        let capture = Capture::start(vec![port], &CaptureConfig::default()).unwrap();
        (0..9).for_each(|n| tap.write(n as usize % 2, &packets::raw(n)));
        for n in 0..5 {
            // One end sends it and the other receives it.
            socket.send_frame(&packets::raw(n)).unwrap();
        }
        for n in 0..3 {
            local.send_frame(&packets::raw(n)).unwrap();
        }
        tap.write(0, &packets::udp4(0).build());
        let packets = || capture.queues().iter().map(|row| row.packets).sum::<u64>();
        assert!(eventually(|| packets() == 1));
        let outcome = capture.join();
        (outcome.queues, outcome.ports.into_iter().flat_map(|port| port.notes).collect::<Vec<_>>())
    };
    let (rows, notes) = run(OpenOptions::default());
    let (rings, parts) = rows.split_first().unwrap();
    assert_eq!(rings.interface.as_deref(), Some("any"));
    assert_eq!((rings.filtered, rings.received), (Some(9 + 2 * 5 + 3), Some(9 + 2 * 5 + 3)));
    assert!(parts.iter().all(|row| row.filtered.is_none() && row.filtered_here() == Some(0)));
    assert_eq!(parts.iter().map(|row| row.received.unwrap()).sum::<u64>(), 1);
    let cut = "packets over the block size of 4096 bytes are cut";
    assert_eq!(notes, [cut]);

    let received = QueueMask { tx: QueueSet::NONE, ..mask(&[], &[], true) };
    let (rows, _) = run(masked(QueueMask { rx: QueueSet::All, ..received }));
    assert_eq!(rows[0].filtered, Some(9 + 5 + 3), "only what is received");

    // The number of rejected packets of queue 0 depends on the driver.
    let (rows, notes) = run(masked(mask(&[0], &[], true)));
    assert!(rows.iter().all(|row| row.filtered_here().is_none()), "{rows:?}");
    let why =
        "what the filter rejects is not counted: only some queues of all interfaces are selected";
    assert_eq!(notes, [cut, why]);
}

#[test]
fn privileged_what_nobody_counts_is_unknown_with_a_reason() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let _tap = MultiQueueTap::new(&ns, "wl-unk", 1);
    let options = || OpenOptions::default().filter(filter("udp"));
    let run = |spec: &str, options: &OpenOptions, keep: &[Capability]| {
        let spec: Spec = format!("packet:wl-unk{spec}").parse().unwrap();
        ns.inside(|| {
            // Capabilities belong to a thread.
            std::thread::scope(|scope| {
                let opened = scope.spawn(|| {
                    privilege::drop_all(keep.iter().copied().collect::<Set>()).unwrap();
                    let mut port = port::open(&spec, options).unwrap();
                    let mut ends = port.rx().unwrap();
                    port.start().unwrap();
                    let control = port.control();
                    let before = port.diagnostics();
                    control.set_filter(None).unwrap();
                    control.set_filter(Some(&filter("tcp"))).unwrap();
                    finish(&*control, &mut ends);
                    // The note appears once, even if the filter changes several times.
                    let notes = port.diagnostics();
                    assert!(before.is_empty() || before == notes, "{before:?} {notes:?}");
                    let filtered: Vec<_> =
                        ends.iter().map(|rx| rx.counters().snapshot(0).filtered).collect();
                    (filtered, notes)
                });
                opened.join().unwrap()
            })
        })
    };
    use Capability::{Bpf, NetRaw};
    let (filtered, notes) = run(QUICK, &options(), &[NetRaw, Bpf]);
    assert!(filtered.iter().all(Option::is_some) && notes.is_empty(), "{filtered:?} {notes:?}");
    let shared = format!("{QUICK}&share=flow");
    for (spec, options, keep, why) in [
        (QUICK, options(), &[NetRaw][..], "that takes CAP_BPF"),
        (
            QUICK,
            options().wait(true),
            &[NetRaw, Bpf],
            "the port waits for the next interface of its name",
        ),
        (&shared, options(), &[NetRaw, Bpf], "other ports share the interface"),
        (
            QUICK,
            options().internal(ProgramOptions::default().count_rejected(false)),
            &[NetRaw, Bpf],
            "the program does not ask for it",
        ),
        (
            QUICK,
            OpenOptions::default().internal(ProgramOptions::default().packets(100)),
            &[NetRaw, Bpf],
            "a capture of so many packets that begins without a filter saves the time",
        ),
    ] {
        let (filtered, notes) = run(spec, &options, keep);
        assert!(filtered.iter().all(Option::is_none), "{why}: {filtered:?}");
        assert_eq!(notes, [format!("what the filter rejects is not counted: {why}")]);
    }
}
