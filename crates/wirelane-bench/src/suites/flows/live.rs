//! The highest rate that `wirelane flows` takes from a cable without loss, beside
//! `wirelane capture` without a file.
//!
//! Each step of a search runs the program for a second of paced packets. The first one offers all
//! that can be sent. Where others send there is nothing to search for: what is measured is the CPU
//! time of a packet.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_send::ndr::{Goal, Method, Search, Shot};

use super::process::SUITE;
use crate::peers::capture::{METERING, PROGRAMS, Program};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::paced::{self, PacedBed, PacedSample, SIZE, Subject};
use crate::suites::turns::{self, ProcessPlan, Turn};
use crate::wire::Wired;

pub(super) const CASE: &str = "live";
/// Packets per second: more than can be sent over a cable of the kernel.
const ALL: u64 = 4_000_000;
/// How long a run of a search is in a report and with `--quick`.
const BRIEF: Duration = Duration::from_millis(300);
/// Relative precision of a rate.
const WIDTH: f64 = 0.05;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// A port of the user's cannot be measured. What cannot be measured in a lab is skipped with its
/// reason.
pub(super) fn live(
    plan: &ProcessPlan<'_>,
    is_brief: bool,
    wired: Option<Wired>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match wired {
        Some(wired) => PacedBed::wired(wired, plan)?,
        None => match PacedBed::or_skip(plan, (SUITE, CASE), report) {
            Some(bed) => bed,
            None => return Ok(()),
        },
    };
    // A run of a search says whether anything was lost: in a report that takes less than a second.
    let bed = if is_brief && bed.sends() { bed.searching(BRIEF) } else { bed };
    let case = |what, program| {
        let (samples, runs) = (Vec::new(), Vec::new());
        Live { plan, bed: &bed, what, program, samples, runs }
    };
    let [capture, ..] = PROGRAMS;
    let mut cases = [case("capture", capture), case("flows", METERING)];
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().flat_map(Live::rows));
    Ok(())
}

/// One of our commands.
struct Live<'a> {
    plan: &'a ProcessPlan<'a>,
    bed: &'a PacedBed,
    what: &'static str,
    program: Program,
    /// Packets per second.
    samples: Vec<f64>,
    /// All runs, those of searches included.
    runs: Vec<PacedSample>,
}

impl Live<'_> {
    fn rows(&self) -> Vec<Row> {
        if !self.bed.sends() && !self.runs.is_empty() {
            let (suite, case, peer) = (SUITE, CASE, None);
            let subject = Subject { bed: self.bed, suite, case, peer, target: self.what, rate: 0 };
            let mut rows = paced::rows(&subject, &self.runs);
            let params = rows.iter_mut().flat_map(|row| &mut row.params.0);
            params.filter(|(name, _)| *name == "target").for_each(|(name, _)| *name = "command");
            return rows;
        }
        let mut params = vec![("command", Param::Text(self.what))];
        params.extend(self.bed.params(self.runs.first()));
        params.push(("size", Param::Number(SIZE)));
        let row = Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(params),
            metric: "packets_per_s",
            unit: "1/s",
            samples: self.samples.clone(),
            source: None,
        };
        if self.samples.is_empty() { Vec::new() } else { vec![row] }
    }

    /// Offers packets at this rate; `None` if it was stopped.
    fn offer(&mut self, rate: u64, stop: &AtomicBool, report: &mut Report) -> Result<Option<Shot>> {
        let command = self.program.command(self.plan.own, &self.bed.port(), None);
        let mut command = command.ok_or_else(|| Error::failed(self.program.name, "is missing"))?;
        command.args(self.bed.options());
        let sample = self.bed.sample(&self.program, command, rate, stop, report)?;
        let shot = sample.as_ref().map(PacedSample::shot);
        self.runs.extend(sample);
        Ok(shot)
    }
}

impl Turn for Live<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        match self.bed.sends() {
            true => format!("highest rate without loss of wirelane {}", self.what),
            false => format!("CPU time of wirelane {}, under what others send", self.what),
        }
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let Some(all) = self.offer(ALL, stop, report)? else { return Ok(()) };
        if !self.bed.sends() {
            return Ok(());
        }
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
