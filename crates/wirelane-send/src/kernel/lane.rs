//! The loop of one thread of the kernel engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use wirelane::internal::stats::TxCounters;
use wirelane::{Error, Result};
use wirelane_gen::stream::Stream;
use wirelane_gen::{Rate, ThreadShare};
use wirelane_os::clock;
use wirelane_os::netdev::LinkReader;

use super::anchor::Anchor;
use super::live::not_sent;
use super::probe::transmits;
use super::program::{INTERVAL_SHIFT, SenderProgram};
use crate::pacer::{Pacer, Pacing};
use crate::session::{LaneEnd, LaneProgress, SendConfig, Skipped, has_no_link, is_down};
use crate::timing::Departures;

/// The most frames per system call without a rate. A call takes a few milliseconds; the thread
/// checks for a stop request between calls.
const RUN: u64 = 1 << 15;
/// The same for several streams, which take turns.
const TURN: u64 = 512;
/// Frames between two flushes. The ring of a veth has 256 slots, and is drained after each batch.
const BATCH: u64 = 64;
/// The time that the packets of one call with a rate cover, in nanoseconds.
const CALL: u64 = 50_000_000;
/// Pairs of an interval in nanoseconds and a group size: packets with at least this interval leave
/// in groups of this size. Polling the clock for one departure takes about 280 ns, a packet 150 ns
/// (measured on a virtual AMD EPYC, Zen 5), so a quarter of the time remains.
const GROUPS: [(u64, u64); 3] = [(600, 1), (400, 2), (300, 4)];
/// The largest group, for shorter intervals.
const GROUP: u64 = 16;
/// The most packets per call with a rate: about 10 ms at the highest rates.
const PACED_RUN: u64 = 1 << 17;
/// Above this interval, in nanoseconds, the thread sleeps between two packets.
const SLEEP: u64 = 150_000;
/// How long before a packet is due the thread starts the program, in nanoseconds. The program then
/// waits in the kernel.
const LEAD: u64 = 40_000;
/// The longest sleep, in nanoseconds. After it, a thread checks for a stop request.
const NAP: u64 = 20_000_000;
/// The interval at which the interface statistics are read, in nanoseconds.
const WATCH: u64 = 20_000_000;
/// The interval at which the thread checks whether the interface still transmits, in nanoseconds.
const ASK: u64 = 1_000_000_000;

/// State that all threads share.
pub(super) struct KernelRun {
    pub(super) interface: String,
    pub(super) config: SendConfig,
    /// On the monotonic clock.
    pub(super) start: AtomicU64,
    stopping: AtomicBool,
    losses: Mutex<DroppedFrames>,
    pub(super) lanes: Arc<[LaneProgress]>,
}

impl KernelRun {
    pub(super) fn new(interface: &str, lanes: usize, config: &SendConfig) -> Result<Self> {
        Ok(Self {
            interface: interface.to_owned(),
            config: config.clone(),
            start: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            losses: Mutex::new(DroppedFrames::new(interface)?),
            lanes: (0..lanes).map(|_| LaneProgress::default()).collect(),
        })
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Nanoseconds after the start at which sending ends.
    fn duration(&self) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.config.duration.map_or(u64::MAX, nanoseconds)
    }
}

/// Frames that the interface dropped after the programs had redirected them.
struct DroppedFrames {
    link: LinkReader,
    /// The drop counter at the last reading.
    seen: u64,
    /// Drops that are not yet subtracted from the sent frames.
    open: u64,
    /// The next time to check whether the interface transmits.
    ask: u64,
}

impl DroppedFrames {
    fn new(interface: &str) -> Result<Self> {
        let failed = |error| Error::os(interface, error);
        let mut link = LinkReader::open(interface).map_err(failed)?;
        let seen = link.read().map_err(failed)?.tx_dropped.unwrap_or(0);
        Ok(Self { link, seen, open: 0, ask: 0 })
    }

    /// Returns how many of `frames` redirected to the interface `name` were dropped.
    ///
    /// # Errors
    /// The interface is gone, down or without a link. It then drops frames without counting them.
    fn take(&mut self, name: &str, frames: u64) -> Result<u64> {
        let link = self.link.read().map_err(|error| Error::os(name, error))?;
        if !link.is_up() {
            return Err(is_down(name));
        }
        if !link.is_running() {
            return Err(has_no_link(name));
        }
        if let Some(dropped) = link.tx_dropped {
            self.open += dropped.saturating_sub(self.seen);
            self.seen = dropped;
        }
        let lost = self.open.min(frames);
        self.open -= lost;
        Ok(lost)
    }
}

/// One stream on this thread.
pub(super) struct StreamShare {
    sender: SenderProgram,
    _anchor: Option<Anchor>,
    stream: Stream,
    /// The number of frames that this lane sends in total.
    count: u64,
    /// Frames sent.
    sent: u64,
    lengths: LaneLengths,
}

impl StreamShare {
    /// The part of `lane` in the first `count` packets of the stream, or in all packets if `None`.
    pub(super) fn new(
        sender: SenderProgram,
        stream: &Stream,
        lane: ThreadShare,
        count: Option<u64>,
    ) -> Self {
        let (index, of) = (u64::from(lane.index), u64::from(lane.of));
        let share = |count: u64| count / of + u64::from(index < count % of);
        Self {
            _anchor: Anchor::of(&sender.program).ok(),
            sender,
            count: count.map_or(u64::MAX, share),
            sent: 0,
            lengths: LaneLengths::new(stream, lane),
            stream: stream.clone(),
        }
    }
}

/// The lengths of a lane's packets.
struct LaneLengths {
    /// The sum of the bytes before each packet of a cycle, and of the whole cycle.
    before: Vec<u64>,
}

impl LaneLengths {
    fn new(stream: &Stream, lane: ThreadShare) -> Self {
        let cycle = if stream.lengths.fixed().is_some() { 1 } else { stream.lengths.cycle().len() };
        let mut before = vec![0];
        let mut sum = 0;
        for packet in 0..cycle as u64 {
            let number = u64::from(lane.index) + packet * u64::from(lane.of);
            sum += stream.lengths.at(number) as u64;
            before.push(sum);
        }
        Self { before }
    }

    /// The bytes of the first `packets` packets.
    fn until(&self, packets: u64) -> u64 {
        let cycle = (self.before.len() - 1).max(1) as u64;
        let of = |packets: u64| self.before.get(packets as usize).copied().unwrap_or(0);
        (packets / cycle).wrapping_mul(of(cycle)).wrapping_add(of(packets % cycle))
    }
}

/// A thread's part of everything.
pub(super) struct KernelLane {
    lane: ThreadShare,
    shares: Vec<StreamShare>,
    counters: Arc<TxCounters>,
    shared: Arc<KernelRun>,
    departures: Departures,
    /// Redirected frames and bytes that are not yet compared with the interface drops.
    open: (u64, u64),
    watched: u64,
}

impl KernelLane {
    pub(super) fn new(
        lane: ThreadShare,
        shares: Vec<StreamShare>,
        counters: Arc<TxCounters>,
        shared: &Arc<KernelRun>,
    ) -> Self {
        let shared = Arc::clone(shared);
        let departures = Departures::new();
        Self { lane, shares, counters, shared, departures, open: (0, 0), watched: 0 }
    }

    /// Sends until the end. An error ends the other threads, too.
    pub(super) fn run(mut self) -> LaneEnd {
        clock::wake_promptly();
        let paced = self.shares.iter().any(|share| share.stream.rate != Rate::Max);
        let sent = if paced { self.keep_schedule() } else { self.hurry() };
        let settled = self.settle(true);
        let errors: Vec<Error> = [sent, settled].into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            self.shared.stop();
        }
        LaneEnd { departures: self.departures, skipped: Skipped::default(), errors }
    }

    /// Sends as fast as possible. The streams take turns.
    fn hurry(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let start = shared.start.load(Ordering::Acquire);
        let mut now = wait_until(clock::monotonic_ns(), start);
        let end = start.saturating_add(shared.duration());
        let turn = if self.shares.len() > 1 { TURN } else { RUN };
        let (first, mut sent) = (now, 0);
        let mut ended = Ok(());
        while !shared.is_stopping() && now < end && ended.is_ok() {
            let before = sent;
            for index in 0..self.shares.len() {
                // Near the end, sends only the packets that the remaining time allows.
                let fits = match now.saturating_sub(first) {
                    0 => BATCH,
                    elapsed => {
                        let rate = sent as f64 / elapsed as f64;
                        ((end - now.min(end)) as f64 * rate) as u64 + 1
                    }
                };
                match self.call(index, turn.min(fits), BATCH) {
                    Ok(frames) => sent += frames,
                    Err(error) => ended = Err(error),
                }
                now = clock::monotonic_ns();
                if now >= end || ended.is_err() {
                    break;
                }
            }
            if sent == before {
                break;
            }
            self.progress(now - start.min(now));
            ended = ended.and_then(|()| self.watch(now));
        }
        self.departures.record_span(sent, (0, 0), (first, now));
        ended
    }

    /// Sends the only stream at its scheduled times.
    fn keep_schedule(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let Some(share) = self.shares.first() else { return Ok(()) };
        let stream = share.stream.clone();
        let failed =
            |why: wirelane_gen::Error| Error::failed(shared.interface.as_str(), why.to_string());
        let schedule = stream.schedule().map_err(failed)?;
        let (index, of) = (u64::from(self.lane.index), u64::from(self.lane.of));
        let due = |packet: u64| schedule.due(packet.saturating_mul(of).saturating_add(index));
        let own = stream.duration.map_or(u64::MAX, |time| stream.start.saturating_add(time));
        let end = shared.duration().min(own);
        let mut pacer = Pacer::new(shared.start.load(Ordering::Acquire), shared.config.pacing);
        let start = shared.start.load(Ordering::Acquire);
        // A delayed schedule ends at this time at the latest.
        let deadline = start.saturating_add(end).saturating_add(Pacer::LONGEST_DELAY);
        let mut now = clock::monotonic_ns();
        let (mut sent, mut from) = (0, None);
        let mut ended = Ok(());
        while !shared.is_stopping() && now < deadline && ended.is_ok() && !self.is_over() {
            let at = due(sent);
            if at >= end {
                break;
            }
            let interval = due(sent + 1).saturating_sub(at).max(1);
            let ready = pacer.due(at).saturating_sub(LEAD);
            if now < ready {
                now = sleep(now, ready.min(now.saturating_add(NAP)));
                ended = self.watch(now);
                continue;
            }
            let wanted = if interval > SLEEP { 1 } else { (CALL / interval).clamp(1, PACED_RUN) };
            let wanted = wanted.min(schedule_left(end - at, interval));
            let span = due(sent + wanted).saturating_sub(at);
            let exact = ((u128::from(span) << INTERVAL_SHIFT) / u128::from(wanted)) as u64;
            let base = pacer.due(at);
            let group = group(shared.config.pacing, interval);
            let paced = self.shares.first();
            let paced = paced.map_or(Ok(()), |share| share.sender.pace(base, sent, exact, group));
            paced.map_err(|error| Error::os(shared.interface.as_str(), error))?;
            from.get_or_insert(base.max(now));
            let batch = batch(shared.config.pacing, interval);
            let done = self.call(0, wanted, batch).unwrap_or_else(|error| {
                ended = Err(error);
                0
            });
            now = clock::monotonic_ns();
            if ended.is_err() {
                break;
            }
            sent += done;
            let next = due(sent);
            if now.saturating_sub(pacer.due(next)) > Pacer::LONGEST_DELAY {
                pacer.after_burst(next, now);
            }
            self.progress(due(sent.saturating_sub(1)));
            ended = self.watch(now);
        }
        self.departures.set_moved(pacer.moved());
        let (Some(share), Some(from)) = (self.shares.first(), from) else { return ended };
        let state = share.sender.state();
        let state = state.map_err(|error| Error::os(shared.interface.as_str(), error))?;
        if sent > 0 {
            let scheduled = (due(0), due(sent - 1));
            self.departures.record_span(sent, scheduled, (from, state.last()));
        }
        for (lateness, packets) in state.lateness().filter(|(_, packets)| *packets > 0) {
            self.departures.record_errors(lateness, packets);
        }
        ended
    }

    /// Whether all frames of this lane are sent.
    fn is_over(&self) -> bool {
        self.shares.iter().all(|share| share.sent >= share.count)
    }

    /// Has the kernel send up to `wanted` packets of a stream. Returns the number of sent packets.
    fn call(&mut self, index: usize, wanted: u64, batch: u64) -> Result<u64> {
        let Some(share) = self.shares.get_mut(index) else { return Ok(0) };
        let wanted = wanted.min(share.count - share.sent.min(share.count));
        if wanted == 0 {
            return Ok(0);
        }
        let interface = self.shared.interface.as_str();
        let repeat = u32::try_from(wanted).unwrap_or(u32::MAX);
        let called =
            share.sender.program.live_frames(&share.sender.frame, None, repeat, batch as u32);
        let state = share.sender.state().map_err(|error| Error::os(interface, error))?;
        let frames = state.frames() - share.sent;
        let bytes = share.lengths.until(state.frames()) - share.lengths.until(share.sent);
        share.sent = state.frames();
        match called {
            // A signal may end a call early.
            Err(error) if error.errno() != Some(Errno::INTR.raw_os_error()) => {
                self.lose(frames);
                Err(not_sent(interface, error))
            }
            _ => {
                self.open = (self.open.0 + frames, self.open.1 + bytes);
                Ok(frames)
            }
        }
    }

    /// Publishes the progress.
    fn progress(&self, at: u64) {
        let Some(progress) = self.shared.lanes.get(self.lane.index as usize) else { return };
        let packets = self.shares.iter().map(|share| share.sent).sum();
        progress.packets.store(packets, Ordering::Relaxed);
        progress.at.store(at, Ordering::Relaxed);
    }

    /// Reads the interface drops if the last reading is old enough.
    fn watch(&mut self, now: u64) -> Result<()> {
        if now.saturating_sub(self.watched) < WATCH {
            return Ok(());
        }
        self.watched = now;
        self.settle(false)
    }

    /// Counts the redirected frames minus the interface drops.
    fn settle(&mut self, at_the_end: bool) -> Result<()> {
        let (frames, bytes) = std::mem::take(&mut self.open);
        let shared = Arc::clone(&self.shared);
        let mut losses = shared.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let interface = shared.interface.as_str();
        let taken = losses.take(interface, frames);
        let now = clock::monotonic_ns();
        let ask = at_the_end || now >= losses.ask;
        if ask {
            losses.ask = now + ASK;
        }
        drop(losses);
        if frames == 0 {
            return Ok(());
        }
        let lost = taken.and_then(|lost| {
            let asked = if ask { transmits(interface) } else { Ok(()) };
            asked.map_err(|refusal| Error::failed(interface, refusal.to_string())).map(|()| lost)
        });
        // On an error, it is unknown which of these frames left. All count as lost.
        let lost = lost.inspect_err(|_| self.lose(frames))?;
        let mean = bytes.checked_div(frames).unwrap_or(0);
        self.counters.count(frames - lost, bytes - lost * mean);
        self.lose(lost);
        Ok(())
    }

    fn lose(&self, frames: u64) {
        self.counters.count_refused(frames);
    }
}

/// Packets that are due within `left` nanoseconds, at least one.
fn schedule_left(left: u64, interval: u64) -> u64 {
    left.div_ceil(interval).max(1)
}

/// The number of packets that leave together when the first is due: a power of two.
fn group(pacing: Pacing, interval: u64) -> u64 {
    let found = GROUPS.into_iter().find(|(least, _)| interval >= *least);
    let most = (pacing.burst.max(1) as u64).min(found.map_or(GROUP, |(_, group)| group));
    1 << most.ilog2()
}

/// The number of packets per flush: those due within the horizon, rounded up to whole groups.
fn batch(pacing: Pacing, interval: u64) -> u64 {
    let horizon = u64::try_from(pacing.horizon.as_nanos()).unwrap_or(u64::MAX);
    let burst = (pacing.burst.max(1) as u64).min(BATCH);
    let group = group(pacing, interval);
    let due = (horizon / interval).clamp(1, burst);
    due.next_multiple_of(group).min(burst / group * group)
}

/// Sleeps until `until`. Returns the current time.
fn sleep(now: u64, until: u64) -> u64 {
    if now < until {
        clock::sleep_until(until);
    }
    clock::monotonic_ns()
}

fn wait_until(now: u64, until: u64) -> u64 {
    if now < until { sleep(now, until) } else { now }
}

#[cfg(test)]
mod tests {
    use wirelane_gen::sizes::Sizes;

    use super::*;

    #[test]
    fn the_bytes_of_a_lane() {
        let recipe = "udp".parse().unwrap();
        for (sizes, of) in [("100", 1), ("100", 3), ("60,100,1000", 1), ("60,100,1000,70", 2)] {
            let sizes: Sizes = sizes.parse().unwrap();
            let stream = Stream::new("s", &recipe, Some(&sizes), 0).unwrap();
            for index in 0..of {
                let lengths = LaneLengths::new(&stream, ThreadShare { index, of });
                let mut sum = 0;
                for packet in 0..20 {
                    assert_eq!(lengths.until(packet), sum);
                    let number = packet * u64::from(of) + u64::from(index);
                    sum += stream.lengths.at(number) as u64;
                }
            }
        }
    }

    #[test]
    fn what_is_due_within_the_horizon_is_one_batch() {
        let pacing = Pacing::default();
        let gaps = [1_000_000, 1000, 500, 300, 299, 100, 50, 1];
        assert_eq!(gaps.map(|gap| group(pacing, gap)), [1, 1, 2, 4, 16, 16, 16, 16]);
        assert_eq!(gaps.map(|gap| batch(pacing, gap)), [1, 1, 2, 4, 16, 16, 32, 32]);
        assert_eq!([1, 2, 3, 8, 20].map(|most| group(pacing.burst(most), 1)), [1, 2, 2, 8, 16]);
        assert_eq!([1, 2, 3, 8, 20].map(|most| batch(pacing.burst(most), 1)), [1, 2, 2, 8, 16]);
        assert_eq!(batch(pacing.burst(1), 1), 1);
    }
}
