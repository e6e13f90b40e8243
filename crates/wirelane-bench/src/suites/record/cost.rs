//! CPU time of a recorded byte: every program at the same rate, which all of them should take.
//!
//! Counted is the time of the recording process: its threads, and what the kernel does for them.
//! What writes the page cache to the disk afterwards is a thread of the kernel: programs that leave
//! that to it are not charged for it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wirelane::error::Result;

use super::bed::{Cable, SUITE, Trial};
use super::load::Shape;
use crate::peers::recorders::{Recorder, STENOTYPE};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};

pub(super) const CASE: &str = "cost";
/// Shapes, and packets per second.
const OFFERED: [(Shape, u64); 4] = [
    (Shape::Small, 250_000),
    (Shape::Imix, 250_000),
    (Shape::Full, 100_000),
    (Shape::Super, 2_500),
];
/// Sent before: more than the buffers of ours have.
const WARM_BYTES: f64 = 80e6;
/// No sample is shorter: what a program does without packets would be a large part of it.
const SHORTEST: Duration = Duration::from_millis(700);

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn cost(
    cable: &Cable<'_>,
    recorders: &[Recorder],
    plan: &ProcessPlan<'_>,
    is_brief: bool,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let mut cases = Vec::new();
    let is_outside = cable.load().is_none();
    // What others send is as long as it is.
    let offered = if is_outside { &OFFERED[..1] } else { &OFFERED[..] };
    for (shape, offered) in offered.iter().copied() {
        let is_left_out = is_brief && !is_outside && !matches!(shape, Shape::Imix | Shape::Full);
        let takes_part = |one: &&Recorder| !is_left_out && cable.takes(shape, one);
        for recorder in recorders.iter().filter(takes_part) {
            let case = |index| {
                let (window, samples) = (plan.window.max(SHORTEST), Vec::new());
                let recorder = *recorder;
                CostCase { cable, recorder, is_outside, shape, offered, index, window, samples }
            };
            cases.push(case(recorder.has_index));
            // What an index costs is the difference.
            if recorder.name == STENOTYPE && is_brief {
                let reason = "a report has no time for it: --case cost of the suite alone has it";
                report.skip(SUITE, "cost-without-index", reason.to_owned());
            } else if recorder.name == STENOTYPE {
                cases.push(case(false));
            }
        }
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().flat_map(CostCase::rows));
}

/// A program and packets of one shape.
struct CostCase<'a> {
    cable: &'a Cable<'a>,
    recorder: Recorder,
    /// Packets are as many and as long as others send them.
    is_outside: bool,
    shape: Shape,
    offered: u64,
    index: bool,
    window: Duration,
    samples: Vec<Trial>,
}

impl CostCase<'_> {
    fn rows(&self) -> Vec<Row> {
        let is_without = self.recorder.has_index && !self.index;
        let mut params = self.cable.params();
        if !self.is_outside {
            params.push(("size", Param::Text(self.shape.name())));
            params.push(("offered", Param::Number(self.offered)));
        }
        let params = Params(params);
        let row = |metric, unit, of: &dyn Fn(&Trial) -> f64| Row {
            suite: SUITE,
            case: if is_without { "cost-without-index" } else { CASE },
            peer: (!self.recorder.is_ours()).then_some(self.recorder.name),
            params: params.clone(),
            metric,
            unit,
            samples: self.samples.iter().map(of).collect(),
            source: None,
        };
        let per = |trial: &Trial| trial.cpu.as_nanos() as f64 / trial.recorded.max(1) as f64;
        let mean = self.shape.mean();
        let mut rows = vec![
            row("cpu_ns_per_byte", "ns", &|trial| per(trial) / mean),
            row("cpu_ns_per_packet", "ns", &per),
            row("lost_share", "1", &|trial| trial.lost() as f64 / trial.sent.max(1) as f64),
        ];
        if self.index {
            let share = |trial: &Trial| {
                trial.index_bytes as f64 / trial.bytes.saturating_sub(trial.index_bytes) as f64
            };
            rows.push(row("cost_index_share", "1", &share));
        }
        if self.is_outside {
            rows.push(row("packets_per_s", "1/s", &Trial::rate));
            // How long the packets are is not known.
            rows.retain(|row| row.metric != "cpu_ns_per_byte");
        }
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

impl Turn for CostCase<'_> {
    fn case(&self) -> &'static str {
        self.recorder.name
    }

    fn title(&self) -> String {
        match self.is_outside {
            true => format!("CPU time of {}, under what others send", self.recorder.name),
            false => format!("CPU time of {}, {} bytes", self.recorder.name, self.shape.name()),
        }
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let rate = self.offered as f64;
        let warm = Duration::from_secs_f64(WARM_BYTES / (rate * self.shape.mean()));
        let load = (self.shape, Some(rate), warm, self.window);
        let trial = self.cable.trial(&self.recorder, self.index, load, stop, report)?;
        self.samples.extend(trial);
        Ok(())
    }
}
