//! What printing costs the threads that receive: our command writes a file, with and without a line
//! per packet, in turns.
//!
//! The lines go to a file in memory. What the printing thread takes is left out: only a reader's
//! patience limits it.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::peers::capture::{PRINTING, Program};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::paced::{PacedBed, PacedSample};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};

const SUITE: &str = "capture";
const CASE: &str = "print";
/// Packets per second.
const RATE: u64 = 100_000;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn print(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let Some(bed) = PacedBed::or_skip(plan, (SUITE, CASE), report) else { return Ok(()) };
    let case = |program| PrintCase { bed: &bed, own: plan.own, program, samples: Vec::new() };
    let mut cases = PRINTING.map(case);
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    let [plain, printed] = &cases;
    let rows = [("no", plain), ("yes", printed)].map(|(prints, case)| case.row(prints));
    report.rows.extend(rows.into_iter().filter(|row| !row.samples.is_empty()));
    Ok(())
}

/// With lines or without.
struct PrintCase<'a> {
    bed: &'a PacedBed,
    own: &'a Path,
    program: Program,
    samples: Vec<PacedSample>,
}

impl PrintCase<'_> {
    fn row(&self, prints: &'static str) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("port", Param::Text("packet")),
                ("printed", Param::Text(prints)),
                ("offered", Param::Number(RATE)),
            ]),
            metric: "receiving_cpu_ns_per_packet",
            unit: "ns",
            samples: self.samples.iter().map(PacedSample::receiving_ns_per_packet).collect(),
            source: None,
        }
    }
}

impl Turn for PrintCase<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        "CPU time of receiving, while packets are written, and printed or not".to_owned()
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let file = self.bed.file();
        let command = self.program.command(self.own, self.bed.interface(), Some(&file));
        let command = command.ok_or_else(|| Error::failed(self.program.name, "is missing"))?;
        self.samples.extend(self.bed.sample(&self.program, command, RATE, stop, report)?);
        Ok(())
    }
}
