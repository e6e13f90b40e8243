//! Writing to a file in memory, beside `dd` with as many bytes.

use serde_json::json;

use super::process::{self, Scratch, capture, text, two_cpus};
use super::report::{Report, Row, Target};
use super::{Context, Result};
use crate::setup;

const SIZE: u64 = 1500;

pub(super) fn run(context: &Context, report: &mut Report) -> Result<()> {
    let Some(dd) = setup::find("dd") else {
        report.skip("write", "dd is missing; Debian package coreutils");
        return Ok(());
    };
    let cpus = two_cpus()?;
    let packets: u64 = if context.quick { 500_000 } else { 2_000_000 };
    let port = format!("sim:1?count={packets}&size={SIZE}");
    let scratch = Scratch::new()?;

    // Seconds and bytes of ours, from the start of the program to its end.
    let ours = || -> Result<(f64, u64)> {
        let file = text(&scratch.file("capture.pcapng"));
        let (run, summary) = capture(context, &[&port, "-w", &file], &cpus)?;
        let written = summary.total("written")?;
        if written != packets {
            return Err(format!("{written} of {packets} packets were written"));
        }
        Ok((run.elapsed.as_secs_f64(), scratch.clear()?))
    };
    let theirs = |bytes: u64| -> Result<f64> {
        context.proceed()?;
        let run = process::run(process::dd(&dd, bytes, &scratch.file("zero")), &cpus)?;
        let written = scratch.clear()?;
        if written != bytes {
            return Err(format!("dd wrote {written} bytes instead of {bytes}"));
        }
        Ok(run.elapsed.as_secs_f64())
    };

    // The first run of each finds memory that nobody has touched; it is not counted.
    let (_, bytes) = ours()?;
    theirs(bytes)?;
    let (mut rates, mut dd_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..context.rounds() {
        let (our_time, their_time) = if round % 2 == 0 {
            let (time, _) = ours()?;
            (time, theirs(bytes)?)
        } else {
            let time = theirs(bytes)?;
            (ours()?.0, time)
        };
        let rate = |time: f64| bytes as f64 * 8.0 / time;
        println!(
            "{:6.2} Gbit/s, dd {:6.2} Gbit/s, {:.3}",
            rate(our_time) / 1e9,
            rate(their_time) / 1e9,
            their_time / our_time
        );
        rates.push(rate(our_time));
        dd_rates.push(rate(their_time));
        ratios.push(their_time / our_time);
    }
    let row = |peer: Option<&str>, metric, unit, samples, target| Row {
        case: "write",
        peer: peer.map(str::to_owned),
        params: json!({ "target": "memory", "port": "sim", "size": SIZE, "bytes": bytes }),
        metric,
        unit,
        samples,
        target,
    };
    report.add(row(None, "bits_per_s", "bit/s", rates, None));
    report.add(row(Some("dd"), "bits_per_s", "bit/s", dd_rates, None));
    report.add(row(None, "ratio", "", ratios, Some(Target::AtLeast(0.8))));
    Ok(())
}
