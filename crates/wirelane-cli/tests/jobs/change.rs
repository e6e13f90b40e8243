//! "I need other packets now, but do not lose the capture."

use std::ops::Range;

use super::lan::ONCE;
use super::*;

const REQUESTS: &str = "icmp[icmptype] = icmp-echo";
const ANSWERS: &str = "icmp[icmptype] = icmp-echoreply";
const MIDDLE: &[u8; 8] = b"the half";
const SECOND: &[u8; 8] = b"2nd half";

/// One capture with a changed filter equals two captures of tcpdump, one after the other. Packets
/// that each filter rejects are counted, although the process has dropped its privileges.
#[test]
fn privileged_the_filter_changes_in_mid_run() {
    if unavailable(&["tcpdump", "ping"]) {
        return;
    }
    let lan = Lan::new(2);
    let [host, other] = &lan.hosts[..] else { unreachable!() };
    let (ns, interface) = other.interface();
    // The neighbours resolve each other first.
    host.ping(other.address, 2, b"hello ok", 56);
    let theirs = [("requests", REQUESTS), ("answers", ANSWERS)].map(|(name, filter)| {
        Peer::tcpdump(ns, interface, &lan.path(&format!("{name}.pcap")), &[filter])
    });
    let file = lan.path("both.pcapng");
    let args = [interface, "-w", file.to_str().unwrap(), "-f", REQUESTS];
    let mut capture = Running::start(Some(ns), &args);
    let before = other.end.statistic("rx_packets") + other.end.statistic("tx_packets");
    let talk = |marks: [&[u8; 8]; 2]| {
        host.ping(other.address, 1, marks[0], ONCE);
        host.ping(other.address, 30, b"host ask", 56);
        other.ping(host.address, 20, b"other as", 56);
        host.ping(other.address, 1, marks[1], ONCE);
    };
    talk([BEGIN, MIDDLE]);
    capture.wait_for(52);
    assert!(capture.mask(&["-f", ANSWERS]).ends_with(&format!("filter {ANSWERS}\n")));
    talk([SECOND, LAST]);
    let summary = finish(capture);
    let after = other.end.statistic("rx_packets") + other.end.statistic("tx_packets");
    let [requests, answers] = theirs.map(|peer| peer.finish(LAST, 1));

    let ours = seen(&file);
    let part = |range: Range<usize>| {
        let mut part = ours[range].to_vec();
        part.sort();
        part
    };
    assert_eq!(ours.len(), 104);
    assert_same(&part(0..52), &between(&requests, BEGIN, MIDDLE));
    assert_same(&part(52..104), &between(&answers, SECOND, LAST));
    // Each packet that was not captured was rejected by a filter: together they are the device's
    // count.
    assert_eq!(number(&summary["totals"]["received"]), after - before, "{summary}");
    assert!(number(&summary["totals"]["filtered"]) >= 104, "{summary}");
}
