//! CPU time of a captured packet: Wirelane's command, tcpdump, dumpcap and netsniff-ng as
//! processes.

use wirelane::error::Result;

use crate::job::{Case, Job};
use crate::peers::capture::PROGRAMS;
use crate::row::Params;
use crate::suites::paced::PacedBed;

const CASE: &str = "cpu";
/// Packets per second: a rate that all programs take without loss on one CPU of a current machine.
const RATE: u64 = 300_000;

/// Measures each program, without a file and with one in memory.
///
/// # Errors
/// None: a case that cannot be measured is skipped with its reason.
pub fn cost(job: &mut Job<'_>) -> Result<()> {
    let Some(bed) = &PacedBed::or_skip(CASE, job) else { return Ok(()) };
    let mut programs = PROGRAMS.to_vec();
    programs.retain(|program| program.is_ours() || job.find(program.name).is_some());
    let mut cases = Vec::new();
    for (target, is_written) in [("none", false), ("memory", true)] {
        for program in &programs {
            let title = format!("CPU time of {}, written to: {target}", program.name);
            let measure = move |job: &mut Job<'_>| {
                let sample = bed.capture(program, is_written, RATE, job)?;
                Ok(bed.figures(("target", target), RATE, &sample))
            };
            let peer = (!program.is_ours()).then_some(program.name);
            let case = Case::new(CASE, Params::default(), title, measure);
            cases.push(case.of(peer).skipped_as(program.name));
        }
    }
    job.take(cases)
}
