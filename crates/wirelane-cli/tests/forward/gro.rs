//! Packets from the wire are merged on the way in, and the kernel's stack behind a TAP device gets long
//! frames.

use wirelane_testkit::privileged;

use super::wire::{LEFT, Wire, content, of_class, summary_of};
use super::*;

const BYTES: usize = 4 << 20;

/// Every packet that was received is accounted for.
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
        let frames = number(&queue["packets"]) + number(&queue["dropped"]["tx_full"]);
        assert_eq!(packets, frames + number(&queue["merged"]), "{summary}");
    }
}

#[test]
fn privileged_tcp_is_merged_and_comes_whole() {
    if !privileged::require() {
        return;
    }
    for backend in ["packet", "xdp"] {
        let wire = Wire::new();
        let child = wire.forward(&["--gro"], "tap:wl-tap", backend);
        let content = content(BYTES);
        for (address, class) in LEFT.into_iter().zip(["tcp4", "tcp6"]) {
            let count = |name| wire.tap_statistic(name);
            let before = (count("rx_packets"), count("rx_bytes"));
            Wire::transfer(&wire.right, &wire.left, address, &content);
            let packets = count("rx_packets") - before.0;
            let bytes = count("rx_bytes") - before.1;
            // The stack got them merged: on average longer than any packet on the wire.
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
