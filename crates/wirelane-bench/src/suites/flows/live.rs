//! The highest rate without loss of `wirelane flows` on a cable, compared with `wirelane capture`
//! without a file.
//!
//! Each step of a search runs the program for a second of paced packets. The first step offers the
//! highest rate of the sender. If other hosts send, there is no search: the CPU time of a packet is
//! measured.

use std::time::Duration;

use wirelane::error::Result;
use wirelane_send::ndr::Shot;

use crate::job::{Case, Job, Sample};
use crate::peers::capture::{CaptureProgram, METERING, PROGRAMS};
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
/// No limit in practice: each step takes seconds, and there are few steps.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Measures both commands.
///
/// # Errors
/// The user's port cannot be measured. In a lab, a case that cannot be measured is skipped with its
/// reason.
pub(super) fn live(wired: Option<Wired>, job: &mut Job<'_>) -> Result<()> {
    let Some(bed) = PacedBed::at(wired, CASE, job)? else { return Ok(()) };
    // A run of a search only shows whether packets were lost: in a report it takes less than a
    // second.
    let is_short = job.effort.is_short() && bed.sends();
    let bed = &if is_short { bed.searching(BRIEF) } else { bed };
    let [capture, ..] = PROGRAMS;
    let case = |(what, program): (&'static str, CaptureProgram)| {
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
    program: &CaptureProgram,
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
fn offer(
    bed: &PacedBed,
    program: &CaptureProgram,
    rate: u64,
    job: &mut Job<'_>,
) -> Result<PacedSample> {
    let mut command = program.command(job.own()?, &bed.ends().port(), None)?;
    command.args(bed.ends().options());
    bed.sample(program, command, rate, job)
}
