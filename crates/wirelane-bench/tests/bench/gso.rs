//! `wirelane bench gso`.

use serde_json::Value;

use super::bench;

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
    // Without a cgroup, shares of a CPU are left out.
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
            ("tcp4", &["kernel", "device", "partial", "wirelane", "none", "stack"][..]),
            ("udp6", &["kernel", "wirelane", "none"]),
            ("gro-tcp6", &["kernel", "wirelane", "none"]),
        ] {
            for offload in offloads {
                let rate = of(case, offload, *cpu, "bits_per_s");
                assert!(rate.is_some_and(|rate| rate > 0.0), "{case} {offload} {cpu}: {rate:?}");
            }
            let (own, none) =
                (of(case, "wirelane", *cpu, "bits_per_s"), of(case, "none", *cpu, "bits_per_s"));
            let (expected, speedup) =
                (own.unwrap() / none.unwrap(), of(case, "wirelane", *cpu, "speedup").unwrap());
            assert!((speedup - expected).abs() < 1e-9, "{case} {cpu}: {speedup}");
            // No machine moves 100 GB in one second of a CPU.
            let cost = of(case, "wirelane", *cpu, "cpu_s_per_gb").unwrap();
            assert!(cost > 0.01, "{case} {cpu}: {cost}");
            assert_eq!(of(case, "none", *cpu, "speedup"), None);
        }
    }
    let pinned = &report["environment"]["pinned"][0];
    assert!(pinned["suite"] == "gso" && pinned["cpu"].is_u64(), "{pinned}");
    let segments = rows.iter().filter(|row| row["case"] == "segment");
    assert_eq!(segments.filter(|row| row["metric"] == "ns_per_segment").count(), 12);
}

#[test]
fn privileged_gso_of_several_flows_and_between_virtual_machines() {
    if !wirelane_testkit::privileged::require() {
        return;
    }
    let args = ["gso", "--quick", "--samples", "1", "--seconds", "100ms", "--json"];
    let narrow = ["--case", "udp4", "--case", "vm-tcp4", "--cpu", "100", "--flows", "3"];
    let ended = bench(&[&args[..], &narrow, &["--vectors", "portable"]].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["skipped"].as_array().unwrap().is_empty(), "{}", report["skipped"]);
    let rows = report["rows"].as_array().unwrap();
    for (case, port, offloads) in [
        ("udp4", "packet", &["kernel", "wirelane", "none"][..]),
        ("vm-tcp4", "tap", &["device", "wirelane", "none", "stack"]),
    ] {
        let rates = rows.iter().filter(|row| row["case"] == case && row["metric"] == "bits_per_s");
        let mut found = Vec::new();
        for row in rates {
            let params = &row["params"];
            assert_eq!((&params["flows"], &params["port"]), (&3.into(), &port.into()), "{row}");
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
            // The paper has no figures for these.
            assert!(row["source"].is_null(), "{row}");
            found.push(params["offload"].as_str().unwrap().to_owned());
        }
        assert_eq!(found, offloads, "{case}");
    }
    let mut segments = rows.iter().filter(|row| row["case"] == "segment");
    assert!(segments.all(|row| row["params"]["vectors"] == "portable"));
}
