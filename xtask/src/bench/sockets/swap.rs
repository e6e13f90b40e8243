//! Receive, swap addresses, send, on one CPU and without an interface: `sim:` beside testpmd's
//! `macswap` over two `net_null` devices, of which each receives what costs nothing to make.

use serde_json::json;
use wirelane_bench::peers::testpmd::{self, PACKAGE};
use wirelane_bench::task::Task;
use wirelane_testkit::process::ChildGuard;

use super::programs::{Place, bench};
use super::{LIMIT, SIZE, row};
use crate::bench::process::{on_cpus, run as run_to_end, two_cpus};
use crate::bench::report::{Report, Target};
use crate::bench::{Context, Result};

pub(super) fn run(context: &Context, report: &mut Report) -> Result<()> {
    let [_, cpu] = two_cpus()?;
    let seconds = context.load().as_secs();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..context.rounds() {
        let place = Place { interface: "", cpu, seconds, size: SIZE };
        let mut sides: [&mut dyn FnMut() -> Result<()>; 2] = [
            &mut || {
                ours.push(wirelane(context, &place)?);
                Ok(())
            },
            &mut || {
                theirs.extend(peer(context, &place)?);
                Ok(())
            },
        ];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            side()?;
        }
        if let (Some(ours), Some(theirs)) = (ours.last(), theirs.last()) {
            println!("macswap  wirelane {:7.2} Mpps, peer {:7.2} Mpps", ours / 1e6, theirs / 1e6);
        }
    }
    let ours_params = json!({ "port": "sim", "size": SIZE, "queues": 1 });
    let their_params = json!({ "port": "net_null", "size": SIZE, "ports": 2 });
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let rate = "packets_per_s";
    report.add(row("macswap", None, &ours_params, rate, "1/s", ours, None));
    if theirs.is_empty() {
        report.skip("macswap", format!("dpdk-testpmd is missing; Debian package {PACKAGE}"));
        return Ok(());
    }
    report.add(row("macswap", Some("dpdk-testpmd"), &their_params, rate, "1/s", theirs, None));
    let target = Some(Target::AtLeast(1.5));
    report.add(row("macswap", None, &ours_params, "rate_ratio", "", ratios, target));
    Ok(())
}

/// Packets per second through `sim:`.
fn wirelane(context: &Context, place: &Place<'_>) -> Result<f64> {
    context.proceed()?;
    let output = run_to_end(bench(context, Task::L2fwd, "sim:1", place), &[place.cpu])?;
    let report: serde_json::Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("wirelane gave no report: {error}"))?;
    let rows = report["rows"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["metric"] == "packets_per_s");
    row.and_then(|row| row["median"].as_f64()).ok_or_else(|| "wirelane gave no rate".into())
}

/// Packets per second of both devices together; `None` if the peer is not installed.
fn peer(context: &Context, place: &Place<'_>) -> Result<Option<f64>> {
    context.proceed()?;
    let Some(mut command) = testpmd::swap_nothing(place.size, place.cpu) else { return Ok(None) };
    let mut child = on_cpus(&[place.cpu], || ChildGuard::spawn(&mut command))?;
    let rate = |child: &ChildGuard| testpmd::sending_rate(&child.stdout());
    child.wait_until(LIMIT, |child| rate(child).is_some());
    let packets_per_s = rate(&child);
    child.interrupt();
    child.wait(LIMIT);
    Ok(packets_per_s)
}
