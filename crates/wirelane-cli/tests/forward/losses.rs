//! Losses before a port receives packets, and how they are reported.

use std::net::UdpSocket;

use rustix::process::{Pid, Signal, kill_process};
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::wire::{LEFT, RIGHT, Wire, summary_of};
use super::*;

/// While the forwarder is stopped, the kernel queues the stack's packets until the device's queue
/// is full, and drops the rest.
#[test]
fn privileged_what_a_tap_device_drops_is_told() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 4000;
    const ROOM: u64 = 1000;
    let wire = Wire::new();
    let child = wire.forward(&[], "tap:wl-tap", "packet");
    let neighbour = ["neigh", "replace", RIGHT[0], "lladdr", "02:00:00:00:00:99"];
    wire.left.run("ip", [&neighbour[..], &["nud", "permanent", "dev", "wl-tap"]].concat());
    let socket = wire.left.inside(|| UdpSocket::bind((LEFT[0], 0)).unwrap());
    let before = wire.tap_statistic("tx_dropped");
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    for _ in 0..SENT {
        // A drop is no error for the sender (udp_send_skb()).
        assert_eq!(socket.send_to(&[7; 50], (RIGHT[0], 4001)).unwrap(), 50);
    }
    let dropped = wire.tap_statistic("tx_dropped") - before;
    kill_process(pid, Signal::CONT).unwrap();
    // The process may take some packets until all its threads are stopped.
    assert!(dropped > 0, "{SENT} fit into a queue of {ROOM}");
    let summary = summary_of(child);
    let notes = summary["ports"][0]["notes"].to_string();
    let told = notes.split("the kernel dropped ").nth(1).unwrap_or_else(|| panic!("{notes}"));
    let told: u64 = told.split(' ').next().unwrap().parse().unwrap();
    // The kernel may also have dropped a few packets of the stack itself.
    let most = before + dropped + 100;
    assert!((dropped..=most).contains(&told), "{told} of {dropped}, {before} before");
    assert!(notes.contains("or it could not segment or complete them"), "{notes}");
    assert!(notes.contains(&format!("txqueuelen N` makes it longer, now {ROOM}")), "{notes}");
    // No queue reports this unknown number.
    assert!(summary["queues"][0]["dropped"]["kernel"].is_null(), "{summary}");
    // Received packets were sent, or are counted.
    let of = |table, port, key| of_port(&summary, table, port, key);
    let taken = of("queues", 0, "packets");
    assert_eq!(taken, of("tx", 1, "packets") + of("tx", 1, "errors"), "{summary}");
}

/// A veth whose peer is down has no link and drops packets. The kernel gives AF_XDP senders in copy
/// mode no count of these drops.
#[test]
fn privileged_what_an_interface_drops_is_told() {
    if !privileged::require() {
        return;
    }
    const SENT: u64 = 500;
    let (near, far) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&near, &far, 1, 1500);
    far.run("ip", ["link", "set", &pair.b.interface, "down"]);
    for mode in ["native", "generic"] {
        let before = pair.a.statistic("tx_dropped");
        let sink = format!("xdp:{}?mode={mode}", pair.a.interface);
        let source = format!("sim:1?count={SENT}");
        let mut command = near.command(env!("CARGO_BIN_EXE_wirelane"));
        let done = output(command.args(["forward", "-q", "--json", "--one-way", &source, &sink]));
        assert_eq!(done.status.code(), Some(1), "{sink}: {}", done.stderr);
        assert!(done.stderr.contains("the interface has no link, and dropped"), "{}", done.stderr);
        let summary: Value = serde_json::from_str(&done.stdout).unwrap();
        let dropped = pair.a.statistic("tx_dropped") - before;
        assert!(dropped >= SENT, "{sink}: {dropped}");
        let notes = summary["ports"][1]["notes"].to_string();
        assert!(
            notes.contains(&format!("dropped {dropped} packets on transmit")),
            "{sink}: {notes}"
        );
        assert_eq!(of_port(&summary, "tx", 1, "packets"), SENT, "{sink}: {summary}");
    }
}
