//! nmap: it sends through its own sockets, and reads the answers through libpcap.

use std::net::TcpListener;

use wirelane_testkit::installed::Program;
use wirelane_testkit::privileged;

use crate::bed::{Bed, Run, assert_same, succeeded};

/// The scan's findings, without times and durations.
fn found(run: &Run) -> String {
    let kept = |line: &&str| !line.starts_with('#');
    run.output.stdout.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

#[test]
fn privileged_nmap_finds_the_same_hosts_and_ports() {
    if !privileged::require() || !Program::require(&["nmap"]) {
        return;
    }
    let bed = Bed::new();
    // Without limits, the kernel reports every closed port.
    bed.far
        .run("sysctl", ["-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_msgs_per_sec=100000"]);
    let address = bed.pair.b.address;
    let listen = |port| bed.far.inside(|| TcpListener::bind((address, port))).unwrap();
    let _listeners = [22, 80, 443].map(listen);
    let there = address.to_string();
    let network = format!("{}/29", bed.pair.a.address);
    let cases: [(&[&str], &str); 6] = [
        (&["-n", "-Pn", "-sS", "-p", "20-120", &there], "80/open/tcp"),
        (&["-n", "-Pn", "-sS", "-p", "22,23", "--send-eth", "--reason", &there], "22/open/tcp"),
        (&["-n", "-Pn", "-sU", "-p", "9,53,123", &there], "53/closed/udp"),
        (&["-n", "-sn", "-PR", &network], "Status: Up"),
        (&["-n", "-sn", "-PE", "--disable-arp-ping", "--traceroute", &there], "Status: Up"),
        (&["-n", "-Pn", "-sA", "-p", "22,81", "-e", "@", &there], "22/unfiltered/tcp"),
    ];
    for (args, expected) in cases {
        let args = [&["-oG", "-", "--max-retries", "5"], args].concat();
        let [stock, ours] = succeeded(bed.each("nmap", &args)).map(|run| found(&run));
        assert_same(&format!("{args:?}"), &stock, &ours);
        assert!(ours.contains(expected), "{args:?}: {ours}");
    }
}
