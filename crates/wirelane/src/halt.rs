//! Ends waiting for others: for a silent pipe, or a stalled reader.
//!
//! Code that waits checks a [`Halt`] periodically. Reading ends when the end is requested. Writing
//! goes on while the reader takes data: it ends two seconds after the last byte, half a minute
//! after the request in any case, and at once after [`Halt::hurry`] or a second signal. Data not
//! written then is counted, and reported as an error.
//!
//! Code that sleeps in `poll` adds [`Halt::descriptors`] instead.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wirelane_os::event::Event;
use wirelane_os::{Result, clock, signal};
use wirelane_pcap::{Cancel, CancelSource};

/// How long a reader may stall once the end was requested, and how long writing may take in all;
/// nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
const LONGEST: u64 = 30_000_000_000;

/// The longest sleep between two checks.
pub const NAP: Duration = Cancel::NAP;

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
pub struct Halt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Monotonic clock of the first request; 0 before.
    asked: AtomicU64,
    /// Wait for nothing.
    hurries: AtomicBool,
    /// Monotonic clock at which waiting ends in any case; 0 for never.
    limit: AtomicU64,
    above: Option<Halt>,
    /// Signals of the process request the end, too.
    heeds_signals: bool,
    /// Happens on request, if a thread waits for it.
    event: OnceLock<Event>,
}

impl Halt {
    /// A halt of its own, which also follows this one.
    #[must_use]
    pub fn below(&self) -> Self {
        Self(Arc::new(State { above: Some(self.clone()), ..State::default() }))
    }

    /// One that the signals of the process ask, from now on: SIGINT, SIGTERM, SIGQUIT, SIGALRM,
    /// SIGVTALRM, SIGPROF, SIGXCPU, SIGPWR, and SIGHUP unless it is ignored, as below `nohup`. One
    /// of these that comes five seconds after the first ends the process at once. SIGUSR1 asks for
    /// a report ([`Halt::reports`]). SIGUSR2 is a trigger ([`Halt::triggers`]). SIGTTOU is ignored:
    /// a command in the background may write to its terminal, instead of standing still.
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
            .and_then(|()| ignore(SIGTTOU))?;
        Ok(Self(Arc::new(State { heeds_signals: true, ..State::default() })))
    }

    /// How often SIGUSR1 has come.
    #[must_use]
    pub fn reports() -> u32 {
        signal::reports()
    }

    /// How often SIGUSR2 has come.
    #[must_use]
    pub fn triggers() -> u32 {
        signal::triggers()
    }

    /// Asks for the end.
    pub fn ask(&self) {
        let now = clock::monotonic_ns().max(1);
        let _ = self.0.asked.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        // Either whoever made the event sees that it was asked, or we see the event.
        fence(Ordering::SeqCst);
        if let Some(event) = self.0.event.get() {
            event.happen();
        }
    }

    /// Descriptors of which at least one is readable once the end was asked for, and stays so: for
    /// `poll`, `pipeline::wait_any` and the like. A signal makes them readable, too, if
    /// it asks.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn descriptors(&self) -> Result<Vec<BorrowedFd<'_>>> {
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

    fn event(&self) -> Result<&Event> {
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

    /// Requests an end without any waiting.
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

    /// From now on waiting takes so long at most; `None`: as long as it takes.
    pub fn limit(&self, time: Option<Duration>) {
        let at = |time: Duration| {
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            clock::monotonic_ns().saturating_add(time).max(1)
        };
        self.0.limit.store(time.map_or(0, at), Ordering::Release);
    }

    /// Whether waiting is over for what need not be waited for.
    pub fn ends_waiting(&self) -> bool {
        self.is_asked() || self.asked_at(clock::monotonic_ns()).is_some()
    }

    /// Whether a writer gives up whose reader has taken nothing since `since`, on the monotonic
    /// clock.
    pub fn gives_up(&self, since: u64) -> bool {
        let now = clock::monotonic_ns();
        let Some(asked) = self.asked_at(now) else { return false };
        now >= asked.max(since) + PATIENCE || now >= asked + LONGEST || self.hurries()
    }

    /// When the end was asked for first, or came by itself.
    fn asked_at(&self, now: u64) -> Option<u64> {
        let limit = Some(self.0.limit.load(Ordering::Acquire)).filter(|at| *at > 0 && *at <= now);
        let above = self.0.above.as_ref().and_then(|above| above.asked_at(now));
        self.requested_at().into_iter().chain(limit).chain(above).min()
    }

    /// When it was asked here, or by a signal.
    fn requested_at(&self) -> Option<u64> {
        let own = Some(self.0.asked.load(Ordering::Acquire)).filter(|time| *time > 0);
        let signal = self.0.heeds_signals.then(|| signal::requests().1).flatten();
        own.into_iter().chain(signal).min()
    }

    fn hurries(&self) -> bool {
        let state = &*self.0;
        let asked = state.asked.load(Ordering::Acquire);
        // What was asked here first, and above afterwards, was asked twice; not what passed from
        // there to here.
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

/// Whether this process was started with SIGHUP ignored, as `nohup` does.
#[must_use]
pub fn is_hangup_ignored() -> bool {
    signal::is_ignored(signal::SIGHUP)
}

/// Whether the terminal that `to` is speaks to this process; true where it is none.
pub fn is_in_foreground(to: impl AsFd) -> bool {
    signal::is_in_foreground(to.as_fd())
}

/// From now on a file that may not grow any further (`ulimit -f`) is an error of writing, EFBIG,
/// and does not end the process (SIGXFSZ).
pub fn survive_file_limits() {
    // No number of a signal is wrong here; and if it were, there is nothing else to be done.
    let _ = signal::survive(signal::SIGXFSZ);
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
