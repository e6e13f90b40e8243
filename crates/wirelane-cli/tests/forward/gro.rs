//! Received packets are merged, and the kernel's stack behind a TAP device gets long frames.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::thread;

use wirelane_testkit::{kernel, privileged};

use super::wire::{LEFT, RIGHT, Wire, content, longest_of_class, of_class, summary_of};
use super::*;

const BYTES: usize = 4 << 20;

/// Every received packet is accounted for.
#[track_caller]
fn assert_merged(summary: &Value) {
    for row in summary["gro"].as_array().unwrap() {
        let sum = |list: &str| {
            let reasons = row[list].as_array().unwrap().iter();
            reasons.map(|reason| number(&reason["frames"])).sum::<u64>()
        };
        let (packets, merged) = (number(&row["packets"]), number(&row["merged"]));
        assert_eq!(packets, merged + sum("alone"), "{summary}");
        let of_queue =
            |queue: &&Value| queue["port"] == row["port"] && queue["queue"] == row["queue"];
        let queue = summary["queues"].as_array().unwrap().iter().find(of_queue).unwrap();
        let taken = number(&queue["packets"]) + number(&queue["dropped"]["tx_full"]);
        assert_eq!(packets, taken, "{summary}");
        let count = |key: &str| {
            let classes = row["classes"].as_array().unwrap().iter();
            classes.map(|class| number(&class[key])).sum::<u64>()
        };
        let away = count("segments") - count("super_frames");
        assert_eq!(number(&queue["merged"]), away, "{summary}");
    }
}

#[test]
fn privileged_tcp_is_merged_and_comes_whole() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet", "xdp"] {
        if is_refused_for_tags(backend) {
            continue;
        }
        let wire = Wire::new();
        let child = wire.forward(&["--gro"], "tap:wl-tap", backend);
        let content = content(BYTES);
        for (address, class) in LEFT.into_iter().zip(["tcp4", "tcp6"]) {
            let count = |name| wire.tap_statistic(name);
            let before = (count("rx_packets"), count("rx_bytes"));
            Wire::transfer(&wire.right, &wire.left, address, &content);
            let packets = count("rx_packets") - before.0;
            let bytes = count("rx_bytes") - before.1;
            // The stack got merged packets: on average longer than any packet on the wire.
            assert!(bytes >= BYTES as u64, "{backend}: {class}: {bytes}");
            assert!(bytes / packets > 2 * 1514, "{backend}: {class}: {packets} of {bytes} bytes");
        }
        let summary = summary_of(child);
        assert_merged(&summary);
        for class in ["tcp4", "tcp6"] {
            let of = |key| of_class(&summary, "gro", class, key);
            assert!(of("segments") > 2 * of("super_frames"), "{backend}: {class}: {summary}");
            assert!(of("largest_frame") > 4 * 1514, "{backend}: {class}: {summary}");
        }
        assert_eq!(of_port(&summary, "tx", 0, "errors"), 0, "{backend}: {summary}");
        assert!(number(&summary["totals"]["merged"]) > 0, "{summary}");
    }
}

#[test]
fn privileged_datagrams_are_merged_and_come_one_by_one() {
    if !privileged::require() || !kernel::require(6, 2, "TAP devices take merged datagrams") {
        return;
    }
    const SIZE: usize = 1200;
    const BURST: usize = 32;
    let wire = Wire::new();
    let child = wire.forward(&["--gro=udp"], "tap:wl-tap", "packet");
    let content = content(40 * BURST * SIZE);
    for (address, class) in LEFT.into_iter().zip(["udp4", "udp6"]) {
        let receiver = wire.left.inside(|| UdpSocket::bind((address, 4001)).unwrap());
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let any = if address.contains(':') { "::" } else { "0.0.0.0" };
        let sender = wire.right.inside(|| UdpSocket::bind((any, 0)).unwrap());
        let before = wire.tap_statistic("rx_packets");
        let mut got = vec![0; 65_536];
        for burst in content.chunks(BURST * SIZE) {
            for datagram in burst.chunks(SIZE) {
                sender.send_to(datagram, (address, 4001)).unwrap();
            }
            for datagram in burst.chunks(SIZE) {
                let length = receiver.recv(&mut got).unwrap();
                assert!(got[..length] == *datagram, "{class}: {length} bytes, not what was sent");
            }
        }
        let frames = wire.tap_statistic("rx_packets") - before;
        assert!(frames < 40 * BURST as u64 / 2, "{class}: {frames} frames");
    }
    // GRO is switched off for TCP.
    Wire::transfer(&wire.right, &wire.left, LEFT[0], &content);
    let summary = summary_of(child);
    assert_merged(&summary);
    for class in ["udp4", "udp6"] {
        assert!(of_class(&summary, "gro", class, "super_frames") > 0, "{summary}");
        assert_eq!(of_class(&summary, "gro", class, "largest_mss"), SIZE as u64, "{summary}");
    }
    assert_eq!(of_class(&summary, "gro", "tcp4", "super_frames"), 0, "{summary}");
}

#[test]
fn privileged_both_ways_at_once() {
    if !privileged::require() {
        return;
    }
    for (options, tap, wire_port) in [
        (&["--gso", "--gro"][..], "tap:wl-tap@0-1", "packet"),
        (&["--gso", "--gro", "--qdisc", "lockless", "--tx-choice", "flow"], "tap:wl-tap", "xdp"),
        // Each port has its own options: packets from the wire are merged, frames to the wire are
        // segmented.
        (&[], "tap:wl-tap?gso_max=20000", "packet:IF?gso=tcp&gro=tcp&gso_max=30000"),
    ] {
        if is_refused_for_tags(wire_port) {
            continue;
        }
        let wire = Wire::with_queues(2);
        let child = wire.forward(options, tap, wire_port);
        let content = content(BYTES);
        thread::scope(|scope| {
            let ends = [(&wire.left, &wire.right, RIGHT), (&wire.right, &wire.left, LEFT)];
            for (from, to, addresses) in ends {
                for address in addresses {
                    let content = &content;
                    scope.spawn(move || Wire::transfer(from, to, address, content));
                }
            }
        });
        let summary = summary_of(child);
        assert_merged(&summary);
        for class in ["tcp4", "tcp6"] {
            for table in ["gso", "gro"] {
                let count = |key| of_class(&summary, table, class, key);
                let (frames, segments) = (count("super_frames"), count("segments"));
                assert!(
                    frames > 0 && segments > 2 * frames,
                    "{options:?} {table} {class}: {summary}"
                );
            }
            let longest = longest_of_class(&summary, "gro", class);
            assert!(!options.is_empty() || longest <= 14 + 30_000, "{summary}");
        }
        for port in [0, 1] {
            assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{options:?}: {summary}");
        }
    }
}

/// For a sink without long frames, merged frames are segmented again into the same packets.
#[test]
fn merged_and_cut_again() {
    let directory = tempfile::tempdir().unwrap();
    let source = "sim:1?count=3000&flows=4&size=200";
    let write = |name: &str, options: &[&str]| {
        let path = directory.path().join(name);
        let port = format!("file:{}", path.display());
        let mut command = wirelane(["forward", "-q", "--json", source, &port]);
        (summary(&output(command.args(options))), packets(&path))
    };
    let (_, plain) = write("plain.pcapng", &[]);
    let (summary, merged) = write("merged.pcapng", &["--gro"]);
    assert_merged(&summary);
    assert!(number(&summary["totals"]["merged"]) > 1500, "{summary}");
    assert_eq!(number(&summary["totals"]["sent"]), 3000, "{summary}");
    assert!(
        summary["ports"][0]["notes"][0].as_str().unwrap().contains("segmented again"),
        "{summary}"
    );
    // Each packet has the time of the first one in its merged frame.
    let times: BTreeSet<_> = merged.iter().map(|packet| packet.timestamp).collect();
    let count = |summary: &Value, key: &str| number(&summary["totals"][key]);
    assert_eq!(count(&summary, "received"), 3000, "{summary}");
    assert_eq!(times.len() as u64, 3000 - count(&summary, "merged"), "{summary}");
    assert!(times.first() > plain.first().map(|packet| &packet.timestamp));
    let sorted = |packets: Vec<Packet>| {
        let mut packets: Vec<_> = packets.into_iter().map(|packet| packet.data).collect();
        packets.sort();
        packets
    };
    assert!(sorted(plain) == sorted(merged), "not the same packets");
    // Exactly this many packets are received, however many frames they become.
    let (summary, merged) = write("some.pcapng", &["--gro", "-c", "1001"]);
    assert_merged(&summary);
    assert_eq!(count(&summary, "received"), 1001, "{summary}");
    assert!(count(&summary, "merged") > 500, "{summary}");
    assert_eq!(merged.len(), 1001);
}
