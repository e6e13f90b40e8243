//! `wirelane bench` as a user meets it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::process::{Output, output};

fn bench(args: &[&str]) -> Output {
    output(Command::new(env!("CARGO_BIN_EXE_wirelane")).arg("bench").args(args))
}

#[test]
fn qdisc_in_json_is_one_object_of_the_schema() {
    let args = ["qdisc", "--quick", "--samples", "1", "--json"];
    let ended = bench(&args);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!((ended.stdout.matches('\n').count(), ended.stderr.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["schema"], "wirelane.bench/1");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["command"], format!("wirelane bench {}", args.join(" ")));
    assert!(report["machine"]["cores"].is_u64() && report["machine"]["kernel"].is_string());
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let keys = ["better", "case", "max", "median", "metric", "min", "params", "peer"];
        let more = ["samples", "source", "suite", "unit", "values"];
        let keys: Vec<_> = keys.into_iter().chain(more).collect();
        assert_eq!(row.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        assert_eq!((&row["suite"], &row["samples"]), (&"qdisc".into(), &1.into()));
        assert!(row["params"].is_object() && row["unit"].is_string(), "{row}");
        let [min, median, max] = ["min", "median", "max"].map(|key| row[key].as_f64().unwrap());
        assert!(min <= median && median <= max, "{row}");
        assert!(row["source"].is_null() || row["source"]["document"] == "004", "{row}");
    }
    let locks = |case: &str, producers: u64, round: Option<u64>| -> Vec<f64> {
        let wanted = rows.iter().filter(|row| {
            let params = &row["params"];
            (row["case"] == case && row["metric"] == "locks_per_packet")
                && (params["producers"] == producers && params["batch"] == 32)
                && params["round"].as_u64() == round
        });
        wanted.map(|row| row["median"].as_f64().unwrap()).collect()
    };
    // Two sizes each, two kinds of lockless; 8 producers may end with a queue to empty.
    assert_eq!(locks("fifo", 1, None), [6.0; 2]);
    assert_eq!(
        (locks("bulk", 1, Some(8)), locks("bulk", 1, Some(32))),
        (vec![2.5; 2], vec![2.125; 2])
    );
    for producers in [1, 2, 4, 8] {
        assert!(locks("lockless", producers, None).iter().all(|locks| *locks == 0.0));
        assert!(locks("fifo", producers, None).iter().all(|locks| (6.0..6.1).contains(locks)));
    }
    let peer = rows.iter().any(|row| row["peer"] == "rte_ring");
    let skipped = report["skipped"].as_array().unwrap();
    assert!(peer != skipped.iter().any(|skipped| skipped["case"] == "rte_ring"), "{skipped:?}");
}

/// The rows of a report, checked for what all of them have in common.
fn sockets_rows(report: &Value, samples: u64) -> &[Value] {
    assert_eq!(report["schema"], "wirelane.bench/1");
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!((&row["suite"], &row["peer"]), (&"sockets".into(), &Value::Null));
        assert_eq!(row["samples"], samples, "{row}");
        assert!(["rxdrop", "txpush", "l2fwd", "xdp-drop"].contains(&row["case"].as_str().unwrap()));
        let metric = row["metric"].as_str().unwrap();
        let unit = match metric {
            _ if metric.ends_with("_per_s") => "1/s",
            _ if metric.contains("ns_per_packet") => "ns",
            _ => "1",
        };
        assert_eq!(row["unit"], unit, "{row}");
        let params: Vec<_> = row["params"].as_object().unwrap().keys().collect();
        assert_eq!(params, ["mode", "port", "queues", "size"]);
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
            // A port that waits for its consumer loses nothing.
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
    // More than one core can receive, from a port that does not wait.
    let port = "sim:1?rate=1Gpps&frames=256";
    let args = ["sockets", "--port", port, "--case", "rxdrop", "--size", "64"];
    let ended = bench(&[&args[..], &["--samples", "1", "--seconds", "200ms", "--json"]].concat());
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
    let started = std::time::Instant::now();
    // Longer than a loaded machine keeps a thread waiting.
    let ended = bench(&[
        "sockets",
        "--quick",
        "--samples",
        "1",
        "--seconds",
        "300ms",
        "--size",
        "64",
        "--json",
    ]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
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
    let [zerocopy] = skipped.as_slice() else { panic!("{skipped:?}") };
    assert_eq!(zerocopy["case"], "xdp-zerocopy");
    assert!(!zerocopy["reason"].as_str().unwrap().is_empty());
}

#[test]
fn privileged_gso_has_rates_costs_and_speedups() {
    if !wirelane_testkit::privileged::require() {
        return;
    }
    let interfaces = || std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
    let before = interfaces();
    let args = ["gso", "--quick", "--samples", "1", "--seconds", "200ms", "--json"];
    let narrow =
        ["--case", "tcp4", "--case", "udp6", "--case", "gro-tcp6", "--cpu", "100", "--cpu", "50"];
    let ended = bench(&[&args[..], &narrow].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(interfaces(), before);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["suite"] == "gso" && row["samples"] == 1));
    // Shares of a CPU are left out where there is no cgroup for them.
    let skipped = report["skipped"].as_array().unwrap();
    assert!(skipped.iter().all(|skipped| skipped["case"] == "quota"), "{skipped:?}");
    let shares: &[u64] = if skipped.is_empty() { &[100, 50] } else { &[100] };
    let of = |case: &str, offload: &str, cpu: u64, metric: &str| {
        let row = rows.iter().find(|row| {
            let params = &row["params"];
            row["case"] == case
                && params["offload"] == offload
                && params["cpu"] == cpu
                && row["metric"] == metric
        });
        row.and_then(|row| row["median"].as_f64())
    };
    for cpu in shares {
        for (case, offloads) in [
            ("tcp4", &["kernel", "wirelane", "none", "stack"][..]),
            ("udp6", &["kernel", "wirelane", "none"]),
            ("gro-tcp6", &["kernel", "wirelane", "none"]),
        ] {
            for offload in offloads {
                let rate = of(case, offload, *cpu, "bits_per_s");
                assert!(rate.is_some_and(|rate| rate > 0.0), "{case} {offload} {cpu}: {rows:?}");
            }
            let (own, none) =
                (of(case, "wirelane", *cpu, "bits_per_s"), of(case, "none", *cpu, "bits_per_s"));
            let expected = own.unwrap() / none.unwrap();
            assert!((of(case, "wirelane", *cpu, "speedup").unwrap() - expected).abs() < 1e-9);
            assert_eq!(of(case, "none", *cpu, "speedup"), None);
        }
    }
    let segments = rows.iter().filter(|row| row["case"] == "segment");
    assert_eq!(segments.filter(|row| row["metric"] == "ns_per_segment").count(), 12);
}

#[test]
fn help_and_wrong_usage() {
    for (suite, options) in [
        ("qdisc", &["--quick", "--json", "--samples"][..]),
        ("gso", &["--quick", "--json", "--samples", "--cpu", "--case", "--offload", "--seconds"]),
        (
            "sockets",
            &["--quick", "--json", "--samples", "--port", "--case", "--size", "--seconds", "--all"],
        ),
    ] {
        let help = bench(&[suite, "--help"]);
        assert!(help.status.success());
        for option in options {
            assert!(help.stdout.contains(option), "{}", help.stdout);
        }
    }
    for args in [
        &["nothing"][..],
        &["gso", "--cpu", "4"],
        &["gso", "--case", "tcp"],
        &["gso", "--port", "sim"],
        &["qdisc", "--samples", "0"],
        &["qdisc", "more"],
        &["sockets", "--size", "59"],
        &["sockets", "--case", "rx"],
        &["sockets", "--case", "xdp-drop", "--port", "sim:1"],
        &["sockets", "--port", "nothing:x"],
        &["sockets", "--port", "sim:1?size=64"],
        &["sockets", "--port", "file:x.pcap"],
        &["sockets", "--seconds", "0s"],
    ] {
        let ended = bench(args);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn compare_finds_what_became_worse() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, factor: f64| {
        let values: Vec<f64> = [10.0, 10.1, 9.9, 10.2, 10.0].map(|value| value * factor).to_vec();
        let row = serde_json::json!({
            "suite": "qdisc", "case": "fifo", "peer": null, "params": { "producers": 2 },
            "metric": "ns_per_packet", "unit": "ns", "values": values,
        });
        let report = serde_json::json!({ "schema": "wirelane.bench/1", "rows": [row] });
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, report.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, same, slow) =
        (write("old.json", 1.0), write("same.json", 1.01), write("slow.json", 2.0));
    let ended = bench(&["compare", &old, &same]);
    assert!(ended.status.success() && ended.stdout.contains("1 the same within 10 %"), "{ended:?}");
    let ended = bench(&["compare", &old, &slow]);
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(ended.stderr, "wirelane: comparison: 1 figure became worse\n");
    assert!(ended.stdout.starts_with("worse   qdisc fifo producers=2: ns_per_packet"), "{ended:?}");
    assert!(bench(&["compare", &old, &slow, "--threshold", "200"]).status.success());
    let ended = bench(&["compare", &slow, &old, "--json"]);
    let comparison: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(comparison["schema"], "wirelane.compare/1");
    assert_eq!(comparison["changes"][0]["verdict"], "improvement");
    // Folders hold runs made in turns.
    write("new/1.json", 1.5);
    write("new/2.json", 1.6);
    let new = folder.path().join("new");
    assert_eq!(bench(&["compare", &old, new.to_str().unwrap()]).status.code(), Some(1));
    let empty = tempfile::tempdir().unwrap();
    for (path, cause) in [(empty.path(), "no file ending in .json"), (Path::new("/none"), "ENOENT")]
    {
        let ended = bench(&["compare", &old, path.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stderr.lines().count() == 1 && ended.stderr.contains(cause), "{ended:?}");
    }
}

#[test]
fn all_suites_on_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("deep/out");
    let ended = bench(&["all", "--quick", "--samples", "1", "--report", out.to_str().unwrap()]);
    assert!(ended.status.success() && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.lines().count() == 1, "{ended:?}");
    let text = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for suite in ["sockets", "qdisc"] {
        assert!(rows.iter().any(|row| row["suite"] == suite), "{suite}");
    }
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Source 004"));
    let written = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(written, 2);
    // A run compares with itself.
    let json = out.join("report.json");
    let json = json.to_str().unwrap();
    assert!(bench(&["compare", json, json]).status.success());
    // Nothing is measured for a folder that cannot be written.
    let blocked = json.to_owned() + "/out";
    let ended = bench(&["all", "--report", &blocked]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("ENOTDIR"), "{ended:?}");
}
