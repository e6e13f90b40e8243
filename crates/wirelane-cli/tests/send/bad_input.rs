//! Impossible requests are refused with a message before any packet is sent.

use tempfile::tempdir;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::bounded;
use wirelane_testkit::veth::VethPair;
use wirelane_testkit::{packets, privileged};

use super::*;

#[test]
fn arguments_that_make_no_sense_are_usage_errors() {
    let packet = ["--packet", "ipv4 udp"];
    let cases: [(&[&str], &[&str]); 12] = [
        (&["send"], &["PORT"]),
        (&["send", "sim:1"], &["nothing was named", "--packet"]),
        (&["send", "sim:1", "--packet", "ipv4 udp dst=70000"], &["udp dst", "65535"]),
        (&["send", "sim:1", "--packet", "ipx"], &["ipx"]),
        (&["send", "sim:1", packet[0], packet[1], "--rate", "5"], &["5Mpps"]),
        (&["send", "sim:1", packet[0], packet[1], "--rate", "80%"], &["unknown speed"]),
        (&["send", "sim:1", packet[0], packet[1], "--speed", "2x"], &["--speed", "files"]),
        (&["send", "sim:1", packet[0], packet[1], "--size", "20"], &["20"]),
        (&["send", "sim:1", packet[0], packet[1], "--burst", "65"], &["1 to 64"]),
        (
            &["send", "sim:1", packet[0], packet[1], "--engine", "magic"],
            &["auto, sockets or kernel"],
        ),
        (&["send", "sim:1", "x.pcap", packet[0], packet[1]], &["cannot be used with"]),
        (&["send", "sim:1", "--top-speed", "--rate", "1pps", "x"], &["cannot be used with"]),
    ];
    for (args, parts) in cases {
        refused(args, 2, parts);
    }
}

#[test]
fn files_that_cannot_be_sent_are_refused() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    write(&path("empty.pcap"), 1, &[]);
    write(&path("wifi.pcap"), 105, &[vec![0; 60]]);
    fs::write(path("junk.pcap"), b"this is no capture file, but it is long enough").unwrap();
    fs::write(path("flows.yaml"), "ports: [{name: a}]\nflows: []\n").unwrap();
    refused(&["send", "sim:1", &text("none.pcap")], 1, &["none.pcap", "ENOENT"]);
    refused(&["send", "sim:1", &text("empty.pcap")], 1, &["empty.pcap", "no packets"]);
    refused(&["send", "sim:1", &text("wifi.pcap")], 1, &["wifi.pcap", "105"]);
    refused(&["send", "sim:1", &text("junk.pcap")], 1, &["junk.pcap"]);
    refused(&["send", "sim:1", "--flows", &text("flows.yaml")], 1, &["flows.yaml", "no flow"]);
    refused(&["send", "sim:1", "--flows", &text("none.yaml")], 1, &["none.yaml", "ENOENT"]);
}

/// A megabyte of aliases or keys needs little memory and time.
#[test]
fn a_small_file_of_flows_stays_small() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("flows.yaml");
    let long = "x".repeat(1_000_000);
    let aliases = format!("a: &a \"{long}\"\nb: [{}]\n", "*a, ".repeat(20_000));
    let keys: String = (0..80_000).map(|key| format!("k{key:07}: 1\n")).collect();
    for (text, part) in [(aliases, "repeat too much"), (keys, "k0000000")] {
        fs::write(&path, text).unwrap();
        let mut command = bounded(WIRELANE, 1_000_000);
        command.args(["send", "--flows"]).arg(&path).args(["--print", "1"]);
        let out = output(&mut command);
        assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
        assert!(out.stderr.contains(part), "{part}: {}", out.stderr);
    }
}

#[test]
fn privileged_packets_beyond_the_mtu_are_counted() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    let lengths = [60, 1514, 1519, 4000, 100];
    let frames = lengths.map(|length| packets::udp4(0).length(length).build());
    write(&path, 1, &frames);
    let (left, right) = (Namespace::new(), Namespace::new());
    let pair = VethPair::new(&left, &right, 1, 1500);
    for backend in ["packet", "xdp"] {
        let mut command = left.command(WIRELANE);
        let port = format!("{backend}:{}", pair.a.interface);
        command.args(["send", "--json", "--top-speed", &port]).arg(&path);
        let ended = output(&mut command);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let summary = sent(&parse(&ended.stdout));
        assert_eq!(summary["totals"]["sent"], 3, "{backend}: {summary}");
        let errors = number(&summary["tx"][0]["wrong_length"]);
        assert_eq!(errors + number(&summary["skipped"]["too_long"]), 2, "{backend}: {summary}");
        // One queue needs no choice, and AF_XDP names it.
        let by = if backend == "xdp" { "exact" } else { "only" };
        let binding = &summary["ports"][0]["tx_queues"][0];
        assert_eq!((&binding["by"], &binding["kept"]), (&by.into(), &true.into()), "{summary}");
        let words = "2 packets not sent because of the MTU; gso=on segments";
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn privileged_the_interface_of_the_own_ssh_connection_has_to_be_meant() {
    if !privileged::require() {
        return;
    }
    let session = ssh::Session::new();
    let [own, other] = [&session.pair.a.interface, &session.pair.b.interface];
    let send = |interface: &str, more: &[&str]| {
        let mut command = session.command();
        command.args(["send", "-q", interface, "--packet", "ipv4 udp", "-c", "1"]).args(more);
        output(&mut command)
    };
    session.assert_refused(&send(own, &[]));
    for ended in [send(own, &["--yes"]), send(other, &[])] {
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
}
