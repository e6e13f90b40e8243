//! Runs the trials of RFC 2544 and collects their results.

use std::time::Duration;

use wirelane::{Error, Result};

use super::goal::{Goal, Shot};
use super::report::{BackToBack, LossPoint, NdrReport, SizeReport, Throughput, TrialSummary};
use super::search::{Method, Probe, RateSearch};
use super::tester::{Passage, Tester, TrialMoment};
use super::traffic::TrialLoad;

/// The tests to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tests {
    /// Throughput (RFC 2544, section 26.1).
    pub throughput: bool,
    /// Latency at shares of the throughput (section 26.2).
    pub latency: bool,
    /// Frame loss rate by load (section 26.3).
    pub loss: bool,
    /// The longest burst without loss (section 26.4).
    pub burst: bool,
}

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Frame sizes including the frame check sequence. If empty, the traffic is measured once with
    /// its own sizes.
    pub sizes: Vec<usize>,
    /// Runs only one trial at this rate, in packets per second and direction, without a search.
    pub rate: Option<f64>,
    /// The tests to run.
    pub tests: Tests,
    /// Acceptable shares of lost packets, with a search for each.
    pub loss_ratios: Vec<f64>,
    /// The sending time of a full trial.
    pub duration: Duration,
    /// The number of full trials that a rate must pass.
    pub repeat: u32,
    /// The share of these trials that may fail.
    pub exceed_ratio: f64,
    /// The precision of the search, as a share of the rate.
    pub width: f64,
    /// The search method.
    pub method: Method,
    /// The largest rate, in packets per second and direction.
    pub max_rate: Option<f64>,
}

/// Progress of a campaign.
#[derive(Clone, Debug)]
pub struct CampaignStep<'a> {
    /// The frame size.
    pub frame: Option<usize>,
    /// The current measurement.
    pub doing: &'a str,
    /// The load of the trial.
    pub load: TrialLoad,
    /// The progress of each direction.
    pub moments: &'a [TrialMoment],
    /// The result, after the end of the trial.
    pub result: Option<&'a [Passage]>,
}

/// The loads at which latencies are measured, in percent of the throughput.
const LOADS: [f64; 4] = [100.0, 90.0, 50.0, 10.0];
/// Bytes of the frame check sequence.
const FCS: usize = 4;
/// The duration of the longest burst (RFC 2544, section 26.4: at least two seconds).
const LONGEST_BURST: Duration = Duration::from_secs(2);
/// Departures of a shorter burst, in seconds, are too close to compute a rate: a batch has a single
/// departure time.
const SHORTEST_SPAN: f64 = 10e-6;
/// The longest trial that measures the highest rate of the sender.
const LONGEST_LOOK: Duration = Duration::from_millis(500);

impl Campaign {
    /// Runs all trials. If [`halt`](Tester::halt) is requested, the report contains the results so
    /// far.
    ///
    /// # Errors
    /// A trial fails.
    pub fn run(
        &self,
        tester: &mut Tester,
        watch: &mut dyn FnMut(&CampaignStep<'_>),
    ) -> Result<NdrReport> {
        let directions = tester.directions.iter().map(|direction| direction.name.clone()).collect();
        let method = self.rate.is_none().then_some(self.method);
        let mut report = NdrReport { directions, method, ..NdrReport::default() };
        let sizes: Vec<_> = match self.sizes.as_slice() {
            [] => vec![None],
            sizes => sizes.iter().copied().map(Some).collect(),
        };
        for frame in sizes {
            let length = frame.map(|frame| frame.saturating_sub(FCS));
            let own = SizeReport { frame, length, ..SizeReport::default() };
            let mut bench = FrameSizeTrials { campaign: self, tester, watch, own, doing: "" };
            let outcome = bench.measure();
            report.sizes.push(bench.own);
            match outcome {
                Ok(()) => {}
                Err(EarlyEnd::Failed(error)) => return Err(error),
                Err(EarlyEnd::Halted) => {
                    report.interrupted = true;
                    break;
                }
            }
        }
        report.trials = tester.trials();
        Ok(report)
    }
}

/// Why a measurement ended early.
enum EarlyEnd {
    /// A halt was requested.
    Halted,
    Failed(Error),
}

impl From<Error> for EarlyEnd {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The trials of one frame size.
struct FrameSizeTrials<'a, 'b> {
    campaign: &'a Campaign,
    tester: &'a mut Tester,
    watch: &'a mut (dyn FnMut(&CampaignStep<'_>) + 'b),
    own: SizeReport,
    doing: &'static str,
}

impl FrameSizeTrials<'_, '_> {
    fn measure(&mut self) -> Result<(), EarlyEnd> {
        let Campaign { rate, tests, duration, .. } = *self.campaign;
        if let Some(rate) = rate {
            self.doing = "measuring";
            let passages = self.trial(rate, duration, None)?;
            self.own.loads.push(TrialSummary::new(None, &passages));
            return Ok(());
        }
        self.doing = "what can be sent";
        let passages = self.trial(f64::INFINITY, duration.min(LONGEST_LOOK), None)?;
        nothing_arrived(&passages)?;
        let able = worst(&passages, |shot| -shot.rate).map_or(0.0, |shot| shot.rate);
        let limit = self.campaign.max_rate.filter(|rate| *rate <= able);
        let max = limit.unwrap_or(able);
        self.own.sender_max_pps = Some(able);
        if tests.throughput || tests.latency {
            self.throughput(max, limit)?;
        }
        let found = self.own.throughput.first().map_or(0.0, |throughput| throughput.pps);
        if tests.latency && found > 0.0 {
            self.doing = "latency";
            for percent in LOADS {
                let passages = self.trial(found * percent / 100.0, duration, None)?;
                self.own.loads.push(TrialSummary::new(Some(percent), &passages));
            }
        }
        if tests.loss {
            self.loss_curve(max)?;
        }
        if tests.burst {
            self.burst(max)?;
        }
        Ok(())
    }

    fn throughput(&mut self, max: f64, limit: Option<f64>) -> Result<(), EarlyEnd> {
        self.doing = "throughput";
        let Campaign { duration, repeat, exceed_ratio, width, method, .. } = *self.campaign;
        let goal = |loss_ratio: &f64| Goal {
            loss_ratio: *loss_ratio,
            exceed_ratio,
            duration,
            duration_sum: duration * repeat.max(1),
            width,
        };
        let goals = self.campaign.loss_ratios.iter().map(goal).collect();
        let mut search = RateSearch::new(max, goals, method);
        let outcome = loop {
            let Some(Probe { rate, duration }) = search.probe() else { break Ok(()) };
            match self.trial(rate, duration, None) {
                Ok(passages) => {
                    let shot = worst(&passages, Shot::loss_ratio);
                    let nothing = Shot { duration, sent: 0, lost: 0, rate: 0.0 };
                    search.tell(Probe { rate, duration }, shot.unwrap_or(nothing));
                }
                Err(error) => break Err(error),
            }
        };
        let found = search.found().into_iter().zip(&self.campaign.loss_ratios);
        let length = self.own.length;
        self.own.throughput =
            found.map(|(found, ratio)| Throughput::new(found, *ratio, length, limit)).collect();
        outcome
    }

    /// Lowers the load from the highest rate until two trials in a row lose no packet.
    fn loss_curve(&mut self, max: f64) -> Result<(), EarlyEnd> {
        self.doing = "frame loss rate";
        let mut without = 0;
        for tenths in (1..=10).rev() {
            let percent = f64::from(tenths) * 10.0;
            let passages = self.trial(max * percent / 100.0, self.campaign.duration, None)?;
            let Some(shot) = worst(&passages, Shot::loss_ratio) else { break };
            let loss_ratio = shot.loss_ratio();
            self.own.loss_curve.push(LossPoint { percent, pps: shot.rate, loss_ratio });
            without = if shot.lost == 0 { without + 1 } else { 0 };
            if without == 2 {
                break;
            }
        }
        Ok(())
    }

    /// Searches for the longest burst without loss by bisection.
    fn burst(&mut self, max: f64) -> Result<(), EarlyEnd> {
        self.doing = "back-to-back frames";
        let longest = (max * LONGEST_BURST.as_secs_f64()) as u64;
        let (mut passed, mut failed, mut rate) = (0, longest + 1, 0.0);
        let mut packets = longest;
        while packets > passed && failed - passed > 1 + passed / 200 {
            let passages = self.trial(f64::INFINITY, LONGEST_BURST * 2, Some(packets))?;
            let shot = worst(&passages, Shot::loss_ratio);
            match shot.filter(|shot| shot.lost == 0 && shot.sent >= packets) {
                Some(shot) => (passed, rate) = (packets, shot.rate),
                None => failed = packets,
            }
            packets = passed + (failed - passed) / 2;
        }
        let unlimited = passed == longest;
        let pps = (passed as f64 >= rate * SHORTEST_SPAN && rate > 0.0).then_some(rate);
        self.own.back_to_back = Some(BackToBack { packets: passed, unlimited, pps });
        Ok(())
    }

    fn trial(
        &mut self,
        rate: f64,
        duration: Duration,
        packets: Option<u64>,
    ) -> Result<Vec<Passage>, EarlyEnd> {
        let load = TrialLoad { len: self.own.length, rate, duration, packets };
        let (frame, doing) = (self.own.frame, self.doing);
        let step = CampaignStep { frame, doing, load, moments: &[], result: None };
        let watch = &mut *self.watch;
        let passages = self.tester.trial(&load, &mut |moments| {
            watch(&CampaignStep { moments, ..step.clone() });
        })?;
        let passages = passages.ok_or(EarlyEnd::Halted)?;
        (self.watch)(&CampaignStep { result: Some(&passages), ..step });
        Ok(passages)
    }
}

/// Returns an error if a direction delivers no packets: a search would be useless.
fn nothing_arrived(passages: &[Passage]) -> Result<()> {
    let silent = passages.iter().find(|passage| passage.heard.total.received == 0);
    let Some(passage) = silent else { return Ok(()) };
    let cause = format!("none of {} packets arrived", passage.sent);
    Err(Error::failed(passage.name.clone(), cause).help(
        "check the cable and the device under test; a router needs addresses that it knows, and its \
         Ethernet address",
    ))
}

/// The result of the direction with the largest value of `of`.
fn worst(passages: &[Passage], of: impl Fn(&Shot) -> f64) -> Option<Shot> {
    let shots = passages.iter().map(Passage::shot);
    shots.max_by(|one, other| of(one).total_cmp(&of(other)))
}
