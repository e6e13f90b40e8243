//! The highest rate that each program records from a cable without losing a packet.
//!
//! Every step of a search starts the program with an empty directory, sends, ends the program, and
//! reads its counts.

use std::time::Duration;

use wirelane::error::Result;
use wirelane_send::ndr::Shot;

use super::bed::{RecordCable, RecordTrial};
use super::load::PacketLengths;
use crate::comparison::SENDER_BOUND;
use crate::job::{Case, Job, Sample};
use crate::peers::recorders::RecordProgram;
use crate::row::{Params, params};
use crate::suites::bed::Bisection;

const CASE: &str = "veth";
/// Relative precision of a rate.
const RESOLUTION: f64 = 0.05;
/// The longest time of a search. The figure is then the best rate so far.
const LONGEST_SEARCH: Duration = Duration::from_secs(90);

/// Searches with packets of these shapes, for every program.
pub(super) fn veth(
    cable: &RecordCable<'_>,
    recorders: &[RecordProgram],
    shapes: &[PacketLengths],
    job: &mut Job<'_>,
) -> Result<()> {
    let mut cases = Vec::new();
    for shape in shapes.iter().copied() {
        for recorder in recorders.iter().filter(|one| cable.takes(shape, one)) {
            let (name, size) = (recorder.name, shape.name());
            let title = format!("highest rate of {name} without loss, {size} bytes");
            let measure = move |job: &mut Job<'_>| search(cable, recorder, shape, job);
            let case = Case::new(CASE, Params::default(), title, measure);
            let peer = (!recorder.is_ours()).then_some(name);
            cases.push(case.of(peer).skipped_as(name));
        }
    }
    job.take(cases)
}

/// Searches once.
fn search(
    cable: &RecordCable<'_>,
    recorder: &RecordProgram,
    shape: PacketLengths,
    job: &mut Job<'_>,
) -> Result<Sample> {
    let duration = job.plan.window;
    let mut trial = |rate| {
        let load = (shape, rate, Duration::ZERO, duration);
        cable.trial(recorder, recorder.has_index, load, job)
    };
    let shot = |trial: RecordTrial| {
        let (sent, lost, rate) = (trial.sent, trial.lost(), trial.rate());
        Shot { duration, sent, lost, rate }
    };
    let all = trial(None)?;
    // The trial at the sender's highest rate is the first step.
    let (most, first, width, patience) = (all.rate(), Some(shot(all)), RESOLUTION, LONGEST_SEARCH);
    let search = Bisection { most, first, width, duration, patience };
    let found = search.run(|rate| trial(Some(rate)).map(shot))?;
    let figures = [
        ("bytes_per_s", found.rate * shape.mean()),
        ("packets_per_s", found.rate),
        (SENDER_BOUND, f64::from(u8::from(found.sender_bound))),
    ];
    let params = Some(cable.params().and(params![size = shape.name()].0));
    Ok(Sample { params, ..figures.into() })
}
