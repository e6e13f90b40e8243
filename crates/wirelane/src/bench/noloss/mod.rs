//! The suite `noloss`: the highest rate that a receiver takes without losing a packet, and how old packets
//! are when it has them (RFC 2544, sections 26.1 and 26.2).
//!
//! ```text
//!   the kernel makes a frame, writes the time into it ─▶ wl-a ═══ wl-b ─▶ ring ─▶ receiver: now - then
//!   a simulated interface has a packet due            ─────────────────────▶ receiver: now - due
//! ```
//!
//! A rate passes if nothing is lost in three trials, one after the other. The search halves the range between what
//! has passed and what has not, from all that the sender can send downwards; a receiver that loses nothing of that
//! is marked: the figure is the sender's then. Latencies are measured afterwards, at the rate that was found and
//! at half of it, so that looking at the clock costs the search nothing. Every round searches for every receiver.

mod receiver;
mod search;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use wirelane_os::affinity;

use self::receiver::{Receiver, Stamp};
use self::search::{Found, Search, Verdict};
use super::live::{LiveSender, Pace};
use super::report::{Param, Params, Report, Row};
use super::rounds::Rounds;
use crate::error::{Error, Result};
use crate::lab::{Lab, LabConfig, Site};
use crate::placement::Placement;
use crate::port::Spec;
use crate::port::sim::Stream;

const SUITE: &str = "noloss";
/// Trials that a rate has to pass.
const TRIALS: usize = 3;
/// Flows of the frames that are sent.
const FLOWS: u64 = 64;
/// Shares of the rate that was found at which latencies are measured, in percent.
const LOADS: [u64; 2] = [100, 50];

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds: samples of every figure.
    pub samples: usize,
    /// How long a trial sends.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// The rate is known to this share of it.
    pub resolution: f64,
}

impl Plan {
    /// Several minutes.
    pub fn full() -> Self {
        Self {
            samples: 5,
            window: Duration::from_millis(500),
            limit: None,
            sizes: vec![64, 1500],
            resolution: 0.02,
        }
    }

    /// Less than a minute.
    pub fn quick() -> Self {
        Self {
            samples: 3,
            window: Duration::from_millis(30),
            limit: Some(Duration::from_secs(50)),
            sizes: vec![64],
            resolution: 0.05,
        }
    }
}

/// What is searched for: where, in which mode, and the port to open.
const RECEIVERS: [(&str, &str); 4] = [
    ("sim", "sim:1"),
    ("xdp-native", "xdp:wl-b?mode=native"),
    ("xdp-generic", "xdp:wl-b?mode=generic"),
    ("packet", "packet:wl-b"),
];

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` is told the round and what is measured next; `stop` ends the run early, with what
/// was measured until then.
///
/// # Errors
/// None that a row of its own could not say: what cannot be measured is skipped with its reason.
pub fn noloss(
    plan: &Plan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = Bed::new(plan, report)?;
    let mut series = bed.series(plan);
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        for one in series.iter_mut().filter(|one| one.refused.is_none()) {
            progress(round, &format!("{}, {} bytes", one.label, one.size));
            match bed.measure(one, plan, stop) {
                Ok(Some((nature, sample))) => {
                    one.nature = Some(nature);
                    one.samples.push(sample);
                }
                Ok(None) => break 'rounds,
                Err(error) => one.refused = Some(error),
            }
        }
    }
    for one in &series {
        report.rows.extend(one.rows());
        if let Some(error) = &one.refused {
            report.skip(SUITE, one.label, error.to_string());
        }
    }
    Ok(())
}

/// All samples of one receiver.
struct Series {
    label: &'static str,
    port: &'static str,
    size: usize,
    nature: Option<Nature>,
    samples: Vec<Sample>,
    refused: Option<Error>,
}

type Nature = (&'static str, String, u64);

/// What one search brought.
struct Sample {
    found: Found,
    /// One for each of [`LOADS`]; none where no rate passed.
    ages: Vec<Histogram<u64>>,
}

impl Series {
    fn is_simulated(&self) -> bool {
        self.label == "sim"
    }

    fn rows(&self) -> Vec<Row> {
        let Some((backend, mode, queues)) = &self.nature else { return Vec::new() };
        let params = |load: Option<u64>| {
            let mut params = vec![
                ("port", Param::Text(backend)),
                ("mode", Param::Name(mode.clone())),
                ("size", Param::Number(self.size as u64)),
                ("queues", Param::Number(*queues)),
            ];
            params.extend(load.map(|load| ("load_percent", Param::Number(load))));
            Params(params)
        };
        let row = |load, metric, unit, samples: Vec<f64>| Row {
            suite: SUITE,
            case: "rx",
            peer: None,
            params: params(load),
            metric,
            unit,
            samples,
            source: None,
        };
        let each = |of: &dyn Fn(&Sample) -> f64| self.samples.iter().map(of).collect::<Vec<_>>();
        let bound = |sample: &Sample| f64::from(u8::from(sample.found.sender_bound));
        let mut rows = vec![
            row(None, "packets_per_s", "1/s", each(&|sample| sample.found.rate)),
            row(None, "sender_bound_share", "1", each(&bound)),
        ];
        for (position, load) in LOADS.into_iter().enumerate() {
            let ages = || self.samples.iter().filter_map(|sample| sample.ages.get(position));
            let of = |metric, value: &dyn Fn(&Histogram<u64>) -> u64| {
                row(Some(load), metric, "ns", ages().map(|ages| value(ages) as f64).collect())
            };
            rows.extend([
                of("latency_min_ns", &|ages| ages.min()),
                of("latency_p50_ns", &|ages| ages.value_at_quantile(0.5)),
                of("latency_p90_ns", &|ages| ages.value_at_quantile(0.9)),
                of("latency_p99_ns", &|ages| ages.value_at_quantile(0.99)),
                of("latency_p999_ns", &|ages| ages.value_at_quantile(0.999)),
                of("latency_max_ns", &|ages| ages.max()),
            ]);
        }
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

/// Where packets pass.
struct Bed {
    lab: Option<Lab>,
    sender: Option<u32>,
    placement: Placement,
}

impl Bed {
    fn new(plan: &Plan, report: &mut Report) -> Result<Self> {
        let allowed = affinity::allowed_cpus().unwrap_or_default();
        let (sender, placement) = match allowed.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => (Some(*first), Placement::of(rest)?),
            _ => (None, Placement::default()),
        };
        let lab = || {
            const ETHERNET_HEADER: usize = 14;
            let longest = plan.sizes.iter().max().copied().unwrap_or(0);
            let needed = longest.saturating_sub(ETHERNET_HEADER) as u32;
            let mtu = needed.max(LabConfig::default().mtu);
            let lab = Lab::new(LabConfig { mtu, ..LabConfig::default() })?;
            // What the sender redirects arrives in generic mode and at packet sockets, too.
            lab.far.set_gro(true)?;
            Ok::<_, Error>(lab)
        };
        let lab = match lab() {
            Ok(lab) => Some(lab),
            Err(error) => {
                let in_lab = RECEIVERS.iter().map(|(label, _)| *label).filter(|of| *of != "sim");
                in_lab.for_each(|case| report.skip(SUITE, case, error.to_string()));
                None
            }
        };
        Ok(Self { lab, sender, placement })
    }

    fn series(&self, plan: &Plan) -> Vec<Series> {
        let mut series = Vec::new();
        for (label, port) in RECEIVERS {
            for size in plan.sizes.iter().copied() {
                let (nature, samples, refused) = (None, Vec::new(), None);
                series.push(Series { label, port, size, nature, samples, refused });
            }
        }
        series.retain(|one| one.is_simulated() || self.lab.is_some());
        series
    }

    /// Searches once. `None` if it was stopped.
    fn measure(
        &self,
        one: &Series,
        plan: &Plan,
        stop: &AtomicBool,
    ) -> Result<Option<(Nature, Sample)>> {
        let mut path: Box<dyn Path> = match self.lab.as_ref().filter(|_| !one.is_simulated()) {
            Some(lab) => Box::new(Cable::new(one, lab, self.sender, &self.placement)?),
            None => Box::new(Simulated::new(one, &self.placement)?),
        };
        let mut search = Search::new(path.bound(plan.window)?, plan.resolution);
        while let Some(rate) = search.next() {
            let mut verdict = Verdict::Failed;
            for _ in 0..TRIALS {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let trial = path.trial(Some(rate), plan.window, None)?;
                verdict = trial.verdict();
                if verdict == Verdict::Failed {
                    break;
                }
            }
            search.tell(rate, verdict);
        }
        let found = search.found();
        if found.rate > 0.0 {
            for (position, load) in (0..).zip(LOADS) {
                let rate = found.rate * load as f64 / 100.0;
                path.trial(Some(rate), plan.window, Some(position))?;
            }
        }
        let (nature, mut ages) = path.finish()?;
        ages.retain(|ages| !ages.is_empty());
        Ok(Some((nature, Sample { found, ages })))
    }
}

/// What one trial brought.
#[derive(Clone, Copy, Debug)]
struct Trial {
    sent: u64,
    received: u64,
    elapsed: Duration,
}

impl Trial {
    fn verdict(&self) -> Verdict {
        let rate = self.sent as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        // A trial that sent nothing shows nothing.
        if self.sent > 0 && self.received >= self.sent {
            Verdict::Passed { rate }
        } else {
            Verdict::Failed
        }
    }
}

/// A sender and a receiver.
trait Path {
    /// What the sender can send, in packets per second.
    fn bound(&mut self, window: Duration) -> Result<f64>;

    /// Sends at `rate`, or with `None` all it can; ages go into a histogram, if there is one.
    fn trial(&mut self, rate: Option<f64>, window: Duration, ages: Option<u8>) -> Result<Trial>;

    /// What it was, and the ages.
    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)>;
}

/// A sender in the kernel, and a port at the other end of the cable.
struct Cable<'a> {
    near: &'a Site,
    frames: Vec<Vec<u8>>,
    sender: Option<u32>,
    receiver: Receiver,
}

impl<'a> Cable<'a> {
    fn new(one: &Series, lab: &'a Lab, sender: Option<u32>, placement: &Placement) -> Result<Self> {
        let stream = Stream::new(&format!("sim:1?flows={FLOWS}&size={}", one.size).parse()?)?;
        let frames = (0..FLOWS).map(|k| stream.packet(k).bytes).collect();
        let spec = one.port.parse()?;
        let far = Some(&lab.far);
        let receiver = Receiver::start(&spec, far, placement, Stamp::InPacket, LOADS.len())?;
        Ok(Self { near: &lab.near, frames, sender, receiver })
    }
}

impl Path for Cable<'_> {
    fn bound(&mut self, window: Duration) -> Result<f64> {
        let trial = self.trial(None, window, None)?;
        Ok(trial.sent as f64 / trial.elapsed.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    fn trial(&mut self, rate: Option<f64>, window: Duration, ages: Option<u8>) -> Result<Trial> {
        let before = self.receiver.received();
        self.receiver.record(ages);
        let rate = rate.map(|rate| rate.max(1.0) as u64);
        let count = rate.map(|rate| (rate as f64 * window.as_secs_f64()).ceil() as u64);
        let pace = Pace { count, rate, cpu: self.sender };
        let start = || {
            LiveSender::stamping(self.near.interface(), &self.frames)
                .and_then(|sender| sender.start(pace))
        };
        let sending = self.near.inside(start)??;
        // A sender that does not keep up is not waited for.
        let end = Instant::now() + window + window / 2;
        if rate.is_none() {
            thread::sleep(window);
        } else {
            while !sending.is_finished() && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let sent = sending.stop()?;
        self.receiver.drain(before + sent.frames);
        let received = self.receiver.received() - before;
        self.receiver.record(None);
        if !self.receiver.is_alive() {
            return Ok(Trial { sent: sent.frames, received: 0, elapsed: window });
        }
        Ok(Trial { sent: sent.frames, received, elapsed: sent.elapsed })
    }

    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)> {
        let nature = self.receiver.nature();
        Ok((nature, self.receiver.finish()?))
    }
}

/// An interface that makes its own packets: another one for every rate.
struct Simulated<'a> {
    size: usize,
    placement: &'a Placement,
    nature: Option<Nature>,
    ages: Vec<Histogram<u64>>,
}

impl<'a> Simulated<'a> {
    fn new(one: &Series, placement: &'a Placement) -> Result<Self> {
        Ok(Self { size: one.size, placement, nature: None, ages: Vec::new() })
    }
}

impl Path for Simulated<'_> {
    fn bound(&mut self, _window: Duration) -> Result<f64> {
        // Any rate can be asked for. No processor receives one in five nanoseconds.
        Ok(200e6)
    }

    fn trial(&mut self, rate: Option<f64>, window: Duration, ages: Option<u8>) -> Result<Trial> {
        let rate = rate.unwrap_or(1.0).max(1.0) as u64;
        let text = format!("sim:1?flows={FLOWS}&size={}&rate={rate}", self.size);
        let spec: Spec = text.parse()?;
        let receiver = Receiver::start(&spec, None, self.placement, Stamp::OfPort, LOADS.len())?;
        receiver.record(ages);
        let begin = Instant::now();
        thread::sleep(window);
        let (received, elapsed) = (receiver.received(), begin.elapsed());
        let lost = receiver.ring_full();
        self.nature = Some(receiver.nature());
        for (position, ages) in receiver.finish()?.into_iter().enumerate() {
            match self.ages.get_mut(position) {
                // All have the same bounds.
                Some(sum) => sum.add(ages).unwrap_or_default(),
                None => self.ages.push(ages),
            }
        }
        // The interface counts a loss when it is asked for packets. A receiver that does not come to ask has
        // lost them as well; what may still lie in the ring when the time is over has not been.
        let due = (rate as f64 * elapsed.as_secs_f64() * 0.9) as u64;
        let sent = (received + lost).max(due);
        // It sends at the rate that it was asked for, whoever looks how late.
        let elapsed = Duration::from_secs_f64(sent as f64 / rate as f64);
        Ok(Trial { sent, received, elapsed })
    }

    fn finish(self: Box<Self>) -> Result<(Nature, Vec<Histogram<u64>>)> {
        let nature = self.nature.ok_or_else(|| Error::failed("sim:1", "was not measured"))?;
        Ok((nature, self.ages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_has_a_rate_and_latencies() {
        let plan = Plan { samples: 1, window: Duration::from_millis(20), ..Plan::quick() };
        let mut report = Report::new("test".into());
        noloss(&plan, &mut report, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        let skipped = report.skipped.len();
        assert!(skipped == 0 || skipped == 3, "{:?}", report.skipped);
        let of = |metric: &'static str| report.rows.iter().filter(move |row| row.metric == metric);
        assert_eq!(of("packets_per_s").count(), RECEIVERS.len() - skipped);
        // On a machine that has no time nothing may pass.
        let passed = of("packets_per_s").filter(|row| row.samples[0] > 0.0).count();
        assert_eq!(of("latency_p99_ns").count(), LOADS.len() * passed);
        for row in of("latency_p50_ns") {
            let max = of("latency_max_ns").find(|max| max.params == row.params).unwrap();
            assert!(row.samples[0] > 0.0 && row.samples[0] <= max.samples[0], "{row:?} {max:?}");
        }
    }

    #[test]
    fn a_trial_passes_with_all_or_not_at_all() {
        let trial =
            |sent, received| Trial { sent, received, elapsed: Duration::from_secs(2) }.verdict();
        assert_eq!(trial(10, 10), Verdict::Passed { rate: 5.0 });
        assert_eq!(trial(10, 9), Verdict::Failed);
        assert_eq!(trial(0, 0), Verdict::Failed);
    }

    #[test]
    fn a_run_is_stopped_at_once() {
        let mut report = Report::new("test".into());
        noloss(&Plan::full(), &mut report, &AtomicBool::new(true), &mut |_, _| {}).unwrap();
        assert!(report.rows.is_empty());
    }
}
