//! On a loopback the host receives its own packets: each is captured once, as received.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use wirelane_testkit::privileged;

use super::*;

const PACKETS: usize = 20;

/// Sends packets from the host to itself.
fn speak(ns: &Namespace) {
    let socket = ns.inside(|| UdpSocket::bind("127.0.0.1:7007")).unwrap();
    for number in 0..PACKETS {
        socket.send_to(&number.to_be_bytes(), "127.0.0.1:7007").unwrap();
    }
    thread::sleep(Duration::from_millis(500));
}

#[test]
fn privileged_each_packet_of_a_loopback_comes_once() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "up"]);
    for port in ["lo", "packet:lo?share=flow"] {
        let directory = tempfile::tempdir().unwrap();
        let commands = commands(directory.path());
        let start = |(name, args): &(_, Vec<_>)| (*name, start(&ns, port, args, "udp"));
        let running: Vec<_> = commands.iter().take(if port == "lo" { 5 } else { 1 }).collect();
        let running: Vec<_> = running.into_iter().map(start).collect();
        speak(&ns);
        for (name, child) in running {
            assert_eq!(finish(name, child, directory.path()), PACKETS, "{port} {name}");
        }
    }
}

#[test]
fn privileged_a_mask_of_sent_packets_shows_those_of_a_loopback() {
    if !privileged::require() {
        return;
    }
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "up"]);
    let masks = [["--tx-queues", "0", "--other", "off"], ["--rx-queues", "all", "--other", "on"]];
    for (mask, class) in masks.iter().zip(["tx", "rx"]) {
        let directory = tempfile::tempdir().unwrap();
        let (name, mut args) = commands(directory.path()).remove(0);
        args.extend(mask.map(str::to_owned));
        let child = start(&ns, "lo", &args, "udp");
        speak(&ns);
        assert_eq!(finish(name, child, directory.path()), PACKETS, "{mask:?}");
        for packet in packets(directory.path().join("written.pcapng")) {
            assert_eq!(packet.class.unwrap().as_str() == "tx", class == "tx", "{mask:?}");
        }
    }
}
