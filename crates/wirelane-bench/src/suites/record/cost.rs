//! CPU time of a recorded byte: every program at the same rate, which all of them should sustain.
//!
//! The figure is the CPU time of the recording process, including the kernel's work in its threads.
//! A kernel thread writes the page cache to the disk later: a program that relies on it is not
//! charged for it.

use std::time::Duration;

use wirelane::error::Result;

use super::bed::{RecordCable, RecordTrial};
use super::load::PacketLengths;
use crate::job::{Case, Job, Sample, SampleFigure};
use crate::peers::recorders::{RecordProgram, STENOTYPE};
use crate::row::{Params, params};

const CASE: &str = "cost";
const WITHOUT_INDEX: &str = "cost-without-index";
/// Shapes, and packets per second.
const OFFERED: [(PacketLengths, u64); 4] = [
    (PacketLengths::Small, 250_000),
    (PacketLengths::Imix, 250_000),
    (PacketLengths::Full, 100_000),
    (PacketLengths::Super, 2_500),
];
/// Bytes sent before the measurement: more than Wirelane's buffers hold.
const WARM_BYTES: f64 = 80e6;
/// The shortest sample. In a shorter one, the cost of an idle program would be a large part.
const SHORTEST: Duration = Duration::from_millis(700);

/// Measures every program with packets of every shape.
pub(super) fn cost(
    cable: &RecordCable<'_>,
    recorders: &[RecordProgram],
    job: &mut Job<'_>,
) -> Result<()> {
    let (window, is_short) = (job.plan.window.max(SHORTEST), job.effort.is_short());
    let is_outside = cable.load().is_none();
    let mut cases = Vec::new();
    // Packets from other hosts have any size.
    let offered = if is_outside { &OFFERED[..1] } else { &OFFERED[..] };
    for (shape, offered) in offered.iter().copied() {
        let is_left_out =
            is_short && !is_outside && !matches!(shape, PacketLengths::Imix | PacketLengths::Full);
        let takes_part = |one: &&RecordProgram| !is_left_out && cable.takes(shape, one);
        for recorder in recorders.iter().filter(takes_part).copied() {
            let case = |index| {
                let title = match is_outside {
                    true => format!("CPU time of {}, under what others send", recorder.name),
                    false => format!("CPU time of {}, {} bytes", recorder.name, shape.name()),
                };
                let measure = move |job: &mut Job<'_>| {
                    let rate = offered as f64;
                    let warm = Duration::from_secs_f64(WARM_BYTES / (rate * shape.mean()));
                    let load = (shape, Some(rate), warm, window);
                    let trial = cable.trial(&recorder, index, load, job)?;
                    Ok(sample(cable, shape, offered, index, &trial))
                };
                let name = if recorder.has_index && !index { WITHOUT_INDEX } else { CASE };
                let peer = (!recorder.is_ours()).then_some(recorder.name);
                let case = Case::new(name, Params::default(), title, measure);
                case.of(peer).skipped_as(recorder.name)
            };
            cases.push(case(recorder.has_index));
            // The difference is the cost of the index.
            if recorder.name == STENOTYPE && is_short {
                let reason = "a report has no time for it: --case cost of the suite alone has it";
                job.skip(WITHOUT_INDEX, reason);
            } else if recorder.name == STENOTYPE {
                cases.push(case(false));
            }
        }
    }
    job.take(cases)
}

/// The figures of a trial with this shape and rate, with an index or without.
fn sample(
    cable: &RecordCable<'_>,
    shape: PacketLengths,
    offered: u64,
    index: bool,
    trial: &RecordTrial,
) -> Sample {
    // The number and size of packets from other hosts are unknown.
    let is_outside = cable.load().is_none();
    let ns = trial.cpu.as_nanos() as f64 / trial.recorded.max(1) as f64;
    let mut figures = Vec::new();
    if !is_outside {
        figures.push(SampleFigure::new("cpu_ns_per_byte", ns / shape.mean()));
    }
    figures.push(SampleFigure::new("cpu_ns_per_packet", ns));
    figures.push(SampleFigure::new("lost_share", trial.lost() as f64 / trial.sent.max(1) as f64));
    if index {
        let packets = trial.bytes.saturating_sub(trial.index_bytes);
        figures
            .push(SampleFigure::new("cost_index_share", trial.index_bytes as f64 / packets as f64));
    }
    let mut params = cable.params();
    if is_outside {
        figures.push(SampleFigure::new("packets_per_s", trial.rate()));
    } else {
        params = params.and(params![size = shape.name(), offered = offered].0);
    }
    Sample { figures, params: Some(params) }
}
