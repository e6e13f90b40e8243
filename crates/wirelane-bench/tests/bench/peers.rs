//! Wirelane's command as a process, compared with other programs.

use std::time::Duration;

use wirelane_bench::Effort;
use wirelane_bench::job::{SamplingPlan, measured};
use wirelane_bench::peers::find;
use wirelane_bench::peers::senders::SENDERS;
use wirelane_bench::suites::capture::write;
use wirelane_bench::suites::noloss::{self, Sought};
use wirelane_bench::suites::send::{self, SendCase, SendSelection};
use wirelane_testkit::privileged;

use super::wirelane;

fn once(window_ms: u64) -> SamplingPlan {
    SamplingPlan { samples: 1, window: Duration::from_millis(window_ms), limit: None }
}

/// A quick run leaves out writing to a disk.
#[test]
fn privileged_writing_to_a_disk_stands_beside_dd() {
    if !privileged::require() {
        return;
    }
    let disk = tempfile::tempdir().unwrap();
    let report = measured("capture", once(300), |job| {
        write::write(&mut job.of_command(&wirelane()), Some(disk.path()))
    });
    let report = report.unwrap();
    let of = |peer: Option<&str>| {
        let rows = report.rows.iter().filter(|row| row.peer == peer && row.metric == "bits_per_s");
        rows.map(|row| row.samples[0]).collect::<Vec<_>>()
    };
    // To memory and to the disk.
    assert_eq!(of(None).len(), 2, "{:?}", report.skipped);
    assert_eq!(of(Some("dd")).len(), if find("dd").is_some() { 2 } else { 0 });
    assert!(of(None).iter().chain(&of(Some("dd"))).all(|rate| *rate > 0.0));
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn privileged_the_rate_without_loss_is_searched_for_others_too() {
    if !privileged::require() {
        return;
    }
    // With this precision, the search ends after its first steps.
    let quick = Sought::of(&Effort { quick: true, ..Effort::default() });
    let sought = Sought { sizes_of_others: 1, resolution: 0.6, ..quick };
    let report = measured("noloss", once(60), |mut job| noloss::noloss(&sought, None, &mut job));
    let report = report.unwrap();
    for (peer, mode) in [
        ("dpdk-testpmd", "native"),
        ("tcpdump", "tpacket-v3"),
        ("dumpcap", "tpacket-v3"),
        ("netsniff-ng", "tpacket-v3"),
    ] {
        let reason = report.skipped.iter().find(|skipped| skipped.case == peer);
        if find(peer).is_none() {
            let reason = &reason.unwrap().reason;
            assert!(reason.contains("Debian package"), "{reason}");
            continue;
        }
        assert!(reason.is_none(), "{reason:?}");
        let of = |peer: Option<&str>, metric: &str| {
            let rows = report.rows.iter().filter(|row| row.peer == peer && row.metric == metric);
            rows.filter(|row| row.params.has(("mode", mode))).collect::<Vec<_>>()
        };
        let [theirs] = of(Some(peer), "packets_per_s")[..] else { panic!("{:?}", report.rows) };
        let [ours] = of(None, "packets_per_s")[..] else { panic!("{:?}", report.rows) };
        assert_eq!((theirs.suite, theirs.case, &theirs.params), ("noloss", "rx", &ours.params));
        // On an overloaded machine, every rate may fail.
        assert!(theirs.samples.len() == 1 && theirs.samples[0] >= 0.0);
        let [bound, our_bound] = [Some(peer), None].map(|peer| of(peer, "sender_bound_share"));
        assert!(bound.len() == 1 && our_bound.len() == 1);
        let is_of_sender = bound[0].samples[0] * our_bound[0].samples[0] > 0.0;
        assert!(of(Some(peer), "latency_p50_ns").is_empty());
        let ratio = report.ratios.iter().find(|ratio| ratio.peer == peer);
        let has_ratio = theirs.samples[0] > 0.0 && !is_of_sender;
        assert_eq!(ratio.is_some(), has_ratio, "{ours:?} {theirs:?}");
        let started = &report.environment.commands;
        assert!(started.iter().any(|line| line.starts_with(peer)), "{started:?}");
    }
}

/// A program that is missing, or cannot send such packets, is listed with its reason.
#[test]
fn privileged_ours_and_others_send_and_what_arrives_is_counted() {
    if !privileged::require() {
        return;
    }
    let wanted = SendSelection {
        cases: vec![SendCase::Generate, SendCase::Engine, SendCase::Timing, SendCase::Drift],
        sizes: vec![64],
        drift: Duration::from_millis(200),
        drifts: 2,
    };
    let report = measured("send", once(100), |job| {
        send::send(&wanted, None, &mut job.of_command(&wirelane()))
    });
    let report = report.unwrap();
    let of = |case: &str, peer: Option<&str>, metric: &str| {
        let is_it = |row: &&_| {
            let row: &wirelane_bench::row::FigureRow = row;
            (row.case, row.peer, row.metric) == (case, peer, metric)
        };
        report.rows.iter().find(is_it).map(|row| row.samples[0])
    };
    let skipped = &report.skipped;
    assert!(of("generate", None, "packets_per_s").unwrap() > 0.0, "{skipped:?}");
    assert!(of("engine", None, "packets_per_s").unwrap() > 0.0, "{skipped:?}");
    assert!(of("drift", None, "error_drift_ns").is_some(), "{skipped:?}");
    for peer in [None, Some("tcpreplay")] {
        let [half, most, all] = ["p50", "p99", "max"]
            .map(|share| of("timing", peer, &format!("error_gap_{share}_ns")).unwrap());
        assert!(half <= most && most <= all, "{peer:?}: {half} {most} {all}");
    }
    for sender in SENDERS {
        let reason = skipped.iter().find(|skipped| skipped.case == sender.name);
        match of("generate", Some(sender.name), "packets_per_s") {
            Some(rate) => assert!(rate > 0.0),
            None => assert!(reason.is_some(), "{} is neither measured nor listed", sender.name),
        }
    }
    // These two work on any machine that has them.
    for name in ["tcpreplay", "trafgen"] {
        let reason = skipped.iter().find(|skipped| skipped.case == name);
        assert_eq!(reason.is_none(), find(name).is_some(), "{reason:?}");
    }
    let ratio = report.ratios.iter().find(|ratio| ratio.peer == "tcpreplay");
    assert!(ratio.is_none_or(|ratio| ratio.median > 0.0));
}
