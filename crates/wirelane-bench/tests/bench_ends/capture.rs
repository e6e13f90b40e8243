//! The figures of `wirelane bench capture`: Wirelane's command as a process, compared with other
//! programs.

use serde_json::Value;
use wirelane_bench::peers::capture::PROGRAMS;
use wirelane_bench::peers::find;

/// Checks every part of a report of a run with one sample.
pub(super) fn has_its_figures(report: &Value) {
    let figures = |case: &str, peer: Option<&str>, metric: &str| {
        let rows = report["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| {
            row["case"] == case && row["peer"].as_str() == peer && row["metric"] == metric
        });
        rows.map(|row| row["median"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let list = |name: &str| report[name].as_array().unwrap();
    let reason = |case: &str| {
        let skipped = list("skipped").iter().find(|skipped| skipped["case"] == case);
        skipped.map(|skipped| skipped["reason"].as_str().unwrap())
    };
    let is_missing = |name: &str| match reason(name) {
        Some(reason) => {
            assert!(find(name).is_none() && reason.contains("Debian package"), "{reason}");
            true
        }
        None => false,
    };
    for program in PROGRAMS {
        let peer = (!program.is_ours()).then_some(program.name);
        if peer.is_some_and(&is_missing) {
            continue;
        }
        // Without and with writing.
        for metric in ["cpu_ns_per_packet_under_load", "cpu_ns_per_packet"] {
            let figures = figures("cpu", peer, metric);
            assert!(figures.len() == 2, "{} {metric}: {figures:?}", program.name);
            assert!(figures.iter().all(|cpu| *cpu > 0.0), "{} {metric}: {figures:?}", program.name);
        }
        // A busy machine may lose some packets, never all.
        let lost = figures("cpu", peer, "lost_share");
        assert!(lost.len() == 2 && lost.iter().all(|lost| *lost < 1.0), "{lost:?}");
        let ratio = list("ratios").iter().find(|ratio| ratio["peer"].as_str() == peer);
        let ratio = ratio.map(|ratio| ratio["median"].as_f64().unwrap());
        assert!(peer.is_none() || ratio.is_some_and(|ratio| ratio > 0.0), "{}", program.name);
        let mut started = report["environment"]["commands"].as_array().unwrap().iter();
        assert!(started.any(|line| line.as_str().unwrap().starts_with(program.name)));
    }
    for (case, peer, metric, count) in [
        ("write", "dd", "bits_per_s", 1),
        ("short", "tcpdump", "cpu_ns_of_process", 1),
        ("print", "", "receiving_cpu_ns_per_packet", 0),
    ] {
        let ours = figures(case, None, metric);
        assert!(!ours.is_empty() && ours.iter().all(|value| *value > 0.0), "{case}: {ours:?}");
        if count > 0 && !is_missing(peer) {
            let theirs = figures(case, Some(peer), metric);
            assert!(theirs.len() == count && theirs.iter().all(|value| *value > 0.0), "{theirs:?}");
        }
    }
    // `print` with and without lines; `several` without and with writing, by one process and by
    // three.
    let rows = |case: &str| list("rows").iter().filter(|row| row["case"] == case).count();
    assert_eq!((rows("print"), rows("several")), (2, 4), "{:?}", list("skipped"));
    let promises = list("promises").iter();
    let targets = promises.filter(|one| one["what"].as_str().unwrap().contains("beside three"));
    assert_eq!(targets.filter(|target| target["median"].is_f64()).count(), 2);
    for case in ["short", "cpu", "several", "print", "write"] {
        assert!(reason(case).is_none(), "{case}: {:?}", reason(case));
    }
}
