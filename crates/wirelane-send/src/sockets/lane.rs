//! The loop of one sending thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use wirelane::{Error, Result};
use wirelane_gen::source::{Departure, PacketSource};
use wirelane_os::clock;

use super::quota::{QuotaAnswer, QuotaPortion};
use super::tx_queue::TxQueue;
use crate::pacer::{Pacer, Pacing};
use crate::session::{LaneEnd, LaneProgress, SendConfig, Skipped};
use crate::timing::Departures;

/// State that all sending threads share.
pub(super) struct SocketRun {
    /// Nanoseconds after the start at which sending ends.
    duration: Option<u64>,
    /// On the monotonic clock.
    pub(super) start: AtomicU64,
    stopping: AtomicBool,
    pub(super) lanes: Arc<[LaneProgress]>,
}

impl SocketRun {
    pub(super) fn new(lanes: usize, config: &SendConfig) -> Self {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            duration: config.duration.map(nanoseconds),
            start: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            lanes: (0..lanes).map(|_| LaneProgress::default()).collect(),
        }
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    #[inline]
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The longest sleep, after which a thread looks whether it is to stop, and what has left.
const NAP: u64 = 20_000_000;
const NAP_PENDING: u64 = 500_000;
/// How long one wait for room in a full queue lasts.
const ROOM: Duration = Duration::from_millis(1);
/// How long the end waits without progress for pending packets to leave, in nanoseconds.
const FAREWELL: u64 = 2_000_000_000;
/// The interval of these checks.
const RETRY: Duration = Duration::from_micros(100);
/// How long after its end a delayed schedule may continue, in nanoseconds.
const GRACE: u64 = Pacer::LONGEST_DELAY;

/// Sends the packets of a source through one TX queue.
pub(super) struct LaneSender {
    index: usize,
    tx_queue: TxQueue,
    source: Box<dyn PacketSource>,
    portion: QuotaPortion,
    shared: Arc<SocketRun>,
    pacing: Pacing,
    /// The scheduled times of the packets that are being passed to the port.
    times: Vec<u64>,
    end: LaneEnd,
}

impl LaneSender {
    pub(super) fn new(
        index: usize,
        tx_queue: TxQueue,
        (source, portion): (Box<dyn PacketSource>, QuotaPortion),
        shared: &Arc<SocketRun>,
        pacing: Pacing,
    ) -> Self {
        let departures = Departures::new().leading(tx_queue.lead());
        let end = LaneEnd { departures, skipped: Skipped::default(), errors: Vec::new() };
        Self {
            index,
            tx_queue,
            source,
            portion,
            shared: Arc::clone(shared),
            pacing,
            times: Vec::with_capacity(Pacing::LARGEST_BURST),
            end,
        }
    }

    /// Sends until the end. An error ends the other threads, too.
    pub(super) fn run(mut self) -> LaneEnd {
        clock::wake_promptly();
        let shared = Arc::clone(&self.shared);
        let on_panic = StopOnPanic(&shared);
        let mut pacer = Pacer::new(shared.start.load(Ordering::Acquire), self.pacing);
        let sent = self.send(&mut pacer);
        if sent.is_err() {
            shared.stop();
        }
        let left = self.finish(&pacer);
        if left.is_err() {
            shared.stop();
        }
        drop(on_panic);
        self.end.errors.extend([sent, left].into_iter().filter_map(Result::err));
        self.end.departures.set_moved(pacer.moved());
        self.end.skipped.unsent = self.tx_queue.abandon();
        self.end
    }

    /// Sends the packets of the source.
    fn send(&mut self, pacer: &mut Pacer) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let start = shared.start.load(Ordering::Acquire);
        let last = |time: u64| start.saturating_add(time).saturating_add(GRACE);
        let deadline = shared.duration.map_or(u64::MAX, last);
        let mut now = clock::monotonic_ns();
        // Do not wait for the time of a packet that will not be sent.
        while !shared.is_stopping() && now < deadline && !self.portion.is_spent() {
            let Some(next) = self.next()?.filter(|next| !self.is_over(next, start, now)) else {
                break;
            };
            let due = pacer.due(next.at).saturating_sub(self.tx_queue.lead());
            if due > pacer.until(now) {
                now = self.idle(pacer, now, due)?;
                continue;
            }
            let most = if next.at == 0 { Pacing::LARGEST_BURST } else { self.pacing.burst };
            let taken = self.fill(pacer, now, most)?;
            if taken == QuotaAnswer::Nothing {
                break;
            }
            if !self.times.is_empty() {
                self.pass_on()?;
            } else if taken == QuotaAnswer::Later {
                thread::sleep(ROOM);
            } else {
                self.tx_queue.wait(ROOM)?;
            }
            now = clock::monotonic_ns();
            self.tx_queue.watch(now)?;
            let is_burst = self.times.len() == most;
            self.count(pacer, now);
            if is_burst
                && !self.portion.is_spent()
                && let Some(next) = self.next()?
            {
                pacer.after_burst(next.at, now);
            }
        }
        Ok(())
    }

    /// The next packet.
    #[inline]
    fn next(&mut self) -> Result<Option<Departure>> {
        self.source.next().map_err(Error::from)
    }

    /// Whether it is too late for this packet.
    #[inline]
    fn is_over(&self, next: &Departure, start: u64, now: u64) -> bool {
        let Some(time) = self.shared.duration else { return false };
        next.at >= time || next.at == 0 && now >= start.saturating_add(time)
    }

    /// Waits until `due`, but at most one nap. Returns the current time.
    fn idle(&mut self, pacer: &mut Pacer, now: u64, due: u64) -> Result<u64> {
        let nap = if self.tx_queue.pending() > 0 {
            self.tx_queue.push()?;
            self.tx_queue.watch(now)?;
            NAP_PENDING
        } else {
            NAP
        };
        Ok(pacer.wait(now, due, now.saturating_add(nap)))
    }

    /// Writes the packets that are due, at most `most`, and notes their times. Returns whether the
    /// allowance may have more.
    #[inline]
    fn fill(&mut self, pacer: &Pacer, now: u64, most: usize) -> Result<QuotaAnswer> {
        let lead = self.tx_queue.lead();
        let until = pacer.until(now).saturating_add(lead);
        let (mut failure, mut taken, mut skipped) = (None, QuotaAnswer::One, 0);
        let portion = &mut self.portion;
        let (times, source, shared) = (&mut self.times, &mut self.source, &self.shared);
        let duration = shared.duration.unwrap_or(u64::MAX);
        let at = Cell::new(0);
        let mut write = |room: &mut [u8]| {
            while times.len() < most && skipped < Pacing::LARGEST_BURST {
                let next = match source.next() {
                    Ok(next) => next?,
                    Err(error) => {
                        failure = Some(error);
                        return None;
                    }
                };
                if pacer.due(next.at) > until || next.at >= duration {
                    return None;
                }
                taken = portion.take();
                if taken != QuotaAnswer::One {
                    return None;
                }
                let Some(packet) = room.get_mut(..next.len) else {
                    source.skip();
                    skipped += 1;
                    continue;
                };
                let leaves = if lead > 0 { now.max(pacer.due(next.at)) } else { now };
                source.write(packet, leaves);
                times.push(next.at);
                at.set(pacer.scheduled(next.at));
                return Some(next.len);
            }
            None
        };
        self.tx_queue.fill(&mut write, &at);
        self.end.skipped.too_long += skipped as u64;
        failure.map_or(Ok(taken), |error| Err(error.into()))
    }

    /// Passes the written packets to the port, and waits for room.
    #[inline]
    fn pass_on(&mut self) -> Result<()> {
        while !self.tx_queue.push()? && !self.shared.is_stopping() {
            self.tx_queue.wait(ROOM)?;
            self.tx_queue.watch(clock::monotonic_ns())?;
        }
        Ok(())
    }

    /// Counts the written packets, which have left by `now`.
    #[inline]
    fn count(&mut self, pacer: &Pacer, now: u64) {
        let Some(last) = self.times.last() else { return };
        if let Some(shown) = self.shared.lanes.get(self.index) {
            let packets = shown.packets.load(Ordering::Relaxed) + self.times.len() as u64;
            shown.packets.store(packets, Ordering::Relaxed);
            shown.at.store(*last, Ordering::Relaxed);
        }
        self.end.departures.record(&self.times, pacer.scheduled(0), now);
        self.times.clear();
    }

    /// Sends the written packets and waits until all of them have left. Gives up [`FAREWELL`] after
    /// the last packet that left; after a stop, [`FAREWELL`] after the call.
    fn finish(&mut self, pacer: &Pacer) -> Result<()> {
        self.pass_on()?;
        self.count(pacer, clock::monotonic_ns());
        let (mut since, mut sent) = (clock::monotonic_ns(), self.tx_queue.sent());
        loop {
            self.tx_queue.push()?;
            let (now, so_far) = (clock::monotonic_ns(), self.tx_queue.sent());
            if self.tx_queue.pending() == 0 {
                return self.tx_queue.look_back(now);
            }
            if so_far > sent && !self.shared.is_stopping() {
                (since, sent) = (now, so_far);
            }
            if now.saturating_sub(since) > FAREWELL {
                return Ok(());
            }
            self.tx_queue.watch(now)?;
            thread::sleep(RETRY);
        }
    }
}

/// Ends the other threads if this one panics.
struct StopOnPanic<'a>(&'a SocketRun);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}
