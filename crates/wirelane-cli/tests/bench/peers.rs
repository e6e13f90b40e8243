//! Our command as a process, beside other programs.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wirelane::bench::peers::capture::PROGRAMS;
use wirelane::bench::peers::{cost, find};
use wirelane::bench::report::Report;
use wirelane_testkit::privileged;

#[test]
fn privileged_captures_cost_cpu_time_and_have_ratios() {
    if !privileged::require() {
        return;
    }
    let own = Path::new(env!("CARGO_BIN_EXE_wirelane"));
    let plan = cost::Plan { own, samples: 1, window: Duration::from_millis(300), limit: None };
    let mut report = Report::new("test".into());
    cost::cost(&plan, &mut report, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
    report.finish();
    for program in PROGRAMS {
        let peer = (!program.is_ours()).then_some(program.name);
        let of = |metric| {
            let mut rows = report.rows.iter().filter(|row| row.peer == peer);
            rows.find(|row| row.metric == metric).map(|row| row.samples[0])
        };
        let reason = report.skipped.iter().find(|skipped| skipped.case == program.name);
        if peer.is_some() && find(program.name).is_none() {
            let reason = &reason.unwrap().reason;
            assert!(reason.contains("Debian package"), "{reason}");
            continue;
        }
        assert!(reason.is_none(), "{reason:?}");
        let [loaded, whole] = ["cpu_ns_per_packet_under_load", "cpu_ns_per_packet"].map(of);
        assert!(loaded.unwrap() > 0.0 && whole.unwrap() > 0.0, "{}", program.name);
        // A machine that is busy with other things may lose some, but not all.
        assert!(of("lost_share").unwrap() < 1.0, "{}", program.name);
        let ratio = report.ratios.iter().find(|ratio| Some(ratio.peer) == peer);
        assert!(peer.is_none() || ratio.is_some_and(|ratio| ratio.median > 0.0));
        let started = &report.environment.commands;
        assert!(started.iter().any(|line| line.starts_with(program.name)), "{started:?}");
    }
}
