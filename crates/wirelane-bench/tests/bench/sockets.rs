//! `wirelane bench sockets`.

use serde_json::Value;
use wirelane_testkit::tools;

use super::bench;

const PEER: &str = "dpdk-testpmd";
/// The program with null devices, which generate packets like a simulated interface.
const NOWHERE: &str = "dpdk-testpmd over net_null";

/// The rows of a report, after checking their common properties.
fn sockets_rows(report: &Value, samples: u64) -> &[Value] {
    assert_eq!(report["schema"], "wirelane.bench/1");
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(row["suite"], "sockets");
        let peer = row["peer"].as_str();
        assert!(peer.is_none_or(|peer| [PEER, NOWHERE, "tcpreplay"].contains(&peer)), "{row}");
        assert_eq!(row["samples"], samples, "{row}");
        let case = row["case"].as_str().unwrap();
        let cases =
            ["rxdrop", "txpush", "l2fwd", "xdp-drop", "xdp-redirect", "rxdrop-paced", "replay"];
        assert!(cases.contains(&case), "{row}");
        let metric = row["metric"].as_str().unwrap();
        let unit = match metric {
            _ if metric.ends_with("_per_s") => "1/s",
            _ if metric.contains("ns_per_packet") || metric == "ns_over_xdp_drop" => "ns",
            _ => "1",
        };
        assert_eq!(row["unit"], unit, "{row}");
        let params: Vec<_> = row["params"].as_object().unwrap().keys().collect();
        match case {
            "replay" => assert_eq!(params, ["port", "size"]),
            "rxdrop-paced" => assert_eq!(params, ["mode", "offered", "port", "queues", "size"]),
            _ => assert_eq!(params, ["mode", "port", "queues", "size"]),
        }
        assert!(row["source"].is_null() || row["source"]["document"] == "001", "{row}");
    }
    rows
}

/// The median of a metric of one case.
fn median(rows: &[Value], case: &str, port: &str, size: u64, metric: &str) -> Option<f64> {
    let row = rows.iter().find(|row| {
        let params = &row["params"];
        (&row["case"], &params["port"], &row["metric"])
            == (&case.into(), &port.into(), &metric.into())
            && params["size"] == size
            && row["peer"].is_null()
    });
    row?["median"].as_f64()
}

#[test]
fn sockets_of_a_named_port_in_json() {
    let ended = bench(&[
        "sockets",
        "--port",
        "sim:2",
        "--size",
        "60",
        "--size",
        "9000",
        "--samples",
        "2",
        "--seconds",
        "200ms",
        "--json",
    ]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!((ended.stdout.matches('\n').count(), ended.stderr.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = sockets_rows(&report, 2);
    assert_eq!(report["skipped"], Value::Array(Vec::new()));
    for case in ["rxdrop", "txpush", "l2fwd"] {
        for size in [60, 9000] {
            let of = |metric| median(rows, case, "sim", size, metric);
            assert!(of("packets_per_s").unwrap() > 0.0);
            for metric in ["ns_per_packet", "cpu_ns_per_packet", "user_ns_per_packet"] {
                assert!(of(metric).unwrap() >= 0.0);
            }
            assert!(of("system_ns_per_packet").is_some() && of("offered_per_s").is_none());
            assert_eq!(of("packets_per_batch"), Some(64.0));
            // A port that waits for its consumer loses no packet.
            assert_eq!(of("lost_share"), (case != "txpush").then_some(0.0));
            let shares = [1, 2, 4, 8, 16, 32, 64].map(|packets| {
                median(rows, case, "sim", size, &format!("batch_{packets}_share")).unwrap()
            });
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        }
    }
    assert!(rows.iter().all(|row| row["params"]["queues"] == 2));
}

#[test]
fn what_a_port_loses_is_told() {
    // A higher rate than one core can receive, from a port that does not wait.
    let port = "sim:1?rate=1Gpps&frames=256";
    let args = ["sockets", "--port", port, "--case", "rxdrop", "--size", "64"];
    let ended = bench(&[&args[..], &["--samples", "1", "--seconds", "2s", "--json"]].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of = |metric| median(sockets_rows(&report, 1), "rxdrop", "sim", 64, metric).unwrap();
    let lost = of("lost_share");
    assert!(lost > 0.0 && lost < 1.0 && lost == of("lost_ring_full_share"), "{lost}");
}

#[test]
fn privileged_sockets_in_a_lab_balance_and_leave_nothing() {
    if !wirelane_testkit::privileged::require() {
        return;
    }
    let interfaces = || std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    let before = interfaces();
    // A window longer than a loaded machine delays a thread.
    let ended = bench(&[
        "sockets",
        "--quick",
        "--samples",
        "1",
        "--seconds",
        "600ms",
        "--size",
        "64",
        "--json",
    ]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(interfaces(), before);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = sockets_rows(&report, 1);
    for port in ["packet", "xdp"] {
        for case in ["rxdrop", "txpush", "l2fwd"] {
            let of = |metric| median(rows, case, port, 64, metric);
            assert!(of("packets_per_s").unwrap() > 0.0, "{case} on {port}");
            if case != "txpush" {
                assert!(of("offered_per_s").unwrap() > 0.0);
                let lost = of("lost_share").unwrap();
                assert!((0.0..=1.0).contains(&lost), "{lost}");
            }
            assert!(of("packets_per_system_call").unwrap() > 1.0);
        }
    }
    for mode in ["native", "generic"] {
        let is_drop = |row: &&Value| row["case"] == "xdp-drop" && row["params"]["mode"] == mode;
        let metrics = rows.iter().filter(is_drop).map(|row| row["metric"].as_str().unwrap());
        let metrics: Vec<_> = metrics.collect();
        assert!(metrics.contains(&"packets_per_s") && !metrics.contains(&"cpu_ns_per_packet"));
        assert!(rows.iter().any(|row| row["case"] == "rxdrop" && row["params"]["mode"] == mode));
    }
    let skipped = report["skipped"].as_array().unwrap();
    let reason = |case: &str| {
        let mut skipped = skipped.iter().filter(|skipped| skipped["case"] == case);
        skipped.next().map(|skipped| skipped["reason"].as_str().unwrap())
    };
    assert!(reason("xdp-zerocopy").is_some_and(|reason| !reason.is_empty()));
    // The other programs have the same cases, or they are missing.
    let of_peer = |peer: &str| {
        let rows = rows.iter().filter(|row| row["peer"] == peer);
        rows.filter(|row| row["metric"] == "packets_per_s").count()
    };
    let installed = |peer, label, count| match reason(label) {
        Some(reason) => {
            assert!(!tools::require(peer), "{reason}");
            assert!(reason.contains("is not installed (Debian package"), "{reason}");
            false
        }
        None => {
            assert_eq!(of_peer(label), count, "{label}: {skipped:?}");
            true
        }
    };
    installed("tcpreplay", "tcpreplay", 1);
    assert!(
        of_peer("tcpreplay") == 0 || median(rows, "replay", "packet", 64, "lost_share").is_some()
    );
    // The kernel's work without a socket is measured, and the additional cost of sockets.
    for case in ["xdp-drop", "xdp-redirect"] {
        let rate = median(rows, case, "xdp", 64, "packets_per_s");
        assert!(rate.is_some_and(|rate| rate > 0.0), "{case}: {rate:?}");
    }
    for (case, port) in [("rxdrop", "xdp"), ("l2fwd", "packet"), ("xdp-redirect", "xdp")] {
        let over = median(rows, case, port, 64, "ns_over_xdp_drop");
        assert!(over.is_some_and(f64::is_finite), "{case}: {over:?}");
    }
    let paced = median(rows, "rxdrop-paced", "xdp", 64, "cpu_ns_per_packet");
    assert!(paced.is_some_and(|cpu| cpu > 0.0), "{paced:?}");
    if !installed(PEER, PEER, 4) || !installed(PEER, NOWHERE, 1) {
        return;
    }
    let promises = report["promises"].as_array().unwrap();
    let of_suite = promises.iter().filter(|promise| promise["suite"] == "sockets");
    let of_losses = |promise: &&Value| promise["what"].as_str().unwrap().contains("loses none");
    let (losses, ratios): (Vec<_>, Vec<_>) = of_suite.partition(of_losses);
    assert_eq!((losses.len(), ratios.len()), (6, 6));
    for promise in losses {
        // A busy machine may lose packets at any rate. A quick run has only the lowest and the
        // highest rate.
        assert!(promise["met"].is_null() && promise["reason"].is_string(), "{promise}");
    }
    for promise in ratios {
        assert!(promise["median"].as_f64().unwrap() > 0.0 && promise["met"].is_null());
        assert_eq!(promise["reason"], "one sample cannot tell", "{promise}");
    }
    let others = promises.iter().filter(|promise| promise["suite"] != "sockets");
    assert!(others.clone().count() > 20);
    for promise in others {
        assert!(promise["met"].is_null() && promise["reason"].is_string(), "{promise}");
    }
    let ratios = report["ratios"].as_array().unwrap();
    for case in ["rxdrop", "txpush", "l2fwd"] {
        let mut of_case = ratios.iter().filter(|ratio| ratio["case"] == case);
        let ratio = of_case.find(|ratio| ratio["metric"] == "packets_per_s").unwrap();
        assert!(ratio["median"].as_f64().unwrap() > 0.0, "{ratio}");
    }
    let commands = report["environment"]["commands"].as_array().unwrap();
    let of_peer = commands.iter().filter(|line| line.as_str().unwrap().starts_with(PEER));
    assert_eq!(of_peer.count(), 4, "{commands:?}");
}
