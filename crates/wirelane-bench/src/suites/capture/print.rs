//! The cost of printing for the receiving threads: Wirelane writes a file, with and without a line
//! per packet, in turns.
//!
//! The lines are written to a file in memory. The printing thread is excluded: it does not delay
//! the receiving threads.

use wirelane::error::Result;

use crate::job::{Case, Job};
use crate::peers::capture::PRINTING;
use crate::row::params;
use crate::suites::paced::PacedBed;

const CASE: &str = "print";
/// Packets per second.
const RATE: u64 = 100_000;

/// Measures both ways.
pub(super) fn print(job: &mut Job<'_>) -> Result<()> {
    let Some(bed) = &PacedBed::or_skip(CASE, job) else { return Ok(()) };
    let case = |(printed, program)| {
        let title = "CPU time of receiving, while packets are written, and printed or not";
        let measure = move |job: &mut Job<'_>| {
            let sample = bed.capture(&program, true, RATE, job)?;
            Ok([("receiving_cpu_ns_per_packet", sample.receiving_ns_per_packet())].into())
        };
        let params = params![port = "packet", printed = printed, offered = RATE];
        Case::new(CASE, params, title, measure)
    };
    job.take(["no", "yes"].into_iter().zip(PRINTING).map(case).collect())
}
