//! From files to files and simulated interfaces, without privileges.

use tempfile::tempdir;
use wirelane_testkit::packets;

use super::*;

#[test]
fn a_file_arrives_byte_for_byte_with_its_gaps_as_often_as_asked() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    let frames: Vec<_> =
        (0..40).map(|n| packets::udp4(n).length(60 + n as usize).build()).collect();
    write(&path("x.pcap"), 1, &frames);
    let to = format!("file:{}", text("y.pcapng"));
    let summary = send(&[&to, &text("x.pcap"), "--loop", "3", "--speed", "2x"]);
    assert_eq!(summary["totals"]["sent"], 120);
    assert_eq!(summary["engine"], "sockets");
    let seen = super::packets(path("y.pcapng"));
    let data: Vec<_> = seen.iter().map(|packet| packet.data.clone()).collect();
    assert!(data == [&frames[..]; 3].concat());
    for pair in seen.windows(2) {
        assert_eq!(pair[1].timestamp - pair[0].timestamp, 500_000, "twice as fast");
    }
    let scheduled = &summary["scheduled"];
    assert_eq!(scheduled["duration_s"], 0.0595);
    assert!(summary["departure_error"]["p99_ns"].is_u64(), "{summary}");
}

#[test]
fn packets_are_generated_to_the_number() {
    let summary = send(&[
        "sim:2",
        "--packet",
        "ipv4 dst=10.0.0.0/24 udp dst=53",
        "--packet",
        "ipv6 tcp",
        "--size",
        "100",
        "--rate",
        "100kpps",
        "-c",
        "5000",
    ]);
    assert_eq!(summary["totals"]["sent"], 5000);
    let rows = summary["tx"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| number(&row["bytes"])).sum::<u64>(), 500_000);
    let rate = summary["scheduled"]["packets_per_s"].as_f64().unwrap();
    assert!((rate - 100_000.0).abs() < 100.0, "{rate}");
}

#[test]
fn a_duration_ends_before_the_packet_that_is_due_then() {
    for (rate, sent) in [("10kpps", 2000), ("10pps", 2)] {
        let args = ["sim:1", "--packet", "ipv4 udp", "--rate", rate, "--duration", "200ms"];
        assert_eq!(send(&args)["totals"]["sent"], sent, "{rate}");
    }
    let args = ["sim:1", "--packet", "ipv4 udp", "--top-speed", "--duration", "50ms"];
    let summary = send(&args);
    assert!(number(&summary["totals"]["sent"]) > 100);
    assert_eq!((&summary["scheduled"], &summary["rate_error"]), (&Value::Null, &Value::Null));
}

#[test]
fn what_a_flow_file_describes_is_sent() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("flows.yaml");
    let flow = |name: &str, from: &str, packets: u32| {
        format!(
            "- name: {name}\n  tx_rx: {{choice: port, port: {{tx_name: {from}, rx_names: [b]}}}}\n  \
             packet: [{{choice: ethernet}}, {{choice: ipv4}}, {{choice: udp}}]\n  \
             rate: {{choice: pps, pps: 100000}}\n  \
             duration: {{choice: fixed_packets, fixed_packets: {{packets: {packets}}}}}\n"
        )
    };
    let flows = format!(
        "ports:\n- {{name: a, location: 'sim:1'}}\n- {{name: b}}\n- {{name: c}}\nflows:\n{}{}{}",
        flow("one", "a", 300),
        flow("two", "a", 20),
        flow("three", "c", 1)
    );
    fs::write(&path, flows).unwrap();
    let path = path.display().to_string();
    assert_eq!(send(&["sim:1", "--flows", &path])["totals"]["sent"], 320);
    assert_eq!(send(&["sim:2", "--flows", &path, "--from", "c"])["totals"]["sent"], 1);
    refused(&["send", "sim:2", "--flows", &path], 2, &["several ports", "--from: a, b, c"]);
    refused(&["send", "sim:2", "--flows", &path, "--from", "d"], 2, &["no such port", "a, b, c"]);
}

#[test]
fn flows_that_are_to_be_measured_are_noted() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wirelane-gen/tests/otg");
    let flows = |name: &str| script.join(name).display().to_string();
    let summary = send(&["sim:1", "--flows", &flows("quick.yaml"), "--top-speed"]);
    assert_eq!(summary["totals"]["sent"], 100);
    let notes = summary["ports"][0]["notes"].to_string();
    assert!(notes.contains("1 of 1 flows are to be measured"), "{notes}");
    // A share of an unknown speed.
    refused(
        &["send", "sim:1", "--flows", &flows("shapes.json"), "--from", "left"],
        2,
        &["--flows", "'steps'", "unknown speed"],
    );
}

#[test]
fn a_note_names_its_option_once() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    write(&path("x.pcap"), 1, &[packets::udp4(0).length(200).build()]);
    let cut = output(
        wirelane(["capture", "-q", "-s", "100", "-w", &text("cut.pcap")])
            .args(["-r", &text("x.pcap")]),
    );
    assert_eq!(cut.status.code(), Some(0), "{}", cut.stderr);
    let sent = output(&mut wirelane(["send", "sim:1", &text("cut.pcap")]));
    assert_eq!(sent.status.code(), Some(0), "{}", sent.stderr);
    let expected = "1 packet cut by a snap length: sent with zeros at the end (cut=pad)\n";
    assert!(sent.stderr.contains(expected), "{}", sent.stderr);
}
