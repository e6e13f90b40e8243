//! A command sends its packets or fails, and does not wait for packets that will not be sent.

use std::time::{Duration, Instant};

use tempfile::tempdir;
use wirelane_testkit::packets;

use super::*;

/// Runs `wirelane send ARGS`, which must fail with one sentence that has these parts; returns its
/// summary.
#[track_caller]
fn failed(args: &[&str], parts: &[&str]) -> Value {
    let ended = output(wirelane(["send", "-q", "--json"]).args(args));
    assert_refused(&ended, 1, parts);
    parse(&ended.stdout)
}

#[test]
fn nothing_sent_is_an_error() {
    let long = ["sim:1", "--packet", "icmp", "--size", "4095"];
    let summary = failed(
        &[&long[..], &["-c", "10", "--top-speed"]].concat(),
        &["sim:1: nothing was sent: the packets are longer than the MTU allows", "--gso"],
    );
    let notes = summary["ports"].to_string();
    assert!(notes.contains("10 packets not sent because of the MTU"), "{notes}");
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    write(&path, 1, &[packets::udp4(0).length(3000).build()]);
    let path = path.display().to_string();
    failed(&["sim:1", &path], &["longer than the MTU allows"]);
    let flows = directory.path().join("flows.yaml");
    let late = "delay: {choice: nanoseconds, nanoseconds: 900000000}";
    let text = format!(
        "ports: [{{name: a, location: 'sim:1'}}, {{name: b}}]\nflows:\n- name: late\n  \
         tx_rx: {{choice: port, port: {{tx_name: a, rx_names: [b]}}}}\n  \
         packet: [{{choice: ethernet}}, {{choice: ipv4}}, {{choice: udp}}]\n  \
         rate: {{choice: pps, pps: 100}}\n  \
         duration: {{choice: fixed_packets, fixed_packets: {{packets: 3, {late}}}}}\n"
    );
    fs::write(&flows, text).unwrap();
    let flows = flows.display().to_string();
    assert_eq!(send(&["sim:1", "--flows", &flows])["totals"]["sent"], 3);
    failed(
        &["sim:1", "--flows", &flows, "--duration", "100ms"],
        &["nothing was sent: --duration was over before the first packet"],
    );
    // A command that sends some of the packets succeeds and reports the others.
    let packets = ["--packet", "udp", "--size", "60,4095", "--top-speed"];
    let summary = send(&[&["sim:1", "-c", "11"], &packets[..]].concat());
    assert_eq!(summary["totals"]["sent"], 6, "packets 0 to 10, of which 5 are too long");
}

#[test]
fn a_file_has_no_mtu() {
    let directory = tempdir().unwrap();
    let [from, to] = ["x.pcap", "y.pcapng"].map(|name| directory.path().join(name));
    let frames = [1514, 1515, 9014, 65_549, 130_000].map(|len| {
        let mut frame = packets::udp4(len as u64).length(600).build();
        frame.resize(len, 7);
        frame
    });
    write(&from, 1, &frames);
    let port = format!("file:{}", to.display());
    let from = from.display().to_string();
    assert_eq!(send(&[&port, &from, "--top-speed"])["totals"]["sent"], frames.len());
    assert!(bytes(&to) == frames);
    send(&[&port, "--packet", "udp", "--size", "9000", "-c", "3", "--top-speed"]);
    assert_eq!(bytes(&to).iter().map(Vec::len).collect::<Vec<_>>(), [9000; 3]);
}

#[test]
fn the_last_packet_does_not_wait_for_the_time_of_the_next() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    let frames: Vec<_> = (0..3).map(|n| packets::udp4(n).build()).collect();
    write(&path, 1, &frames);
    let path = path.display().to_string();
    let begin = Instant::now();
    for port in ["sim:1", "sim:2"] {
        let slow = [port, &path, "--speed", "0.00001x", "-c", "1"];
        assert_eq!(send(&slow)["totals"]["sent"], 1);
        let slow = [port, "--packet", "udp", "--rate", "0.01pps", "-c", "1"];
        assert_eq!(send(&slow)["totals"]["sent"], 1);
    }
    // The next packets are due after 100 s.
    assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
}

#[test]
fn the_gap_between_loops_is_not_faster_than_asked() {
    let directory = tempdir().unwrap();
    let [from, to] = ["x.pcap", "y.pcapng"].map(|name| directory.path().join(name));
    write(&from, 1, &[packets::udp4(0).build(), packets::udp4(1).build()]);
    let port = format!("file:{}", to.display());
    let from = from.display().to_string();
    send(&[&port, &from, "--speed", "10x", "--loop", "2", "--loop-gap", "30ms"]);
    let times: Vec<_> = super::packets(&to).iter().map(|packet| packet.timestamp).collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [100_000, 30_000_000, 100_000]);
}

#[test]
fn checksums_that_cannot_be_computed_are_told() {
    let directory = tempdir().unwrap();
    let [from, to] = ["x.pcap", "y.pcapng"].map(|name| directory.path().join(name));
    let mut fragment = packets::udp4(0).length(600).build();
    fragment[20] |= 0x20;
    write(&from, 1, &[fragment, packets::udp4(1).build()]);
    let port = format!("file:{}", to.display());
    let from = from.display().to_string();
    for (more, expected) in [(&["--fix-checksums"][..], 1), (&[], 0)] {
        let summary = send(&[&[port.as_str(), &from, "--top-speed"], more].concat());
        let notes = summary["ports"][0]["notes"].to_string();
        let told = "1 packet with the transport checksum of the file";
        assert_eq!(notes.matches(told).count(), expected, "{notes}");
    }
}
