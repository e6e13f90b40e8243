//! One trial: sends in all directions at once, waits for late packets, reads the counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::internal::clock;
use wirelane::internal::port::ProgramOptions;
use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, PortInfo, Spec};
use wirelane::session::Session;
use wirelane::{Error, Result};
use wirelane_gen::ThreadShare;
use wirelane_gen::signature::{self, SignatureKey};

use super::goal::Shot;
use super::tally::{LaneTally, Tallied};
use super::traffic::{Traffic, TrialLoad};
use crate::measure::{Arrivals, Expectation, Heard, SignedReceiver};
use crate::pacer::Pacing;
use crate::session::{SendConfig, Sending};
use crate::sockets;

/// The interval of progress reports.
const LOOK: Duration = Duration::from_millis(50);

/// One direction through the device under test.
pub struct TestDirection {
    /// A name such as `eth0 → eth1`.
    pub name: String,
    /// The sending port.
    pub sender: Spec,
    /// The receiving port.
    pub receiver: SignedReceiver,
    /// The packets to send.
    pub traffic: Arc<dyn Traffic>,
}

/// The result of one trial in one direction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Passage {
    /// The name of the direction.
    pub name: String,
    /// The requested load.
    pub load: TrialLoad,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the sender generated but could not send.
    pub unsent: u64,
    /// The achieved packets per second.
    pub rate: f64,
    /// All received packets.
    pub heard: Heard,
    /// Results by stream.
    pub streams: Vec<StreamResult>,
}

/// The result of one stream.
#[derive(Clone, Debug)]
pub struct StreamResult {
    /// Its name.
    pub name: String,
    /// Packets generated. They include packets of the stream that are [`unsent`](Passage::unsent).
    pub sent: u64,
    /// Received packets.
    pub arrivals: Arrivals,
}

impl Passage {
    /// Packets that never arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.heard.total.received)
    }

    /// The result as input for a [`RateSearch`](super::RateSearch).
    pub fn shot(&self) -> Shot {
        let (duration, sent, lost) = (self.load.duration, self.sent, self.lost());
        Shot { duration, sent, lost, rate: self.rate }
    }
}

/// Progress of a trial in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrialMoment {
    /// Packets generated.
    pub sent: u64,
    /// Packets received, including copies.
    pub received: u64,
}

/// Runs trials.
pub struct Tester {
    /// The directions. All of them send at the same time.
    pub directions: Vec<TestDirection>,
    /// The CPUs of the sending threads.
    pub placement: Placement,
    /// The largest number of sending threads per direction; `None` for one per TX queue.
    pub threads: Option<usize>,
    /// How long no packet must arrive at the end of a trial, so that late packets do not count as
    /// lost.
    pub settle: Duration,
    /// Ends a trial early.
    pub halt: Halt,
    /// The number of trials so far.
    trials: u64,
    seed: u64,
}

impl Tester {
    /// The longest wait for late packets.
    pub const LONGEST_SETTLE: Duration = Duration::from_secs(5);

    /// A tester that sends in all `directions` at once.
    pub fn new(directions: Vec<TestDirection>, halt: Halt) -> Self {
        // Runs at another time or on another machine get other keys.
        let seed = clock::realtime_ns() ^ u64::from(std::process::id()).rotate_left(40);
        Self {
            directions,
            placement: Placement::default(),
            threads: None,
            settle: Duration::from_millis(200),
            halt,
            trials: 0,
            seed,
        }
    }

    /// How many trials were made.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// The receiving ports.
    pub fn receivers(&self) -> impl Iterator<Item = &PortInfo> {
        self.directions.iter().filter_map(|direction| direction.receiver.info())
    }

    /// Runs a trial, and calls `watch` with the progress of each direction. Returns `None` if
    /// [`halt`](Self::halt) was requested.
    ///
    /// # Errors
    /// A port cannot be opened, or sending or receiving fails.
    pub fn trial(
        &mut self,
        load: &TrialLoad,
        watch: &mut dyn FnMut(&[TrialMoment]),
    ) -> Result<Option<Vec<Passage>>> {
        self.trials += 1;
        // Each trial has a separate key, which identifies late packets of an earlier trial.
        let key = SignatureKey((self.seed ^ self.trials).wrapping_mul(0xff51_afd7_ed55_8ccd));
        let mut running = Vec::new();
        // Catching up could cause loss that the requested rate does not.
        let config = SendConfig::default()
            .pacing(Pacing::default().make_up(false))
            .placement(self.placement.clone())
            .threads(self.threads)
            .halt(self.halt.clone());
        for direction in &mut self.directions {
            running.push(Under::way(direction, load, key, &config)?);
        }
        let end = Instant::now() + load.duration + Tester::LONGEST_SETTLE;
        while !running.iter().all(|one| one.sending.wait(Duration::ZERO)) {
            if self.halt.is_asked() || Instant::now() > end {
                running.iter().for_each(|one| one.sending.stop());
            }
            let moments: Vec<_> = running.iter().zip(&self.directions).map(Under::moment).collect();
            watch(&moments);
            if let Some(slowest) = running.iter().find(|one| !one.sending.wait(Duration::ZERO)) {
                slowest.sending.wait(LOOK);
            }
        }
        let outcomes: Vec<_> = running.into_iter().map(Under::join).collect::<Result<_>>()?;
        for direction in &self.directions {
            direction.receiver.settle(self.settle, Self::LONGEST_SETTLE);
        }
        let mut passages = Vec::new();
        for (direction, sent) in self.directions.iter_mut().zip(outcomes) {
            let heard = direction.receiver.end()?;
            passages.push(sent.passage(direction, load, heard));
        }
        Ok((!self.halt.is_asked()).then_some(passages))
    }
}

/// A direction with a running sender.
struct Under {
    sending: Session<Sending>,
    lanes: Vec<Arc<LaneTally>>,
}

impl Under {
    fn way(
        direction: &mut TestDirection,
        load: &TrialLoad,
        key: SignatureKey,
        config: &SendConfig,
    ) -> Result<Self> {
        let options = OpenOptions::default()
            .receive(false)
            .transmit(true)
            .internal(ProgramOptions::default().outgoing(false))
            .placement(config.placement.clone());
        let port = port::open(&direction.sender, &options)?;
        let (traffic, receiver) = (&direction.traffic, &mut direction.receiver);
        let names = traffic.streams().len();
        let limit = u64::try_from(load.duration.as_nanos()).unwrap_or(u64::MAX);
        // Without a rate, only the time limit ends the trial. Otherwise the packets have scheduled
        // times.
        let limit = if load.rate.is_infinite() { limit } else { u64::MAX };
        let mut lanes = Vec::new();
        let mut make = |lane: ThreadShare| {
            if lane.index == 0 {
                let expected = expectation(traffic.as_ref(), load, lane.of, key)?;
                receiver.begin(&expected);
            }
            let tally = LaneTally::new(names);
            lanes.push(Arc::clone(&tally));
            let source = traffic.source(load, lane, key)?;
            Ok(Box::new(Tallied::new(source, tally, limit)) as _)
        };
        let sending = sockets::start(port, &mut make, config)?;
        Ok(Self { sending, lanes })
    }

    fn moment((under, direction): (&Self, &TestDirection)) -> TrialMoment {
        let sent = under.lanes.iter().map(|lane| lane.packets()).sum();
        TrialMoment { sent, received: direction.receiver.progress().signed }
    }

    fn join(self) -> Result<DirectionSent> {
        let outcome = self.sending.join();
        let made: u64 = self.lanes.iter().map(|lane| lane.packets()).sum();
        let sent = outcome.sent().min(made);
        if let Some(error) = outcome.errors.into_iter().next() {
            return Err(error);
        }
        Ok(DirectionSent { sent, unsent: made - sent, lanes: self.lanes })
    }
}

/// The largest number of packets of each stream on each of `lanes`.
fn expectation(
    traffic: &dyn Traffic,
    load: &TrialLoad,
    lanes: u32,
    key: SignatureKey,
) -> Result<Expectation> {
    let of_lane = |index| traffic.packets(load, ThreadShare { index, of: lanes });
    let by_lane: Vec<_> = (0..lanes).map(of_lane).collect();
    let streams = by_lane.first().map_or(0, Vec::len);
    let most = ThreadShare { index: lanes.saturating_sub(1), of: lanes };
    if streams > 0 && signature::flow(streams as u32 - 1, most).is_none() {
        let cause = format!(
            "{streams} streams on {lanes} threads are more flows than a signature can name"
        );
        return Err(Error::usage("traffic", cause).help("use fewer streams or threads"));
    }
    let packets = (0..streams).flat_map(|stream| by_lane.iter().map(move |lane| lane[stream]));
    Ok(Expectation { key, packets: packets.collect() })
}

/// The sent packets of one direction.
struct DirectionSent {
    sent: u64,
    unsent: u64,
    lanes: Vec<Arc<LaneTally>>,
}

impl DirectionSent {
    fn passage(self, direction: &TestDirection, load: &TrialLoad, heard: Heard) -> Passage {
        let lanes = self.lanes.len();
        let by_lane: Vec<Vec<u64>> =
            self.lanes.iter().map(|lane| lane.streams().collect()).collect();
        let streams = direction.traffic.streams().into_iter().enumerate().map(|(number, name)| {
            let mut arrivals = Arrivals::default();
            for flow in heard.flows.iter().skip(number * lanes).take(lanes) {
                arrivals.merge(flow);
                arrivals.queues = arrivals.queues.max(flow.queues);
            }
            let sent = by_lane.iter().filter_map(|lane| lane.get(number)).sum();
            StreamResult { name, sent, arrivals }
        });
        let streams = streams.collect();
        let name = direction.name.clone();
        let rate = self.rate(load);
        Passage { name, load: *load, sent: self.sent, unsent: self.unsent, rate, heard, streams }
    }

    /// The achieved rate: the intervals between the packets, divided by the time from the first to
    /// the last departure.
    fn rate(&self, load: &TrialLoad) -> f64 {
        let spans = self.lanes.iter().filter_map(|lane| lane.span());
        let span = spans.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        let Some((first, last)) = span.filter(|_| self.sent > 1) else {
            return self.sent as f64 / load.duration.as_secs_f64().max(1e-9);
        };
        (self.sent - 1) as f64 * 1e9 / (last - first).max(1) as f64
    }
}
