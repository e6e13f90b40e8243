//! The highest rate that `wirelane flows` takes from a cable without loss, beside
//! `wirelane capture` without a file.
//!
//! Each step of a search runs the program for a second of paced packets. The first one offers all
//! that can be sent. Where others send there is nothing to search for: what is measured is the CPU
//! time of a packet.

use std::time::Duration;

use wirelane::error::Result;
use wirelane_send::ndr::Shot;

use crate::job::{Case, Job, Sample};
use crate::peers::capture::{METERING, PROGRAMS, Program};
use crate::row::{Params, params};
use crate::suites::bed::Bisection;
use crate::suites::paced::{PacedBed, PacedSample, SIZE};
use crate::wire::Wired;

const CASE: &str = "live";
/// Packets per second: more than can be sent over a cable of the kernel.
const ALL: u64 = 4_000_000;
/// How long a run of a search is in a report and with `--quick`.
const BRIEF: Duration = Duration::from_millis(300);
/// Relative precision of a rate.
const WIDTH: f64 = 0.05;
/// Each step takes seconds, and there are a handful.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Measures both commands.
///
/// # Errors
/// A port of the user's cannot be measured. What cannot be measured in a lab is skipped with its
/// reason.
pub(super) fn live(wired: Option<Wired>, job: &mut Job<'_>) -> Result<()> {
    let Some(bed) = PacedBed::at(wired, CASE, job)? else { return Ok(()) };
    // A run of a search says whether anything was lost: in a report that takes less than a second.
    let is_short = job.effort.is_short() && bed.sends();
    let bed = &if is_short { bed.searching(BRIEF) } else { bed };
    let [capture, ..] = PROGRAMS;
    let case = |(what, program): (&'static str, Program)| {
        let title = match bed.sends() {
            true => format!("highest rate without loss of wirelane {what}"),
            false => format!("CPU time of wirelane {what}, under what others send"),
        };
        let measure = move |job: &mut Job<'_>| match bed.sends() {
            true => search(bed, what, &program, job),
            false => {
                let sample = offer(bed, &program, ALL, job)?;
                Ok(bed.figures(("command", what), 0, &sample))
            }
        };
        Case::new(CASE, Params::default(), title, measure)
    };
    job.take([("capture", capture), ("flows", METERING)].map(case).into_iter().collect())
}

/// The highest rate without loss.
fn search(
    bed: &PacedBed,
    what: &'static str,
    program: &Program,
    job: &mut Job<'_>,
) -> Result<Sample> {
    let all = offer(bed, program, ALL, job)?;
    let Shot { duration, rate: most, .. } = all.shot();
    let search = Bisection { most, first: None, width: WIDTH, duration, patience: PATIENCE };
    let trial = |rate: f64| Ok(offer(bed, program, rate.max(1.0) as u64, job)?.shot());
    let found = search.run(trial)?;
    let params = params![command = what].and(bed.ends().params(all.mode.clone()).0);
    let sample = Sample::from([("packets_per_s", found.rate)]);
    Ok(Sample { params: Some(params.and(params![size = SIZE].0)), ..sample })
}

/// Offers packets at this rate.
fn offer(bed: &PacedBed, program: &Program, rate: u64, job: &mut Job<'_>) -> Result<PacedSample> {
    let mut command = program.command(job.own()?, &bed.ends().port(), None)?;
    command.args(bed.ends().options());
    bed.sample(program, command, rate, job)
}
