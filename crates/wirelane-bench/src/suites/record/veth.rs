//! The highest rate that each program records from a cable without losing a packet.
//!
//! Every step of a search starts the program with an empty directory, sends, ends it, and hears
//! what it has recorded.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use wirelane::error::Result;
use wirelane_send::ndr::{Found, Goal, Method, Search, Shot};

use super::bed::{Cable, SUITE, Trial};
use super::load::Shape;
use crate::comparison::SENDER_BOUND;
use crate::peers::recorders::Recorder;
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};

pub(super) const CASE: &str = "veth";
/// Relative precision of a rate.
const RESOLUTION: f64 = 0.05;
/// How long a search may take: what has passed until then is the figure.
const LONGEST_SEARCH: Duration = Duration::from_secs(90);

/// Searches, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn veth(
    cable: &Cable<'_>,
    recorders: &[Recorder],
    shapes: &[Shape],
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let case = |(shape, recorder): (Shape, &Recorder)| {
        let (recorder, window, samples) = (*recorder, plan.window, Vec::new());
        SearchCase { cable, recorder, shape, window, samples }
    };
    let all = shapes.iter().copied();
    let all = all.flat_map(|shape| recorders.iter().map(move |recorder| (shape, recorder)));
    let all = all.filter(|(shape, recorder)| cable.takes(*shape, recorder));
    let mut cases: Vec<_> = all.map(case).collect();
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().flat_map(SearchCase::rows));
}

/// A program and packets of one shape.
struct SearchCase<'a> {
    cable: &'a Cable<'a>,
    recorder: Recorder,
    shape: Shape,
    window: Duration,
    samples: Vec<Found>,
}

impl SearchCase<'_> {
    /// Searches once. `None` if it was stopped.
    fn search(&self, stop: &AtomicBool, report: &mut Report) -> Result<Option<Found>> {
        let end = Instant::now() + LONGEST_SEARCH;
        let mut trial = |rate| {
            let load = (self.shape, rate, Duration::ZERO, self.window);
            self.cable.trial(&self.recorder, self.recorder.has_index, load, stop, report)
        };
        let shot = |trial: &Trial| Shot {
            duration: self.window,
            sent: trial.sent,
            lost: trial.lost(),
            rate: trial.rate(),
        };
        let Some(all) = trial(None)? else { return Ok(None) };
        let goal = Goal {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            duration: self.window,
            duration_sum: self.window,
            width: RESOLUTION,
        };
        let mut search = Search::new(all.rate(), vec![goal], Method::Bisection);
        // What all that can be sent showed is the first step.
        if let Some(probe) = search.probe().filter(|probe| probe.rate >= all.rate()) {
            search.tell(probe, shot(&all));
        }
        while let Some(probe) = search.probe().filter(|_| Instant::now() < end) {
            let Some(trial) = trial(Some(probe.rate))? else { return Ok(None) };
            search.tell(probe, shot(&trial));
        }
        Ok(search.found().first().copied())
    }

    fn rows(&self) -> Vec<Row> {
        let row = |metric, unit, of: &dyn Fn(&Found) -> f64| Row {
            suite: SUITE,
            case: CASE,
            peer: (!self.recorder.is_ours()).then_some(self.recorder.name),
            params: Params(
                [self.cable.params(), vec![("size", Param::Text(self.shape.name()))]].concat(),
            ),
            metric,
            unit,
            samples: self.samples.iter().map(of).collect(),
            source: None,
        };
        let rows = [
            row("bytes_per_s", "B/s", &|found| found.rate * self.shape.mean()),
            row("packets_per_s", "1/s", &|found| found.rate),
            row(SENDER_BOUND, "1", &|found| f64::from(u8::from(found.sender_bound))),
        ];
        rows.into_iter().filter(|row| !row.samples.is_empty()).collect()
    }
}

impl Turn for SearchCase<'_> {
    fn case(&self) -> &'static str {
        self.recorder.name
    }

    fn title(&self) -> String {
        let (name, size) = (self.recorder.name, self.shape.name());
        format!("highest rate of {name} without loss, {size} bytes")
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let found = self.search(stop, report)?;
        self.samples.extend(found);
        Ok(())
    }
}
