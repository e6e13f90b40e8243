//! Two queues on two threads compared with one queue on one thread, as in `wirelane capture`.
//!
//! ```text
//!   one CPU:   sim:1 ─▶ capture --single ─▶ file             /dev/zero ─▶ dd ─▶ file
//!   two CPUs:  sim:2 ─▶ capture --split ─▶ file, file        two dd, half of the bytes each
//! ```
//!
//! The kernel must find the pages of a file in memory, and how well that scales does not depend on
//! the capture. So if packets are written, one and two processes of `dd` write the same number of
//! bytes: the control. Wirelane's rate excludes the start and the end of the process.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use wirelane::error::{Error, Result};
use wirelane::internal::sim::Stream;

use crate::job::{Case, Job, Sample, SampleFigure};
use crate::peers::process::RunningProgram;
use crate::row::params;
use crate::suites::bed::{self, DD, OutputFolder, dd};

const CASE: &str = "capture";
const FLOWS: u64 = 256;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets of the first run, which shows how many packets the later runs need.
const FIRST: u64 = 200_000;
/// The shortest sample, whatever the plan: threads take time to start.
const SHORTEST: Duration = Duration::from_millis(500);

/// Measures one queue and two: packets are only read, written to memory, and to `disk` if there is
/// one.
pub(super) fn capture(disk: Option<&Path>, job: &mut Job<'_>) -> Result<()> {
    let Some(cpus) = job.or_skip(CASE, bed::two_cpus(CASE)) else { return Ok(()) };
    let seed = even_seed()?;
    let window = job.plan.window.max(SHORTEST);
    let places = OutputFolder::all(disk, CASE, job);
    let mut cases = Vec::new();
    for place in [None].into_iter().chain(places.iter().map(Some)) {
        for size in [64, 1500] {
            let mut one = ScalingCondition { cpus, window, place, size, seed, packets: None };
            let target = one.target();
            let title =
                format!("capture with one and two queues, written to: {target}, {size} bytes");
            let measure = move |job: &mut Job<'_>| one.measure(job).map(Sample::from);
            let params = params![port = "sim", target = target, size = size];
            cases.push(Case::new(CASE, params, title, measure));
        }
    }
    job.find(DD);
    job.take(cases)
}

/// A seed that gives both queues the same number of packets. With others, one thread would end
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

/// The packets, and the place to write them to.
struct ScalingCondition<'a> {
    cpus: [u32; 2],
    /// The approximate time of one queue.
    window: Duration,
    /// Packets are only read if `None`.
    place: Option<&'a OutputFolder>,
    size: u64,
    seed: u64,
    /// Packets of a run, once known.
    packets: Option<u64>,
}

/// One and two, in alternating order.
fn in_turn(round: u32) -> [usize; 2] {
    if round % 2 == 1 { [1, 2] } else { [2, 1] }
}

impl ScalingCondition<'_> {
    fn measure(&mut self, job: &mut Job<'_>) -> Result<Vec<SampleFigure>> {
        let packets = match self.packets {
            Some(packets) => packets,
            None => {
                let most = self.place.map_or(u64::MAX, |place| place.most / self.record());
                let first = FIRST.min(most);
                let wanted = self.rate(1, first, job)? * self.window.as_secs_f64();
                *self.packets.insert((wanted as u64).clamp(first, most))
            }
        };
        let mut rates = [0.0; 2];
        for queues in in_turn(job.round) {
            rates[queues - 1] = self.rate(queues, packets, job)?;
        }
        let Some(place) = self.place else { return Ok(self.figures(rates, None)) };
        if dd(0, Path::new("")).is_none() {
            return Ok(self.figures(rates, None));
        }
        let mut controls = [0.0; 2];
        for writers in in_turn(job.round) {
            controls[writers - 1] = self.control(place, writers, packets * self.record())?;
        }
        Ok(self.figures(rates, Some(controls)))
    }

    /// The figures of Wirelane's packets per second, and of bits per second of `dd`, with one queue
    /// and with two.
    fn figures(&self, rates: [f64; 2], controls: Option<[f64; 2]>) -> Vec<SampleFigure> {
        let mut figures = Vec::new();
        for (queues, rate) in (1..).zip(rates) {
            let of = |metric, value| SampleFigure::new(metric, value).under("queues", queues);
            figures.push(of("packets_per_s", rate));
            if self.place.is_some() {
                figures.push(of("bits_per_s", rate * 8.0 * self.record() as f64));
            }
            let control = controls.and_then(|both| both.get(queues as usize - 1).copied());
            figures.extend(control.map(|bits| of("bits_per_s", bits).of(DD)));
        }
        let efficiency = |[one, two]: [f64; 2]| {
            SampleFigure::new("efficiency", two / (2.0 * one)).under("queues", 2)
        };
        figures.push(efficiency(rates));
        figures.extend(controls.map(|both| efficiency(both).of(DD)));
        figures
    }

    fn target(&self) -> &'static str {
        self.place.map_or("none", |place| place.name)
    }

    /// Bytes of a packet in a file.
    fn record(&self) -> u64 {
        self.size.next_multiple_of(4) + 32
    }

    /// Packets per second of Wirelane's command.
    fn rate(&self, queues: usize, packets: u64, job: &mut Job<'_>) -> Result<f64> {
        let Self { size, seed, .. } = self;
        let port = format!("sim:{queues}?count={packets}&size={size}&flows={FLOWS}&seed={seed}");
        let mut command = Command::new(job.own()?);
        command.args(["capture", &port, "--quiet", "--json"]);
        command.args((queues == 1).then_some("--single"));
        if let Some(place) = self.place {
            command.arg("-w").arg(place.folder.file("capture.pcapng")).arg("--split");
            place.folder.make()?;
        }
        let ended = job.run(&mut command, &self.cpus[..queues], None, LIMIT);
        self.place.inspect(|place| place.folder.remove());
        let summary: Value = serde_json::from_str(&ended?.output.stdout).unwrap_or_default();
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

    /// Bits per second of `writers` processes of `dd`, each on a CPU, that write `bytes` together.
    fn control(&self, place: &OutputFolder, writers: usize, bytes: u64) -> Result<f64> {
        let share = bytes / writers as u64;
        place.folder.make()?;
        let begin = Instant::now();
        let start = |cpu: &u32| {
            let file = place.folder.file(&format!("zero{cpu}"));
            let mut command =
                dd(share, &file).ok_or_else(|| Error::failed(DD, "is not installed"))?;
            RunningProgram::start(&mut command, &[*cpu], None)
        };
        let running: Result<Vec<_>> = self.cpus[..writers].iter().map(start).collect();
        let ended: Result<Vec<_>> =
            running.and_then(|running| running.into_iter().map(|one| one.wait(LIMIT)).collect());
        let elapsed = begin.elapsed();
        place.folder.remove();
        ended.map(|_| (share * writers as u64) as f64 * 8.0 / elapsed.as_secs_f64())
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
    fn figures_have_our_rates_and_those_of_the_control() {
        let (cpus, window, place) = ([0, 1], Duration::ZERO, None);
        let one = ScalingCondition { cpus, window, place, size: 64, seed: 1, packets: None };
        let figures = one.figures([10.0, 19.0], None);
        let found: Vec<_> = figures.iter().map(|one| (one.metric, one.value)).collect();
        let expected = [("packets_per_s", 10.0), ("packets_per_s", 19.0), ("efficiency", 0.95)];
        assert_eq!(found, expected);
        assert_eq!((one.record(), in_turn(1), in_turn(2)), (96, [1, 2], [2, 1]));
    }
}
