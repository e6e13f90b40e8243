//! Two queues on two threads beside one queue on one thread, as `wirelane capture` runs them.
//!
//! ```text
//!   one CPU:   sim:1 ─▶ capture --single ─▶ file             /dev/zero ─▶ dd ─▶ file
//!   two CPUs:  sim:2 ─▶ capture --split ─▶ file, file        two dd, half of the bytes each
//! ```
//!
//! A file in memory consists of pages that the kernel has to find; how well that scales is not up
//! to the capture. So where packets are written, one and two processes of `dd` write as many bytes:
//! the control. The rate of ours is that of its threads, without starting and ending the process.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirelane_os::affinity;

use crate::peers::missing;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::place::{DD, Place, dd};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};
use wirelane::port::sim::Stream;

const SUITE: &str = "scaling";
const CASE: &str = "capture";
const FLOWS: u64 = 256;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets of the first run, which shows how many the others should have.
const FIRST: u64 = 200_000;
/// However short the samples of others are: threads take their time to start.
const SHORTEST: Duration = Duration::from_millis(500);

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub(super) fn capture(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let Some(cpus) = cpus.first_chunk().copied() else {
        report.skip(SUITE, CASE, "it takes two CPUs to measure".to_owned());
        return Ok(());
    };
    let seed = even_seed()?;
    let places = Place::all(plan.disk, SUITE, CASE, report);
    let mut conditions = Vec::new();
    for place in [None].into_iter().chain(places.iter().map(Some)) {
        for size in [64, 1500] {
            let window = plan.window.max(SHORTEST);
            let (own, packets, samples) = (plan.own, None, Default::default());
            conditions.push(ScalingCondition {
                own,
                cpus,
                window,
                place,
                size,
                seed,
                packets,
                samples,
            });
        }
    }
    if dd(0, Path::new("")).is_none() {
        report.skip(SUITE, DD, missing(DD));
    }
    turns::take(SUITE, plan, &mut conditions, report, stop, progress);
    report.rows.extend(conditions.iter().flat_map(ScalingCondition::rows));
    Ok(())
}

/// A seed with which two queues get the same number of packets. With others one thread would end
/// before the other.
fn even_seed() -> Result<u64> {
    for seed in 1..200 {
        let stream = Stream::new(&format!("sim:2?flows={FLOWS}&seed={seed}").parse()?)?;
        let first = (0..FLOWS).filter(|k| stream.packet(*k).queue == 0).count() as u64;
        if 2 * first == FLOWS {
            return Ok(seed);
        }
    }
    Err(Error::failed(CASE, "no seed spreads the flows evenly over two queues"))
}

/// What is captured, and where it is written.
struct ScalingCondition<'a> {
    own: &'a Path,
    cpus: [u32; 2],
    /// How long one queue takes, about.
    window: Duration,
    /// Packets are only read if `None`.
    place: Option<&'a Place>,
    size: u64,
    seed: u64,
    /// Packets of a run, when that is known.
    packets: Option<u64>,
    /// With one queue, and with two.
    samples: [Samples; 2],
}

#[derive(Default)]
struct Samples {
    packets_per_s: Vec<f64>,
    /// Of `dd`.
    bits_per_s: Vec<f64>,
}

impl Turn for ScalingCondition<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!(
            "capture with one and two queues, written to: {}, {} bytes",
            self.target(),
            self.size
        )
    }

    fn measure(&mut self, round: u32, _: &AtomicBool, report: &mut Report) -> Result<()> {
        let packets = match self.packets {
            Some(packets) => packets,
            None => {
                let most = self.place.map_or(u64::MAX, |place| place.most / self.record());
                let first = FIRST.min(most);
                let wanted = self.rate(1, first, report)? * self.window.as_secs_f64();
                *self.packets.insert((wanted as u64).clamp(first, most))
            }
        };
        let mut rates = [0.0; 2];
        for queues in in_turn(round) {
            rates[queues - 1] = self.rate(queues, packets, report)?;
        }
        for (samples, rate) in self.samples.iter_mut().zip(rates) {
            samples.packets_per_s.push(rate);
        }
        let Some(place) = self.place.filter(|_| dd(0, Path::new("")).is_some()) else {
            return Ok(());
        };
        let mut rates = [0.0; 2];
        for writers in in_turn(round) {
            rates[writers - 1] = self.control(place, writers, packets * self.record())?;
        }
        for (samples, rate) in self.samples.iter_mut().zip(rates) {
            samples.bits_per_s.push(rate);
        }
        Ok(())
    }
}

/// One and two; the other way round in every other round.
fn in_turn(round: u32) -> [usize; 2] {
    if round % 2 == 1 { [1, 2] } else { [2, 1] }
}

impl ScalingCondition<'_> {
    fn target(&self) -> &'static str {
        self.place.map_or("none", |place| place.name)
    }

    /// Bytes of a packet in a file.
    fn record(&self) -> u64 {
        self.size.next_multiple_of(4) + 32
    }

    /// Packets per second of our command.
    fn rate(&self, queues: usize, packets: u64, report: &mut Report) -> Result<f64> {
        let port = format!(
            "sim:{queues}?count={packets}&size={}&flows={FLOWS}&seed={}",
            self.size, self.seed
        );
        let mut command = Command::new(self.own);
        command.args(["capture", &port, "--quiet", "--json"]);
        command.args((queues == 1).then_some("--single"));
        if let Some(place) = self.place {
            command.arg("-w").arg(place.folder.file("capture.pcapng")).arg("--split");
            place.folder.make()?;
        }
        report.environment.add_command(line(&command));
        let ended = Running::start(&mut command, &self.cpus[..queues], None)
            .and_then(|running| running.wait(LIMIT));
        self.place.inspect(|place| place.folder.remove());
        let summary: Value = serde_json::from_str(&ended?.stdout).unwrap_or_default();
        let arrived =
            &summary["totals"][if self.place.is_some() { "written" } else { "delivered" }];
        let elapsed = summary["elapsed_s"].as_f64().filter(|seconds| *seconds > 0.0);
        match (arrived.as_u64(), elapsed) {
            (Some(arrived), Some(elapsed)) if arrived == packets => Ok(packets as f64 / elapsed),
            _ => {
                let cause = format!("{arrived} of {packets} packets of {port} arrived");
                Err(Error::failed(CASE, cause))
            }
        }
    }

    /// Bits per second of so many processes of `dd`, each with a CPU, that write `bytes` together.
    fn control(&self, place: &Place, writers: usize, bytes: u64) -> Result<f64> {
        let share = bytes / writers as u64;
        place.folder.make()?;
        let begin = Instant::now();
        let start = |cpu: &u32| {
            let file = place.folder.file(&format!("zero{cpu}"));
            let mut command =
                dd(share, &file).ok_or_else(|| Error::failed(DD, "is not installed"))?;
            Running::start(&mut command, &[*cpu], None)
        };
        let running: Result<Vec<_>> = self.cpus[..writers].iter().map(start).collect();
        let ended: Result<Vec<_>> =
            running.and_then(|running| running.into_iter().map(|one| one.wait(LIMIT)).collect());
        let elapsed = begin.elapsed();
        place.folder.remove();
        ended.map(|_| (share * writers as u64) as f64 * 8.0 / elapsed.as_secs_f64())
    }

    fn rows(&self) -> Vec<Row> {
        let row = |peer, queues: usize, metric, unit, samples: Vec<f64>| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("port", Param::Text("sim")),
                ("target", Param::Text(self.target())),
                ("size", Param::Number(self.size)),
                ("queues", Param::Number(queues as u64)),
            ]),
            metric,
            unit,
            samples,
            source: None,
        };
        let record_bits = 8.0 * self.record() as f64;
        let efficiency = |[one, two]: [&Vec<f64>; 2]| {
            one.iter().zip(two).map(|(one, two)| two / (2.0 * one)).collect()
        };
        let mut rows = Vec::new();
        for (position, samples) in self.samples.iter().enumerate() {
            let (queues, rates) = (position + 1, &samples.packets_per_s);
            rows.push(row(None, queues, "packets_per_s", "1/s", rates.clone()));
            if self.place.is_some() {
                let bits = rates.iter().map(|rate| rate * record_bits).collect();
                rows.push(row(None, queues, "bits_per_s", "bit/s", bits));
                rows.push(row(Some(DD), queues, "bits_per_s", "bit/s", samples.bits_per_s.clone()));
            }
        }
        let [ours, control] = [
            self.samples.each_ref().map(|samples| &samples.packets_per_s),
            self.samples.each_ref().map(|samples| &samples.bits_per_s),
        ];
        rows.push(row(None, 2, "efficiency", "1", efficiency(ours)));
        rows.push(row(Some(DD), 2, "efficiency", "1", efficiency(control)));
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_spreads_the_flows_evenly() {
        assert!(even_seed().is_ok());
    }

    #[test]
    fn rows_have_our_rates_and_those_of_the_control() {
        let condition = ScalingCondition {
            own: Path::new("none"),
            cpus: [0, 1],
            window: Duration::ZERO,
            place: None,
            size: 64,
            seed: 1,
            packets: None,
            samples: [
                Samples { packets_per_s: vec![10.0, 20.0], bits_per_s: Vec::new() },
                Samples { packets_per_s: vec![19.0, 40.0], bits_per_s: Vec::new() },
            ],
        };
        let rows = condition.rows();
        let found = |row: &Row| (row.metric, row.samples.clone());
        assert_eq!(
            rows.iter().map(found).collect::<Vec<_>>(),
            [
                ("packets_per_s", vec![10.0, 20.0]),
                ("packets_per_s", vec![19.0, 40.0]),
                ("efficiency", vec![0.95, 1.0])
            ]
        );
        assert_eq!((condition.record(), in_turn(1), in_turn(2)), (96, [1, 2], [2, 1]));
    }
}
