//! Counts signals, and records the time of the first request to end.
//!
//! The counts belong to the process, so they are in statics; a handler may touch nothing except
//! them.
//!
//! A signal that arrives five seconds after the first one ends the process.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::error::{OsError, Result};
use crate::event::Event;

/// The numbers of the signals that a command uses.
pub use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGPWR, SIGQUIT, SIGTERM, SIGTTOU, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU, SIGXFSZ,
};

/// Nanoseconds after the first request to end. A request after that ends the process at once, even
/// if it is blocked.
const OVERDUE: u64 = 5_000_000_000;

static REQUESTS: AtomicU32 = AtomicU32::new(0);
static FIRST_REQUEST: AtomicU64 = AtomicU64::new(0);
static REPORTS: AtomicU32 = AtomicU32::new(0);
static TRIGGERS: AtomicU32 = AtomicU32::new(0);
/// The descriptor that a request makes readable; -1 without one.
static REQUEST_EVENT: AtomicI32 = AtomicI32::new(-1);

/// From now on these signals are requests to end, counted by [`requests`]. A request five seconds
/// after the first or later ends the process with status 1.
///
/// # Errors
/// The errors of sigaction(2).
pub fn count_requests(signals: &[i32]) -> Result<()> {
    signals.iter().try_for_each(|signal| act(*signal, end as *const () as usize))
}

/// From now on `signal` requests a report, counted by [`reports`].
///
/// # Errors
/// The errors of sigaction(2).
pub fn count_reports(signal: i32) -> Result<()> {
    act(signal, report as *const () as usize)
}

/// From now on `signal` reports an event that a user wants to keep, counted by [`triggers`].
///
/// # Errors
/// The errors of sigaction(2).
pub fn count_triggers(signal: i32) -> Result<()> {
    act(signal, trigger as *const () as usize)
}

/// From now on `signal` has no effect, except that it interrupts or restarts a system call.
/// Programs that are started later have its default disposition again; an ignored signal would stay
/// ignored.
///
/// # Errors
/// The errors of sigaction(2).
pub fn survive(signal: i32) -> Result<()> {
    act(signal, nothing as *const () as usize)
}

/// Ignores `signal`, also in programs that are started later.
///
/// # Errors
/// The errors of sigaction(2).
pub fn ignore(signal: i32) -> Result<()> {
    act(signal, libc::SIG_IGN)
}

/// Whether `signal` is ignored, possibly since the start of this process.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null action the call changes nothing, and writes the one in force to where
    // `now` has room for it. Zeros are a valid value, should it fail.
    let now = unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

/// Keeps signals blocked until it is dropped; see [`block`].
#[derive(Debug)]
pub struct Blocked(libc::sigset_t);

/// Blocks signals in this thread and in threads that it starts: for a library that starts threads
/// in a program whose handlers expect the program's threads. Signals for faults of the program are
/// still delivered.
#[must_use]
pub fn block() -> Blocked {
    const FAULTS: [i32; 6] =
        [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGTRAP];
    // SAFETY: the sets are plain data that sigfillset() and pthread_sigmask() fill in.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        for fault in FAULTS {
            libc::sigdelset(&mut all, fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// The number of requests to end, and the monotonic time of the first one.
#[must_use]
pub fn requests() -> (u32, Option<u64>) {
    let first = FIRST_REQUEST.load(Ordering::Acquire);
    (REQUESTS.load(Ordering::Acquire), (first > 0).then_some(first))
}

/// A descriptor that becomes readable at the first request to end, and stays readable. The process
/// has only one.
///
/// # Errors
/// The errors of eventfd(2).
pub fn request_event() -> Result<BorrowedFd<'static>> {
    static EVENT: OnceLock<Event> = OnceLock::new();
    if let Some(event) = EVENT.get() {
        return Ok(event.as_fd());
    }
    let event = Event::new()?;
    let event = EVENT.get_or_init(|| event);
    // Either the handler sees the descriptor, or this function sees the request.
    REQUEST_EVENT.store(event.as_fd().as_raw_fd(), Ordering::SeqCst);
    if REQUESTS.load(Ordering::SeqCst) > 0 {
        event.happen();
    }
    Ok(event.as_fd())
}

/// Makes the descriptor readable, if there is one. Safe in a signal handler.
fn happen() {
    let fd = REQUEST_EVENT.load(Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: `__errno_location` is the address of the thread's errno, which the interrupted
        // code must find as it was.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: the descriptor is never closed, and eight bytes are read from a live number.
        unsafe { libc::write(fd, (&raw const ONE).cast(), size_of_val(&ONE)) };
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }
}

static ONE: u64 = 1;

/// The number of report requests so far.
#[must_use]
pub fn reports() -> u32 {
    REPORTS.load(Ordering::Relaxed)
}

/// The number of events that a user wants to keep.
#[must_use]
pub fn triggers() -> u32 {
    TRIGGERS.load(Ordering::Relaxed)
}

/// Whether this process is in the foreground of the terminal `fd`; true if `fd` is no terminal.
#[must_use]
pub fn is_in_foreground(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: both calls take plain numbers and change nothing.
    let (group, own) = unsafe { (libc::tcgetpgrp(fd.as_raw_fd()), libc::getpgrp()) };
    group < 0 || group == own
}

fn act(signal: i32, handler: libc::sighandler_t) -> Result<()> {
    // SAFETY: zeros are a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    // Restarts interrupted system calls where the kernel supports it.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handlers above do what is allowed in one: atomics, reading a clock, `write` and
    // `_exit`.
    let done = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(OsError::last("sigaction", format!("signal {signal}"))) }
}

extern "C" fn end(_signal: i32) {
    let now = crate::clock::monotonic_ns().max(1);
    let first = FIRST_REQUEST.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err_and(|first| now.saturating_sub(first) >= OVERDUE) {
        // SAFETY: it ends the process without running anything of it.
        unsafe { libc::_exit(1) };
    }
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    happen();
}

extern "C" fn report(_signal: i32) {
    REPORTS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn trigger(_signal: i32) {
    TRIGGERS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn nothing(_signal: i32) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_counted_and_survived() {
        let raise = |signal| {
            // SAFETY: the signal has a handler of this module.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        };
        count_reports(libc::SIGUSR1).unwrap();
        survive(libc::SIGXFSZ).unwrap();
        let before = reports();
        raise(libc::SIGUSR1);
        raise(libc::SIGXFSZ);
        assert_eq!((reports(), triggers()), (before + 1, 0));
        count_triggers(libc::SIGUSR2).unwrap();
        raise(libc::SIGUSR2);
        assert_eq!((reports(), triggers()), (before + 1, 1));
        assert_eq!(requests(), (0, None));
        let is_readable = || {
            let event = request_event().unwrap();
            let mut set = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut set, Some(&rustix::time::Timespec::default())).unwrap() == 1
        };
        assert!(!is_readable());
        count_requests(&[libc::SIGALRM]).unwrap();
        raise(libc::SIGALRM);
        raise(libc::SIGALRM);
        let (count, first) = requests();
        assert_eq!(count, 2);
        assert!(first.unwrap() <= crate::clock::monotonic_ns());
        assert!(is_readable() && is_readable());
    }

    #[test]
    fn blocked_signals_come_afterwards() {
        count_triggers(libc::SIGURG).unwrap();
        let before = triggers();
        let blocked = block();
        // SAFETY: the signal has a handler of this module.
        assert_eq!(unsafe { libc::raise(libc::SIGURG) }, 0);
        assert_eq!(triggers(), before);
        drop(blocked);
        assert_eq!(triggers(), before + 1);
    }

    #[test]
    fn ignored_is_told_from_the_rest() {
        assert!(!is_ignored(libc::SIGWINCH));
        ignore(libc::SIGWINCH).unwrap();
        assert!(is_ignored(libc::SIGWINCH));
        survive(libc::SIGWINCH).unwrap();
        assert!(!is_ignored(libc::SIGWINCH));
    }
}
