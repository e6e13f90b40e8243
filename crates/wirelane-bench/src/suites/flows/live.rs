//! The highest rate that `wirelane flows` takes from a cable without loss, beside `wirelane capture` without a file.
//!
//! Each step of a search runs the program for a second of paced packets. The first one offers all that can be sent.

use std::sync::atomic::AtomicBool;

use wirelane::error::{Error, Result};
use wirelane_send::ndr::{Goal, Method, Search, Shot};

use super::process::SUITE;
use crate::peers::capture::{METERING, PROGRAMS, Program};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::paced::{PacedBed, SIZE};
use crate::suites::turns::{self, ProcessPlan, Turn};

pub(super) const CASE: &str = "live";
/// Packets per second: more than can be sent over a cable of the kernel.
const ALL: u64 = 4_000_000;
/// Relative precision of a rate.
const WIDTH: f64 = 0.05;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn live(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let Some(bed) = PacedBed::or_skip(plan, (SUITE, CASE), report) else { return };
    let case = |what, program| Live { plan, bed: &bed, what, program, samples: Vec::new() };
    let [capture, ..] = PROGRAMS;
    let mut cases = [case("capture", capture), case("flows", METERING)];
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.samples.is_empty()).map(Live::row));
}

/// One of our commands.
struct Live<'a> {
    plan: &'a ProcessPlan<'a>,
    bed: &'a PacedBed,
    what: &'static str,
    program: Program,
    /// Packets per second.
    samples: Vec<f64>,
}

impl Live<'_> {
    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("command", Param::Text(self.what)),
                ("port", Param::Text("packet")),
                ("size", Param::Number(SIZE)),
            ]),
            metric: "packets_per_s",
            unit: "1/s",
            samples: self.samples.clone(),
            source: None,
        }
    }

    /// Offers packets at this rate; `None` if it was stopped.
    fn offer(&self, rate: u64, stop: &AtomicBool, report: &mut Report) -> Result<Option<Shot>> {
        let command = self.program.command(self.plan.own, self.bed.interface(), None);
        let command = command.ok_or_else(|| Error::failed(self.program.name, "is missing"))?;
        let sample = self.bed.sample(&self.program, command, rate, stop, report)?;
        Ok(sample.map(|sample| sample.shot()))
    }
}

impl Turn for Live<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("highest rate without loss of wirelane {}", self.what)
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let Some(all) = self.offer(ALL, stop, report)? else { return Ok(()) };
        let goal = Goal {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            duration: all.duration,
            duration_sum: all.duration,
            width: WIDTH,
        };
        let mut search = Search::new(all.rate, vec![goal], Method::Bisection);
        while let Some(probe) = search.probe() {
            let rate = probe.rate.max(1.0) as u64;
            let Some(shot) = self.offer(rate, stop, report)? else { return Ok(()) };
            search.tell(probe, Shot { duration: all.duration, ..shot });
        }
        self.samples.extend(search.found().first().map(|found| found.rate));
        Ok(())
    }
}
