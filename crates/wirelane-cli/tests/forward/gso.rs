//! The kernel's stack sends long frames through a TAP device, and the wire gets packets.
//!
//! ```text
//!   left: stack ─ tap ─ wirelane forward --gso ─ a ══ veth ══ b :right
//! ```

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use wirelane_testkit::privileged;

use super::control::{ask, refused};
use super::wire::{RIGHT, Wire, content, of_class, summary_of};
use super::*;

const BYTES: usize = 4 << 20;

/// Counters of segmented frames of one class, over all queues.
fn cut(summary: &Value, class: &str, key: &str) -> u64 {
    of_class(summary, "gso", class, key)
}

/// Frames that were not segmented for a reason, over all queues.
fn bypassed(summary: &Value, reason: &str) -> u64 {
    let queues = summary["gso"].as_array().unwrap().iter();
    let rows = queues.flat_map(|queue| queue["bypassed"].as_array().unwrap());
    rows.filter(|row| row["reason"] == reason).map(|row| number(&row["frames"])).sum()
}

#[test]
fn privileged_tcp_is_cut_and_comes_whole() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet", "xdp"] {
        if is_refused_for_tags(backend) {
            continue;
        }
        let wire = Wire::new();
        let child = wire.forward(&["--gso"], "tap:wl-tap", backend);
        for address in RIGHT {
            Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
        }
        let summary = summary_of(child);
        for class in ["tcp4", "tcp6"] {
            let (frames, segments) =
                (cut(&summary, class, "super_frames"), cut(&summary, class, "segments"));
            assert!(frames > 0 && segments > 2 * frames, "{backend}: {class}: {summary}");
            assert!(cut(&summary, class, "bytes") >= BYTES as u64, "{summary}");
            assert!(cut(&summary, class, "largest_frame") <= 1514, "{summary}");
        }
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{backend}: {summary}");
    }
}

/// The longest frame in the tests of `gso_max`.
const MOST: u64 = 16_000;

/// The stack's frames are no longer than the limit of either port, from the start or from a change.
#[test]
fn privileged_frames_of_the_stack_are_as_long_as_wanted() {
    if !privileged::require() {
        return;
    }
    let limited = format!("gso_max={MOST}");
    let (tap, packet) = (format!("tap:wl-tap?{limited}"), format!("packet:IF?vnet=off&{limited}"));
    let xdp = format!("xdp:IF?{limited}");
    for (tap, wire_port, changed) in [
        (tap.as_str(), "packet:IF?vnet=off", None),
        ("tap:wl-tap", packet.as_str(), None),
        ("tap:wl-tap", xdp.as_str(), None),
        ("tap:wl-tap", "packet:IF?vnet=off", Some("0")),
        ("tap:wl-tap", "packet:IF?vnet=off", Some("1")),
    ] {
        if wire_port == xdp && is_refused_for_tags("xdp") {
            continue;
        }
        let wire = Wire::new();
        let child = wire.forward(&["--gso", "--keep-privileges"], tap, wire_port);
        if let Some(port) = changed {
            ask(&child, "offload", &["--port", port, "--gso-max", &MOST.to_string()]);
        }
        let shown = wire.left.run("ip", ["-d", "link", "show", "dev", "wl-tap"]);
        assert!(shown.contains(&format!("gso_max_size {MOST}")), "{tap} {wire_port}: {shown}");
        for address in RIGHT {
            Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
        }
        let summary = summary_of(child);
        for class in ["tcp4", "tcp6"] {
            let frames = cut(&summary, class, "super_frames");
            let segments = cut(&summary, class, "segments");
            // This many fit, whatever their headers are.
            assert!(
                segments > frames && segments <= frames * MOST.div_ceil(1400),
                "{tap} {wire_port} {class}: {segments} of {frames}"
            );
        }
    }
}

/// A port that sends long frames shortens them itself, without privileges. A TAP device needs
/// privileges for a change: the error says so, and nothing changes.
#[test]
fn privileged_a_sent_frame_is_as_long_as_wanted() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    let child = wire.forward(&["--gso"], "tap:wl-tap", "packet:IF?vnet=on");
    let change = |port| ["--port", port, "--gso-max", "16000"];
    refused(&child, "offload", &change("0"), 1, &["wl-tap", "--keep-privileges"]);
    let shown = wire.left.run("ip", ["-d", "link", "show", "dev", "wl-tap"]);
    assert!(!shown.contains(&format!("gso_max_size {MOST}")), "{shown}");
    assert_eq!(ask(&child, "offload", &["--port", "0"]), "gso tcp,udp gro off gso_max 65535\n");
    ask(&child, "offload", &change("1"));
    for address in RIGHT {
        Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
    }
    let summary = summary_of(child);
    for class in ["tcp4", "tcp6"] {
        let largest = cut(&summary, class, "largest_frame");
        assert!((1515..=MOST + 14).contains(&largest), "{class}: {largest}: {summary}");
    }
}

#[test]
fn privileged_frames_handed_on_are_cut_by_the_kernel_and_come_whole() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    let child = wire.forward(&["--gso"], "tap:wl-tap", "packet:IF?vnet=on");
    for address in RIGHT {
        Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
    }
    let arrived = |name: &str| {
        let path = format!("/sys/class/net/{}/statistics/{name}", wire.pair.b.interface);
        wire.right.run("cat", [path]).trim().parse::<u64>().unwrap()
    };
    let (packets, bytes) = (arrived("rx_packets"), arrived("rx_bytes"));
    let summary = summary_of(child);
    assert!(bypassed(&summary, "sink_segments") > 0, "{summary}");
    assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    // The packets on the wire are short: at least as many as the content needs.
    assert!(bytes >= 2 * BYTES as u64 && packets >= bytes / 1514, "{packets} of {bytes} bytes");
    assert!(of_port(&summary, "tx", 1, "packets") < packets, "{packets}: {summary}");
}

/// A device's own segmentation is used unless the user chooses otherwise, and the output says so.
#[test]
fn privileged_frames_are_left_to_a_device_that_cuts() {
    if !privileged::require() {
        return;
    }
    for (spec, features, is_left) in [
        ("packet:IF", ["tx", "on", "tso", "on"], true),
        ("packet:IF?vnet=off", ["tx", "on", "tso", "on"], false),
        ("packet:IF", ["tx", "off", "tso", "off"], false),
    ] {
        let wire = Wire::new();
        let interface = wire.pair.a.interface.clone();
        wire.pair.a.ethtool(&[&["-K", &interface][..], &features].concat());
        let child = wire.forward(&["--gso"], "tap:wl-tap", spec);
        for address in RIGHT {
            Wire::transfer(&wire.left, &wire.right, address, &content(BYTES));
        }
        let summary = summary_of(child);
        let left = bypassed(&summary, "sink_segments");
        let here = cut(&summary, "tcp4", "super_frames") + cut(&summary, "tcp6", "super_frames");
        assert_eq!((left > 0, here > 0), (is_left, !is_left), "{spec} {features:?}: {summary}");
        let ports = summary["ports"].as_array().unwrap().iter();
        let mut notes = ports.flat_map(|port| port["notes"].as_array().unwrap());
        let is_told =
            notes.any(|note| note.as_str().unwrap().contains("segments the long frames of"));
        assert_eq!(is_told, is_left, "{spec} {features:?}: {summary}");
        assert_eq!(of_port(&summary, "tx", 1, "errors"), 0, "{summary}");
    }
}

#[test]
fn privileged_long_datagrams_become_fragments() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new();
    // Otherwise Linux sends datagrams with "don't fragment".
    wire.left.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1").unwrap());
    let child = wire.forward(&["--gso"], "tap:wl-tap?mtu=9500", "packet");
    let echo = wire.right.inside(|| UdpSocket::bind("10.98.0.2:4001").unwrap());
    echo.set_read_timeout(Some(PATIENCE)).unwrap();
    let sender = wire.left.inside(|| UdpSocket::bind("10.98.0.1:0").unwrap());
    let content = content(BYTES);
    for number in 0..50 {
        let datagram = &content[number * 9000..][..9000];
        sender.send_to(datagram, "10.98.0.2:4001").unwrap();
        let mut got = vec![0; 65_536];
        let length = echo.recv(&mut got).unwrap();
        assert!(got[..length] == *datagram, "datagram {number}: {length} bytes");
        thread::sleep(Duration::from_millis(1));
    }
    let summary = summary_of(child);
    assert_eq!(cut(&summary, "frag4", "super_frames"), 50, "{summary}");
    assert_eq!(cut(&summary, "frag4", "segments"), 50 * 7, "{summary}");
}
