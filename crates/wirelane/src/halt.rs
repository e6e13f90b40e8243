//! Ends waits for external parties, such as a silent pipe or a stalled reader.
//!
//! Waiting code checks a [`Halt`] periodically. Reading ends when the end is requested. Writing
//! continues while the reader takes data: it ends two seconds after the last byte, at the latest 30
//! seconds after the request, and at once after [`Halt::hurry`] or a second signal. Data that is
//! not written by this time is counted, and reported as an error.
//!
//! Code that sleeps in `poll` adds `Halt::descriptors` instead.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wirelane_os::event::Event;
use wirelane_os::{clock, signal};
use wirelane_pcap::{Cancel, CancelSource};

use crate::error::{Error, Result};
use crate::process::is_hangup_ignored;

/// After the request, how long a reader may stall, and how long writing may take in all; in
/// nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
const LONGEST: u64 = 30_000_000_000;

/// Requests the end, from any thread. Clones share one state.
///
/// ```
/// use wirelane::halt::Halt;
///
/// let session = Halt::default();
/// let file = session.below();
/// file.ask();
/// assert!(file.is_asked() && !session.is_asked());
/// session.ask();
/// assert!(session.below().is_asked());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Halt(Arc<HaltRequest>);

#[derive(Debug, Default)]
struct HaltRequest {
    /// Monotonic time of the first request; 0 before it.
    asked: AtomicU64,
    /// End all waits at once.
    hurries: AtomicBool,
    /// Monotonic time at which waits end in any case; 0 for never.
    limit: AtomicU64,
    above: Option<Halt>,
    /// Signals of the process also request the end.
    heeds_signals: bool,
    /// Signalled on request, if a thread waits for it.
    event: OnceLock<Event>,
}

impl Halt {
    /// A separate halt that also follows this one.
    #[must_use]
    pub fn below(&self) -> Self {
        Self(Arc::new(HaltRequest { above: Some(self.clone()), ..HaltRequest::default() }))
    }

    /// A halt that signals of the process request from now on: SIGINT, SIGTERM, SIGQUIT, SIGALRM,
    /// SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR, and SIGHUP unless it is ignored, as under `nohup`. Such
    /// a signal five seconds or more after the first one ends the process at once. SIGUSR1 requests
    /// a report (`Halt::reports`). SIGUSR2 is a trigger (`Halt::triggers`). SIGTTOU is ignored:
    /// a command in the background may write to its terminal instead of being stopped.
    ///
    /// # Errors
    /// The system refuses.
    pub fn by_signals() -> Result<Self> {
        use signal::*;
        let hangup = (!is_hangup_ignored()).then_some(SIGHUP);
        let ends = [SIGINT, SIGTERM, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR];
        let ends: Vec<_> = ends.into_iter().chain(hangup).collect();
        count_requests(&ends)
            .and_then(|()| count_reports(SIGUSR1))
            .and_then(|()| count_triggers(SIGUSR2))
            .and_then(|()| ignore(SIGTTOU))
            .map_err(|error| Error::os("signals", error))?;
        Ok(Self(Arc::new(HaltRequest { heeds_signals: true, ..HaltRequest::default() })))
    }

    /// The number of SIGUSR1 signals so far.
    #[must_use]
    #[doc(hidden)]
    pub fn reports() -> u32 {
        signal::reports()
    }

    /// The number of SIGUSR2 signals so far.
    #[must_use]
    #[doc(hidden)]
    pub fn triggers() -> u32 {
        signal::triggers()
    }

    /// Requests the end.
    pub fn ask(&self) {
        let now = clock::monotonic_ns().max(1);
        let _ = self.0.asked.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        // Either the creator of the event sees the request, or this thread sees the event.
        fence(Ordering::SeqCst);
        if let Some(event) = self.0.event.get() {
            event.happen();
        }
    }

    /// Descriptors for `poll`, `pipeline::wait_any` and similar calls. After the end was requested,
    /// at least one of them is readable, and remains so. If signals request the end, a signal makes
    /// one readable, too.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub(crate) fn descriptors(&self) -> wirelane_os::Result<Vec<BorrowedFd<'_>>> {
        let mut all = match &self.0.above {
            Some(above) => above.descriptors()?,
            None => Vec::new(),
        };
        all.push(self.event()?.as_fd());
        if self.0.heeds_signals {
            all.push(signal::request_event()?);
        }
        Ok(all)
    }

    fn event(&self) -> wirelane_os::Result<&Event> {
        if let Some(event) = self.0.event.get() {
            return Ok(event);
        }
        let event = Event::new()?;
        let event = self.0.event.get_or_init(|| event);
        fence(Ordering::SeqCst);
        if self.0.asked.load(Ordering::Acquire) > 0 {
            event.happen();
        }
        Ok(event)
    }

    /// Requests an end without further waits.
    pub fn hurry(&self) {
        self.ask();
        self.0.hurries.store(true, Ordering::Release);
    }

    /// Whether the end was requested.
    #[inline]
    #[must_use]
    pub fn is_asked(&self) -> bool {
        let state = &*self.0;
        state.asked.load(Ordering::Acquire) > 0
            || state.heeds_signals && signal::requests().0 > 0
            || state.above.as_ref().is_some_and(Self::is_asked)
    }

    /// Limits waits to `time` from now on; `None` removes the limit.
    pub fn limit(&self, time: Option<Duration>) {
        let at = |time: Duration| {
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            clock::monotonic_ns().saturating_add(time).max(1)
        };
        self.0.limit.store(time.map_or(0, at), Ordering::Release);
    }

    /// Whether optional waits must end.
    pub fn ends_waiting(&self) -> bool {
        self.is_asked() || self.asked_at(clock::monotonic_ns()).is_some()
    }

    /// Whether a writer must give up if its reader has taken no data since `since`, on the
    /// monotonic clock.
    pub fn gives_up(&self, since: u64) -> bool {
        let now = clock::monotonic_ns();
        let Some(asked) = self.asked_at(now) else { return false };
        now >= asked.max(since) + PATIENCE || now >= asked + LONGEST || self.hurries()
    }

    /// When the end was first requested, or the limit passed.
    fn asked_at(&self, now: u64) -> Option<u64> {
        let limit = Some(self.0.limit.load(Ordering::Acquire)).filter(|at| *at > 0 && *at <= now);
        let above = self.0.above.as_ref().and_then(|above| above.asked_at(now));
        self.requested_at().into_iter().chain(limit).chain(above).min()
    }

    /// When it was requested here, or by a signal.
    fn requested_at(&self) -> Option<u64> {
        let own = Some(self.0.asked.load(Ordering::Acquire)).filter(|time| *time > 0);
        let signal = self.0.heeds_signals.then(|| signal::requests().1).flatten();
        own.into_iter().chain(signal).min()
    }

    fn hurries(&self) -> bool {
        let state = &*self.0;
        let asked = state.asked.load(Ordering::Acquire);
        // A request here followed by a later one above counts as a second request. A request that
        // was only passed down from above does not.
        let later = |above: &Self| {
            let after = |time| asked > 0 && time > asked;
            above.hurries() || above.requested_at().is_some_and(after)
        };
        state.hurries.load(Ordering::Acquire)
            || state.heeds_signals && signal::requests().0 > 1
            || state.above.as_ref().is_some_and(later)
    }
}

impl CancelSource for Halt {
    fn is_asked(&self) -> bool {
        self.is_asked()
    }

    fn ends_waiting(&self) -> bool {
        self.ends_waiting()
    }

    fn gives_up(&self, stalled: Duration) -> bool {
        let stalled = u64::try_from(stalled.as_nanos()).unwrap_or(u64::MAX);
        self.gives_up(clock::monotonic_ns().saturating_sub(stalled))
    }
}

impl From<Halt> for Cancel {
    fn from(halt: Halt) -> Self {
        Self::new(halt)
    }
}

impl From<&Halt> for Cancel {
    fn from(halt: &Halt) -> Self {
        Self::new(halt.clone())
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::time::Timespec;

    use super::*;

    #[test]
    fn a_writer_gives_up_when_nothing_moves() {
        let halt = Halt::default();
        let now = clock::monotonic_ns();
        assert!(!halt.gives_up(0) && !halt.ends_waiting());
        halt.ask();
        assert!(halt.ends_waiting() && !halt.gives_up(now));
        // As if it had been asked long ago.
        halt.0.asked.store(now.saturating_sub(PATIENCE).max(1), Ordering::Release);
        assert!(halt.gives_up(0) && !halt.gives_up(clock::monotonic_ns()));
        halt.0.asked.store(now.saturating_sub(LONGEST).max(1), Ordering::Release);
        assert!(halt.gives_up(clock::monotonic_ns()));
    }

    #[test]
    fn who_hurries_waits_for_nobody() {
        let halt = Halt::default();
        halt.ask();
        let now = clock::monotonic_ns();
        halt.ask();
        assert!(!halt.gives_up(now));
        halt.hurry();
        assert!(halt.gives_up(now) && halt.below().gives_up(now));
    }

    #[test]
    fn what_is_passed_on_was_asked_once() {
        let above = Halt::default();
        let below = above.below();
        above.ask();
        below.ask();
        assert!(!below.gives_up(clock::monotonic_ns()), "the same request");
        let above = Halt::default();
        let below = above.below();
        below.ask();
        std::thread::sleep(Duration::from_millis(1));
        above.ask();
        assert!(below.gives_up(clock::monotonic_ns()), "another one");
    }

    #[test]
    fn whoever_polls_is_woken() {
        let is_readable = |halt: &Halt, timeout: Option<&Timespec>| {
            let all = halt.descriptors().unwrap();
            let mut all: Vec<_> = all.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            poll(&mut all, timeout).unwrap() > 0
        };
        let at_once = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
        let above = Halt::default();
        let (early, late) = (above.below(), above.below());
        assert!(!is_readable(&early, at_once));
        let sleeper = early.clone();
        let sleeper = std::thread::spawn(move || is_readable(&sleeper, None));
        above.ask();
        assert!(sleeper.join().unwrap());
        assert!(is_readable(&early, at_once) && is_readable(&late, at_once));
    }

    #[test]
    fn a_limit_ends_waiting() {
        let above = Halt::default();
        let halt = above.below();
        above.limit(Some(Duration::ZERO));
        assert!(halt.ends_waiting() && !halt.is_asked());
        above.limit(Some(Duration::from_secs(600)));
        assert!(!halt.ends_waiting());
        above.limit(None);
        assert!(!halt.ends_waiting());
    }
}
