//! Short packets with a partial checksum from a local sender: they are merged when received, passed
//! unchanged to a stack behind a TAP device, and refused if the kind of checksum is unknown.

use std::time::{Duration, Instant};

use wirelane::Batch;
use wirelane::internal::packet::PacketPort;
use wirelane::port::{OpenOptions, Readiness};
use wirelane_os::iface;
use wirelane_os::packet::{PacketSocket, VIRTIO_NET_HDR_F_NEEDS_CSUM, VirtioNetHdr};
use wirelane_testkit::{privileged, tools};

use super::bridge::Bridge;
use super::wire::{LEFT, RIGHT, Wire, add_addresses, content, counter, of_class, summary_of};
use super::*;

const BYTES: usize = 4 << 20;
const UDP_PORT: u16 = 4001;

/// No stack has received a packet with a wrong checksum.
#[track_caller]
fn assert_no_wrong_checksum(of: [&Namespace; 2]) {
    for ns in of {
        assert_eq!(counter(ns, "Tcp", "InCsumErrors"), 0, "packets came whose checksum is wrong");
        assert_eq!(counter(ns, "Udp", "InCsumErrors"), 0, "packets came whose checksum is wrong");
    }
}

/// Makes a stack send short frames with partial checksums.
fn short_frames(ns: &Namespace, interface: &str) {
    let features = ["tx", "on", "tso", "off", "gso", "off", "tx-udp-segmentation", "off"];
    ns.run("ethtool", [&["-K", interface][..], &features].concat());
}

/// Checks that the packets merged at the first port had partial checksums: the sum over its queues.
#[track_caller]
fn assert_partial_were_merged(summary: &Value, context: &str) {
    let queues = summary["gro"].as_array().unwrap().iter().filter(|row| row["port"] == 0);
    let (mut partial, mut merged) = (0, 0);
    for row in queues {
        partial += number(&row["partial"]);
        merged += number(&row["merged"]);
    }
    assert_eq!(partial, merged, "{context}: {summary}");
    for class in ["tcp4", "tcp6"] {
        assert!(of_class(summary, "gro", class, "super_frames") > 0, "{context}: {summary}");
    }
    for port in [0, 1] {
        assert_eq!(of_port(summary, "tx", port, "errors"), 0, "{context}: {summary}");
    }
}

/// A stack sends short packets with partial checksums; another one behind a TAP device gets long
/// frames.
#[test]
fn privileged_checksums_left_to_do_are_merged_between_stacks() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    let (left, right) = (Namespace::new(), Namespace::new());
    let mut command = left.command(WIRELANE);
    command.args(["forward", "--json", "--gso", "--gro", "tap:wl-tap", "tap:wl-far"]);
    let mut child = ChildGuard::spawn(&mut command);
    child.wait_until(PATIENCE, |child| child.stderr().contains("queues"));
    // The interface is down while it moves, and cannot accept packets. So the other stack stays
    // silent, without addresses and IPv6, until the move is over.
    left.run("ip", ["link", "set", "wl-far", "netns", right.name()]);
    right.run("ip", ["link", "set", "wl-far", "up"]);
    for (ns, addresses, interface) in [(&right, RIGHT, "wl-far"), (&left, LEFT, "wl-tap")] {
        ns.enable_ipv6();
        add_addresses(ns, addresses, interface);
        short_frames(ns, interface);
    }
    let statistic = |name: &str| {
        let text = right.run("cat", [format!("/sys/class/net/wl-far/statistics/{name}")]);
        text.trim().parse::<u64>().unwrap()
    };
    for address in RIGHT {
        let before = ["rx_packets", "rx_bytes"].map(statistic);
        Wire::transfer(&left, &right, address, &content(BYTES));
        let after = ["rx_packets", "rx_bytes"].map(statistic);
        let (packets, bytes) = (after[0] - before[0], after[1] - before[1]);
        assert!(bytes / packets > 1514, "{address}: {packets} of {bytes} bytes");
    }
    assert_no_wrong_checksum([&left, &right]);
    assert_partial_were_merged(&summary_of(child), "tap");
}

/// A wire gets segments with checksums: the checksums of all merged packets are completed.
#[test]
fn privileged_checksums_left_to_do_are_completed_when_merged_packets_are_cut() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    for sink in ["packet:IF?vnet=off", "packet:IF?vnet=on", "xdp:IF"] {
        if is_refused_for_tags(sink) {
            continue;
        }
        let wire = Wire::new();
        let child = wire.forward(&["--gso", "--gro"], "tap:wl-tap", sink);
        short_frames(&wire.left, "wl-tap");
        for address in RIGHT {
            Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
        }
        assert_no_wrong_checksum([&wire.left, &wire.right]);
        let longest = wire.pair.b.statistic("rx_bytes") / wire.pair.b.statistic("rx_packets");
        assert!(longest <= 1514, "{sink}: {longest}");
        assert_partial_were_merged(&summary_of(child), sink);
    }
}

/// Without segmenting and merging, too: the stack behind the device learns that the checksum is
/// partial.
#[test]
fn privileged_checksums_left_to_do_are_handed_on_to_a_stack() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    const SOME: usize = 100_000;
    let wire = Wire::new();
    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "tx", "on", "tso", "off", "gso", "off"]);
    let child = wire.forward(&[], "tap:wl-tap", "packet");
    let mut watcher = wire.left.inside(|| {
        PacketPort::open(&"packet:wl-tap".parse().unwrap(), &OpenOptions::default()).unwrap()
    });
    let mut ends = watcher.rx().unwrap();
    watcher.start().unwrap();
    for address in LEFT {
        Wire::transfer(&wire.right, &wire.left, address, &content(SOME));
        let bind = |ns: &Namespace, at| ns.inside(|| std::net::UdpSocket::bind(at).unwrap());
        let receiver = bind(&wire.left, (address, UDP_PORT));
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        let any = if address.contains(':') { "::" } else { "0.0.0.0" };
        let sender = bind(&wire.right, (any, 0));
        let mut got = [0; 2000];
        for size in [0, 1, 1400] {
            sender.send_to(&content(2000)[..size], (address, UDP_PORT)).unwrap();
            assert_eq!(receiver.recv(&mut got).unwrap(), size);
            assert_eq!(got[..size], content(2000)[..size]);
        }
    }
    assert_no_wrong_checksum([&wire.left, &wire.right]);
    // The packets as the stack received them.
    watcher.control().stop();
    let (mut partial, mut batch) = (0, Batch::default());
    let patience = Instant::now() + PATIENCE;
    for rx in &mut ends {
        loop {
            assert!(Instant::now() < patience, "no end");
            if rx.receive(&mut batch) == 0 {
                match rx.readiness().unwrap() {
                    Readiness::End => break,
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            let is_sent = |data: &[u8]| data.get(6..12) == Some(&wire.pair.b.mac[..]);
            for frame in batch.iter().filter(|frame| is_sent(frame.data())) {
                let left = frame.offload().and_then(|offload| offload.checksum);
                partial += u64::from(left.is_some_and(|place| place.is_inside(frame.len())));
            }
            batch.clear();
        }
    }
    let summary = summary_of(child);
    for port in [0, 1] {
        assert_eq!(of_port(&summary, "tx", port, "unfinished"), 0, "{summary}");
        assert_eq!(of_port(&summary, "tx", port, "errors"), 0, "{summary}");
    }
    // At least all packets with content, over both IP versions.
    assert!(partial >= 2 * (SOME as u64 / 1448 + 3), "{partial} of {summary}");
}

/// A partial checksum of another protocol than TCP and UDP: its place is unknown, so the packet is
/// counted and not sent.
#[test]
fn privileged_checksums_in_an_unknown_place_are_counted_and_not_sent() {
    if !privileged::require() || !tools::require("ethtool") {
        return;
    }
    const STRANGE: u64 = 3;
    for (sink, options) in [
        ("packet:IF?vnet=on", &[][..]),
        ("packet:IF?vnet=on", &["--gso"]),
        ("packet:IF?vnet=off", &["--gso", "--gro"]),
        ("packet:IF", &[]),
        ("tap:wl-tap", &[]),
    ] {
        let bridge = Bridge::new(1);
        let ports = [
            format!("packet:{}", bridge.near.b.interface),
            sink.replace("IF", &bridge.far.a.interface),
        ];
        let running =
            Running::start(&bridge.middle, &[&[ports[0].as_str(), &ports[1]], options].concat());
        let socket = bridge.left.inside(|| {
            let socket = PacketSocket::open().unwrap();
            socket.set_vnet_hdr(true).unwrap();
            socket.bind(iface::index(&bridge.near.a.interface).unwrap(), 0).unwrap();
            socket
        });
        let received = bridge.near.b.statistic("rx_packets");
        for number in 0..2 * STRANGE {
            // Every second packet has RFC 3692's experimental protocol and a partial checksum.
            let mut frame = vec![0xff; 6];
            frame.extend(bridge.near.a.mac);
            frame.extend([0x08, 0, 0x45, 0, 0, 60, 0, number as u8, 0, 0, 64, 253, 0, 0]);
            frame.extend([10, 99, 0, 1, 10, 99, 0, 77]);
            frame.extend([0; 40]);
            let flags = if number % 2 == 0 { VIRTIO_NET_HDR_F_NEEDS_CSUM } else { 0 };
            let header =
                VirtioNetHdr { flags, csum_start: 34, csum_offset: 2, ..VirtioNetHdr::default() };
            socket.send_with_header(&header, &frame).unwrap();
        }
        let patience = Instant::now() + PATIENCE;
        while bridge.near.b.statistic("rx_packets") < received + 2 * STRANGE {
            assert!(Instant::now() < patience, "they do not come");
            std::thread::sleep(Duration::from_millis(5));
        }
        let summary = summary_of(running.0);
        let (sent, errors) =
            (of_port(&summary, "tx", 1, "packets"), of_port(&summary, "tx", 1, "errors"));
        assert_eq!((sent, errors), (STRANGE, STRANGE), "{sink} {options:?}: {summary}");
        let refused = summary["gso"].as_array().into_iter().flatten();
        let refused = refused.flat_map(|queue| queue["refused"].as_array().unwrap());
        let here: u64 = refused
            .filter(|row| row["reason"] == "checksum_place")
            .map(|row| number(&row["frames"]))
            .sum();
        let unfinished = of_port(&summary, "tx", 1, "unfinished");
        assert_eq!(here + unfinished, STRANGE, "{sink} {options:?}: {summary}");
        let notes = summary["ports"][1]["notes"].to_string();
        assert_eq!(
            notes.contains("left segmentation, or a checksum"),
            unfinished > 0,
            "{sink} {options:?}: {notes}"
        );
    }
}
