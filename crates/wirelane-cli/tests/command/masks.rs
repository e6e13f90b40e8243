//! Queue masks: only selected packets are captured, and a change of masks disturbs no other packet.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tempfile::{TempDir, tempdir};
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::tshark::{capinfos, tshark_fields};
use wirelane_testkit::{packets as frames, privileged, tools};

use super::*;

const TAP: &str = "wl-tap";
/// The host behind the TAP device: everything sent to it leaves through the device.
const NEIGHBOUR: &str = "192.0.2.2";

/// A namespace with a TAP device of four queues and an address, whose neighbour is known.
fn world() -> (Namespace, MultiQueueTap) {
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, TAP, 4);
    ns.run("ip", ["address", "add", "192.0.2.1/24", "dev", TAP]);
    let mac = "02:57:4c:00:00:02";
    let neighbour = ["neigh", "replace", NEIGHBOUR, "lladdr", mac, "dev", TAP, "nud", "permanent"];
    ns.run("ip", neighbour);
    (ns, tap)
}

/// Sends `count` numbered datagrams of as many flows.
fn send(ns: &Namespace, to: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let socket = ns.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        let payload = [b"WLSQ", &number.to_be_bytes()[..]].concat();
        socket.send_to(&payload, (to, 9)).unwrap();
    }
}

/// The numbers in the packets of a class and queue, in the order of the file.
fn numbers(packets: &[Packet], class: Class, queue: Option<u32>) -> Vec<u64> {
    let is_of = |packet: &&Packet| (packet.class, packet.queue) == (Some(class), queue);
    let number = |packet: &Packet| frames::sequence(&packet.data).expect("a numbered packet");
    packets.iter().filter(is_of).map(number).collect()
}

/// The queues whose bits are set in `subset`, as a list for the command.
fn list(subset: usize) -> String {
    let members: Vec<_> =
        (0..4).filter(|queue| subset >> queue & 1 == 1).map(|queue| queue.to_string()).collect();
    if members.is_empty() { "none".into() } else { members.join(",") }
}

fn path(directory: &TempDir, name: impl std::fmt::Display) -> String {
    directory.path().join(format!("{name}.pcapng")).to_str().unwrap().to_owned()
}

/// Sixteen simultaneous captures of one device: each subset of its RX queues with another subset of
/// its TX queues.
#[test]
fn privileged_every_subset_of_queues() {
    if !privileged::require() {
        return;
    }
    const ROUNDS: u64 = 60;
    let (ns, tap) = world();
    let directory = tempdir().unwrap();
    // 7 and 16 have no common factor: every subset once, on either side.
    let tx_subset = |subset: usize| (subset * 7 + 3) % 16;
    let port = format!("packet:{TAP}{QUICK}");
    let mut captures: Vec<_> = (0..16)
        .map(|subset| {
            let (rx, tx) = (list(subset), list(tx_subset(subset)));
            let masks = ["--rx-queues", &rx, "--tx-queues", &tx, "--other", "off"];
            let path = path(&directory, subset);
            Running::spawn(Some(&ns), &[&[&port, "-w", &path], &masks[..]].concat())
        })
        .collect();
    captures.iter_mut().for_each(Running::wait_until_ready);

    for number in 0..ROUNDS {
        (0..4).for_each(|queue| tap.write(queue, &frames::raw(number)));
    }
    send(&ns, NEIGHBOUR, 0..200);
    let sent = tap.drain();
    let used: BTreeSet<_> = sent.iter().map(|(queue, _)| *queue).collect();
    assert!(sent.len() == 200 && used.len() > 1, "{} packets, queues {used:?}", sent.len());

    for (subset, capture) in captures.into_iter().enumerate() {
        let summary = capture.finish();
        let packets = packets(path(&directory, subset));
        assert!(is_in_order(&packets));
        for queue in 0..4 {
            let expected: Vec<_> =
                if subset >> queue & 1 == 1 { (0..ROUNDS).collect() } else { Vec::new() };
            let got = numbers(&packets, Class::Rx, Some(queue));
            assert_eq!(got, expected, "RX queue {queue} with {}", list(subset));
            let selected = tx_subset(subset) >> queue & 1 == 1;
            let expected: Vec<_> = sent
                .iter()
                .filter(|(from, _)| selected && *from == queue as usize)
                .filter_map(|(_, frame)| frames::sequence(frame))
                .collect();
            let got = numbers(&packets, Class::Tx, Some(queue));
            assert_eq!(got, expected, "TX queue {queue} with {}", list(tx_subset(subset)));
        }
        assert!(packets.iter().all(|packet| packet.class != Some(Class::Other)));
        assert_eq!(summary["totals"]["written"], packets.len());
        assert_eq!(summary["totals"]["dropped"], 0);
    }

    // Wireshark finds the queues, too: one interface per queue and class.
    if tools::require("tshark") {
        let (subset, file) = (0b1011, path(&directory, 0b1011));
        let rows = tshark_fields(Path::new(&file), &["frame.interface_description"]);
        for queue in 0..4 {
            let name = format!("rx queue {queue}");
            let count = rows.iter().filter(|row| row[0] == name).count() as u64;
            assert_eq!(count, if subset >> queue & 1 == 1 { ROUNDS } else { 0 }, "{name}");
        }
        let interfaces = capinfos(Path::new(&file)).interfaces;
        assert_eq!(interfaces.len(), 4 + 4 + 1);
        assert!(interfaces.iter().all(|interface| interface.statistics > 0), "{interfaces:?}");
    }
}

/// A loopback records no queue: received packets are OTHER, sent packets belong to TX queue 0. A
/// mask with both takes each packet once, as received.
#[test]
fn privileged_packets_of_no_queue() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    let directory = tempdir().unwrap();
    let port = format!("packet:lo{QUICK}");
    let cases = [("none", "off"), ("0", "off"), ("none", "on"), ("0", "on")];
    let mut captures = cases.map(|(tx, other)| {
        let path = path(&directory, format!("{tx}-{other}"));
        let masks = ["--rx-queues", "0", "--tx-queues", tx, "--other", other];
        Running::spawn(Some(&ns), &[&[&port, "-w", &path], &masks[..]].concat())
    });
    captures.iter_mut().for_each(Running::wait_until_ready);
    let sink = ns.inside(|| UdpSocket::bind("127.0.0.1:9").unwrap());
    send(&ns, "127.0.0.1", 0..50);
    drop(sink);
    for ((tx, other), capture) in cases.into_iter().zip(captures) {
        capture.finish();
        let packets = packets(path(&directory, format!("{tx}-{other}")));
        let expected = |on: bool| if on { (0..50).collect() } else { Vec::new() };
        let (sent, received) = (tx == "0" && other == "off", other == "on");
        assert_eq!(numbers(&packets, Class::Tx, Some(0)), expected(sent), "{tx} {other}");
        assert_eq!(numbers(&packets, Class::Other, None), expected(received), "{tx} {other}");
        assert_eq!(numbers(&packets, Class::Rx, Some(0)), [0; 0]);
    }
}

/// `wirelane mask` dozens of times under traffic. Queue 0 stays selected and loses nothing. Each
/// other queue delivers all or none of its packets between two changes.
#[test]
fn privileged_changing_masks_while_traffic_runs() {
    if !privileged::require() {
        return;
    }
    const CHANGES: usize = 60;
    let (ns, tap) = world();
    let directory = tempdir().unwrap();
    let file = path(&directory, "changing");
    // Rings for seconds of this traffic, in case the machine is busy.
    let port = format!("packet:{TAP}?ring=16Mi&block=64Ki&retire=50ms");
    let masks = ["--rx-queues", "0", "--tx-queues", "none", "--other", "off"];
    let capture = Running::start(Some(&ns), &[&[&port, "-w", &file], &masks[..]].concat());
    assert_eq!(capture.mask(&[]), "rx 0 tx none other off\n");

    // All numbers below `next` have been written to every queue.
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let phases = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                (0..4).for_each(|queue| tap.write(queue, &frames::raw(number)));
                next.store(number + 1, Ordering::SeqCst);
                if number % 8 == 7 {
                    std::thread::sleep(Duration::from_micros(500));
                }
            }
        });
        let change = |round: usize| {
            let subset = 1 | ((round * 5 + 2) % 16);
            let began = next.load(Ordering::SeqCst);
            let rx = list(subset);
            let now = capture.mask(&["--rx-queues", &rx]);
            assert_eq!(now, format!("rx {} tx none other off\n", display(subset)));
            // The current number may meet the masks before or after the change.
            let from = next.load(Ordering::SeqCst) + 1;
            let deadline = Instant::now() + PATIENCE;
            while next.load(Ordering::SeqCst) < from + 20 {
                assert!(Instant::now() < deadline, "the sender stands still");
                std::thread::sleep(Duration::from_millis(1));
            }
            (subset, began, from)
        };
        let phases: Vec<_> = (0..CHANGES).map(change).collect();
        stop.store(true, Ordering::Relaxed);
        phases
    });
    let sent = next.load(Ordering::SeqCst);
    let summary = capture.finish();
    assert_eq!(summary["totals"]["dropped"], 0, "the rings were too small for this test");

    let packets = packets(&file);
    assert_eq!(numbers(&packets, Class::Rx, Some(0)), (0..sent).collect::<Vec<_>>());
    let mut checked = 0;
    for queue in 1..4 {
        let got = numbers(&packets, Class::Rx, Some(queue));
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "queue {queue} repeats");
        let got: BTreeSet<_> = got.into_iter().collect();
        for (round, (subset, _, from)) in phases.iter().enumerate() {
            let to = phases.get(round + 1).map_or(sent, |(_, began, _)| *began);
            let selected = subset >> queue & 1 == 1;
            for number in *from..to {
                assert_eq!(got.contains(&number), selected, "queue {queue}, packet {number}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1000, "{checked} packets came between changes");
}

/// As the command prints a subset: pairs by comma, longer runs as a range.
fn display(subset: usize) -> String {
    let text = list(subset);
    match text.as_str() {
        "0,1,2" => "0-2".into(),
        "1,2,3" => "1-3".into(),
        "0,1,2,3" => "0-3".into(),
        _ => text,
    }
}

#[test]
fn masks_are_read_set_cleared_enabled_and_refused() {
    let capture = Running::start(None, &["sim:4?rate=1kpps&other=4", "--rx-queues", "0,2-3"]);
    assert_eq!(capture.mask(&[]), "rx 0,2,3 tx all other on\n");
    assert_eq!(capture.mask(&["--rx-queues", "-2", "--other", "off"]), "rx 0,3 tx all other off\n");
    assert_eq!(capture.mask(&["--rx-queues", "+1,2"]), "rx 0-3 tx all other off\n");
    assert_eq!(capture.mask(&["--tx-queues", "-1"]), "rx 0-3 tx 0,2,3 other off\n");
    let disabled = "rx 0-3 tx 0,2,3 other off (disabled: everything passes)\n";
    assert_eq!(capture.mask(&["--disable"]), disabled);
    assert_eq!(capture.mask(&["--enable"]), "rx 0-3 tx 0,2,3 other off\n");
    let json: Value = serde_json::from_str(&capture.mask(&["--json"])).unwrap();
    assert_eq!((&json["rx"], &json["other"]), (&"0-3".into(), &false.into()));

    let pid = capture.child.id().to_string();
    for (queues, part) in [("4", "queue 4"), ("1-", "not a queue"), ("+9", "queue 9")] {
        let refused = output(&mut wirelane(["mask", &pid, "--rx-queues", queues]));
        assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
        assert_eq!((refused.stdout.as_str(), refused.stderr.lines().count()), ("", 1));
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert_eq!(capture.mask(&[]), "rx 0-3 tx 0,2,3 other off\n", "nothing was changed");
    capture.finish();
}

/// Masks apply to the simulated port: only selected packets are received.
#[test]
fn nothing_that_is_not_selected_is_received() {
    let directory = tempdir().unwrap();
    let spec = "sim:4?count=8000&other=4&tx=3&flows=64";
    for (rx, tx, other) in [("none", "none", "off"), ("1,3", "0", "on"), ("all", "none", "off")] {
        let file = path(&directory, "x");
        let masks = ["--rx-queues", rx, "--tx-queues", tx, "--other", other];
        let summary = capture(&[&[spec, "-w", &file], &masks[..]].concat());
        let stream = stream(spec);
        let mut got = predicted_numbers(&stream, &packets(&file));
        got.sort_unstable();
        let in_list = |list: &str, queue: u16| list == "all" || list.contains(&queue.to_string());
        let selected = (0..8000).filter(|k| {
            let packet = stream.packet(*k);
            match packet.class {
                Class::Rx => in_list(rx, packet.queue),
                Class::Tx => in_list(tx, packet.queue),
                Class::Other => other == "on",
            }
        });
        assert!(got.iter().copied().eq(selected), "{rx} {tx} {other}");
        assert_eq!(summary["totals"]["received"], got.len());
    }
}
