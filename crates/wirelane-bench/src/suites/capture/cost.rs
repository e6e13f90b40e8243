//! CPU time of a captured packet: our command, tcpdump, dumpcap and netsniff-ng as processes.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::peers::capture::{PROGRAMS, Program};
use crate::peers::missing;
use crate::report::Report;
use crate::suites::paced::{self, PacedBed, PacedSample, Subject};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};

const SUITE: &str = "capture";
const CASE: &str = "cpu";
/// Packets per second: what all of them take without loss on one CPU of a machine of today.
const RATE: u64 = 300_000;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn cost(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let Some(bed) = PacedBed::or_skip(plan, (SUITE, CASE), report) else { return Ok(()) };
    let mut cases: Vec<CostCase<'_>> = Vec::new();
    for program in PROGRAMS {
        if program.command(plan.own, "", None).is_none() {
            report.skip(SUITE, program.name, missing(program.name));
            continue;
        }
        let case = |is_written| {
            let (bed, own) = (&bed, plan.own);
            CostCase { bed, own, program, is_written, samples: Vec::new() }
        };
        cases.extend([case(false), case(true)]);
    }
    cases.sort_by_key(|case| case.is_written);
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    for case in cases.iter().filter(|case| !case.samples.is_empty()) {
        report.rows.extend(paced::rows(&case.subject(), &case.samples));
    }
    Ok(())
}

/// A program, and what it does with packets.
struct CostCase<'a> {
    bed: &'a PacedBed,
    own: &'a Path,
    program: Program,
    /// Whether packets are written to a file in memory.
    is_written: bool,
    samples: Vec<PacedSample>,
}

impl Turn for CostCase<'_> {
    fn case(&self) -> &'static str {
        self.program.name
    }

    fn title(&self) -> String {
        format!("CPU time of {}, written to: {}", self.program.name, self.target())
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let file = self.is_written.then(|| self.bed.file());
        let command = self.program.command(self.own, self.bed.interface(), file.as_deref());
        let command = command.ok_or_else(|| Error::failed(self.program.name, "is missing"))?;
        self.samples.extend(self.bed.sample(&self.program, command, RATE, stop, report)?);
        Ok(())
    }
}

impl CostCase<'_> {
    fn target(&self) -> &'static str {
        if self.is_written { "memory" } else { "none" }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            bed: self.bed,
            suite: SUITE,
            case: CASE,
            peer: (!self.program.is_ours()).then_some(self.program.name),
            target: self.target(),
            rate: RATE,
        }
    }
}
