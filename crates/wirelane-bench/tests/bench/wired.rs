//! Every suite on the user's interfaces: on both ends of a cable, or on one interface to which
//! other hosts send.

use std::process::Command;

use serde_json::Value;
use wirelane_lab::Site;
use wirelane_os::affinity;
use wirelane_send::kernel::{LivePace, LiveSender};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::process::{Output, output};
use wirelane_testkit::veth::VethPair;

use super::{BENCH, bench};

/// Packets per second from outside.
const RATE: u64 = 50_000;

/// A user's host, and its cable.
struct Host {
    namespace: Namespace,
    pair: VethPair,
}

impl Host {
    fn new() -> Self {
        let namespace = Namespace::new();
        let pair = VethPair::new(&namespace, &namespace, 2, 1500);
        // With GRO, redirected packets arrive.
        for end in [&pair.a, &pair.b] {
            let on = || Site::here(&end.interface).unwrap().set_gro(true).unwrap();
            namespace.inside(on);
        }
        Self { namespace, pair }
    }

    /// Runs a suite, without other programs.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BENCH);
        command.args(arguments).args(["--quick", "--samples", "1", "--json"]);
        command.env("PATH", "/nowhere");
        self.namespace.inside(|| output(&mut command))
    }

    fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let ended = self.run(arguments);
        assert!(ended.status.success(), "{arguments:?}: {}", ended.stderr);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let rows = report["rows"].as_array().unwrap();
        assert!(!rows.is_empty(), "{arguments:?}: {}", report["skipped"]);
        rows.clone()
    }
}

/// The median of a metric of a case. Checks these conditions in all rows of the case.
#[track_caller]
fn median(rows: &[Value], case: &str, metric: &str, conditions: &[(&str, &str)]) -> f64 {
    let mut of_case = rows.iter().filter(|row| row["case"] == case && row["peer"].is_null());
    for row in of_case.clone() {
        for (name, value) in conditions {
            assert_eq!(row["params"][name], *value, "{name}: {row}");
        }
    }
    let row = of_case.find(|row| row["metric"] == metric);
    row.unwrap_or_else(|| panic!("no {metric} of {case}: {rows:?}"))["median"].as_f64().unwrap()
}

#[test]
fn privileged_both_ends_of_a_cable_are_measured() {
    if !privileged::require() {
        return;
    }
    let host = Host::new();
    let (near, far) = (host.pair.a.interface.as_str(), host.pair.b.interface.as_str());
    let [packet, xdp] = ["packet", "xdp"].map(|kind| format!("{kind}:{far}"));
    let from = [("interface", far), ("load", near)];
    let native = [&[("port", "xdp"), ("mode", "native")], &from[..]].concat();
    let tpacket = [&[("port", "packet"), ("mode", "tpacket-v3")], &from[..]].concat();

    let brief = ["--size", "64", "--seconds", "50ms", "--load", near];
    let sockets = [&["sockets", "--port", &xdp, "--all", "--case", "rxdrop"], &brief[..]].concat();
    let rows = host.rows(&sockets);
    assert!(median(&rows, "rxdrop", "packets_per_s", &native) > 0.0);
    // The sender is known, so losses are known.
    assert!(median(&rows, "rxdrop", "offered_per_s", &native) > 0.0);
    assert!((0.0..=1.0).contains(&median(&rows, "rxdrop", "lost_share", &native)));

    // From one cable to another.
    let second = VethPair::new(&host.namespace, &host.namespace, 2, 1500);
    let to = format!("packet:{}", second.a.interface);
    let before = second.b.statistic("rx_packets");
    let l2fwd = ["sockets", "--port", &packet, "--to", &to, "--case", "l2fwd"];
    let rows = host.rows(&[&l2fwd, &brief[..]].concat());
    let through = [&[("to", to.as_str()), ("to_mode", "tpacket-v3")], &tpacket[..]].concat();
    assert!(median(&rows, "l2fwd", "packets_per_s", &through) > 0.0);
    let forwarded = second.b.statistic("rx_packets") - before;
    assert!(forwarded as f64 >= median(&rows, "l2fwd", "packets", &through), "{forwarded}");

    let rows = host.rows(&[&["noloss", "--port", &packet], &brief[..]].concat());
    assert!(median(&rows, "rx", "packets_per_s", &tpacket) >= 0.0);

    let rows = host.rows(&["capture", "--port", &packet, "--load", near]);
    assert!(median(&rows, "single", "packets_per_s", &tpacket) > 0.0);
    let rows = host.rows(&["scaling", "--port", &packet, "--load", near]);
    assert!(median(&rows, "rx", "packets_per_s", &tpacket) > 0.0);

    let at = |count_at| [("interface", near), ("count_at", count_at)];
    let send = ["send", "--port", near, "--size", "64", "--seconds", "50ms", "--case"];
    let counted = ["--count-at", far];
    let rows = host.rows(&[&send[..], &["engine"], &counted].concat());
    assert!(median(&rows, "engine", "packets_per_s", &at(far)) > 0.0);
    let rows = host.rows(&[&send[..], &["timing"], &counted].concat());
    assert!(median(&rows, "timing", "error_gap_p99_ns", &at(far)) > 0.0);
    // The sending interface counts packets, but has no arrival times.
    let rows = host.rows(&[&send[..], &["engine", "--case", "timing"]].concat());
    assert!(median(&rows, "engine", "packets_per_s", &at("interface")) > 0.0);
    assert!(rows.iter().all(|row| row["case"] != "timing"));
}

#[test]
fn privileged_what_others_send_is_recorded_and_makes_flows() {
    if !privileged::require() {
        return;
    }
    let host = Host::new();
    let (near, far) = (&host.pair.a.interface, &host.pair.b.interface);
    let port = format!("packet:{far}");
    let mode = ("mode", "tpacket-v3");
    let conditions = [("port", "packet"), mode, ("interface", far), ("load", "outside")];

    // Without a sender, there is no figure.
    let ended = host.run(&["record", "--port", &port]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 0, "{report}");
    assert!(report["skipped"].to_string().contains("no packet came from outside"), "{report}");

    let frame = [&[0xff; 12][..], &[0x88, 0xb5], &[7; 86]].concat();
    let cpu = affinity::allowed_cpus().unwrap().first().copied();
    let pace = LivePace { count: None, rate: Some(RATE), cpu };
    let start = || LiveSender::new(near, &[frame])?.start(pace);
    let sending = host.namespace.inside(start).unwrap();
    let rows = host.rows(&["record", "--port", &port]);
    assert!(median(&rows, "cost", "cpu_ns_per_packet", &conditions) > 0.0);
    // If stenotype is installed, it is measured with and without its index.
    let cases = ["cost", "cost-without-index"];
    assert!(rows.iter().all(|row| cases.iter().any(|case| row["case"] == *case)), "{rows:?}");
    let rows = host.rows(&["flows", "--port", &port]);
    assert!(median(&rows, "live", "cpu_ns_per_packet", &conditions) > 0.0);
    let rate = median(&rows, "live", "packets_per_s", &conditions);
    assert!(rate > 0.0 && rate < 10.0 * RATE as f64, "{rate}");
    sending.stop().unwrap();
}

#[test]
fn what_a_port_has_no_part_in_is_refused_in_words() {
    for (arguments, words) in [
        (&["filter", "--port", "packet:lo"][..], "no port has a part in it"),
        (&["gso", "--port", "packet:lo"], "run 'wirelane forward tap:TAP packet:IF --gso'"),
        (&["noloss", "--port", "packet:lo"], "--load IF"),
        (&["noloss", "--port", "sim:1"], "no socket of an interface"),
        (&["noloss", "--load", "lo"], "--port"),
        (&["noloss", "--port", "lo", "--load", "lo"], "other end of its cable"),
        (&["record", "--port", "packet:lo", "--case", "query"], "it measures no port"),
        (&["record", "--port", "packet:lo", "--case", "veth"], "--load IF"),
        (&["flows", "--port", "packet:lo", "--case", "many"], "measure --case live"),
        (&["libpcap", "--port", "packet:lo", "--case", "batch"], "measure --case tcpdump"),
        (&["libpcap", "--port", "xdp:lo"], "name the interface: --port packet:IF"),
        (&["send", "--port", "packet:lo"], "name an interface"),
        (&["send", "--port", "lo", "--count-at", "lo"], "other end of its cable"),
        (&["sockets", "--port", "lo", "--rate", "1k"], "--load IF"),
    ] {
        let ended = bench(arguments);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}
