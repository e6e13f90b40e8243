//! Clocks and CPU time.

use rustix::thread::{ClockId as ThreadClock, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::fs::{self, File};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{OsError, Result};

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// User and system together.
    pub fn total(self) -> Duration {
        self.user.saturating_add(self.system)
    }

    /// The CPU time used since `earlier`.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Nanoseconds since the epoch, on the clock of packet time stamps; 0 for a time before the epoch.
pub fn realtime_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// The clock of a device (`/dev/ptpN`), which schedules packets with a launch time.
#[derive(Debug)]
pub struct DeviceClock(File);

impl DeviceClock {
    /// Opens the clock with this number.
    ///
    /// # Errors
    /// It does not exist, or may not be read.
    pub fn open(number: u32) -> Result<Self> {
        let path = format!("/dev/ptp{number}");
        let file = File::open(&path);
        file.map(Self).map_err(|error| OsError::new("open", path, error))
    }

    /// How far it is ahead of the clock of [`realtime_ns`], in nanoseconds; `None` if it cannot be
    /// read. Returns the fastest of several measurements, which was not interrupted.
    pub fn ahead(&self) -> Option<i64> {
        let look = || {
            let before = realtime_ns();
            let time = clock_gettime_dynamic(DynamicClockId::Dynamic(self.0.as_fd())).ok()?;
            let took = realtime_ns().saturating_sub(before);
            let here = before.saturating_add(took / 2);
            Some((took, since_start(time).wrapping_sub(here).cast_signed()))
        };
        (0..5).filter_map(|_| look()).min_by_key(|(took, _)| *took).map(|(_, ahead)| ahead)
    }
}

/// Sleeps until [`monotonic_ns`] reaches `at`, or until a signal.
pub fn sleep_until(at: u64) {
    let seconds = i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX);
    let until = Timespec { tv_sec: seconds, tv_nsec: (at % 1_000_000_000) as _ };
    // After a signal, the caller reads the clock again.
    let _ = clock_nanosleep_absolute(ThreadClock::Monotonic, &until);
}

/// From now on the kernel wakes the calling thread on time, instead of up to 50 µs later together
/// with others (`PR_SET_TIMERSLACK`).
pub fn wake_promptly() {
    // Without this, wake-ups are only less precise.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// How far the clock without leap seconds (TAI) is ahead of [`realtime_ns`], in nanoseconds; 0 if
/// the kernel was not told the offset.
pub fn tai_offset_ns() -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let Ok(tai) = clock_gettime_dynamic(DynamicClockId::Tai) else { return 0 };
    let ahead = since_start(tai).saturating_sub(realtime_ns());
    // Rounded to whole seconds: the time between the two calls is not part of the offset.
    (ahead + SECOND / 2) / SECOND * SECOND
}

/// Nanoseconds on a monotonic clock, from an arbitrary start.
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The time stamp counter of this CPU, the "cycles" of most published figures: it counts at a
/// constant rate near the nominal frequency. `None` if user space has no such counter.
#[inline]
pub fn ticks() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it touches no memory.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> CpuTime {
    usage(libc::RUSAGE_THREAD)
}

/// Nanoseconds of CPU time of the calling thread, up to now; [`thread_cpu`] may be as old as the
/// last scheduler tick.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process, including finished threads.
pub fn process_cpu() -> CpuTime {
    usage(libc::RUSAGE_SELF)
}

/// CPU time of all threads of another process, including finished threads, to a hundredth of a
/// second; `None` if there is no such process.
pub fn process_cpu_of(pid: u32) -> Option<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // SAFETY: sysconf reads a constant of the process.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = u32::try_from(ticks).ok().filter(|ticks| *ticks > 0)?;
    // proc_pid_stat(5): the name in parentheses, which may itself contain parentheses, then the
    // third and later fields.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(14 - 3);
    let mut time = || Some(Duration::from_secs(times.next()?.parse().ok()?) / ticks);
    Some(CpuTime { user: time()?, system: time()? })
}

/// CPU time of all children that have ended and were waited for, including their waited-for
/// children.
pub fn children_cpu() -> CpuTime {
    usage(libc::RUSAGE_CHILDREN)
}

/// CPU time of a task by its directory in /proc, such as /proc/1 or /proc/self/task/7; for a
/// process, of its first thread. `None` if it has ended, or if the kernel does not report it
/// (`CONFIG_SCHED_INFO`).
pub fn task_cpu(folder: &Path) -> Option<Duration> {
    run_time(&fs::read_to_string(folder.join("schedstat")).ok()?).map(Duration::from_nanos)
}

/// The first of three numbers of `schedstat`: nanoseconds on a CPU
/// (Documentation/scheduler/sched-stats.rst).
fn run_time(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// CPU time of all threads of a running process; zero if the kernel does not report it.
pub fn threads_cpu(process: u32) -> Duration {
    tasks(process).filter_map(|task| task_cpu(&task)).sum()
}

/// As [`threads_cpu`], of threads whose names begin with `prefix`.
pub fn threads_cpu_named(process: u32, prefix: &str) -> Duration {
    let is_named = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(prefix))
    };
    tasks(process).filter(is_named).filter_map(|task| task_cpu(&task)).sum()
}

/// The directories of the threads of a process.
fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    let folders = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    folders.map(|folder| folder.path())
}

fn nanoseconds(clock: ClockId) -> u64 {
    since_start(clock_gettime(clock))
}

fn since_start(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let fraction = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(fraction)
}

fn usage(who: libc::c_int) -> CpuTime {
    // SAFETY: `rusage` is plain data, of which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable. The call fails only for a bad `who` or address; it would leave
    // the zeroes then.
    unsafe { libc::getrusage(who, &mut usage) };
    let duration = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            .saturating_add(Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0)))
    };
    CpuTime { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_is_the_first_number() {
        assert_eq!(run_time("123456 78 9\n"), Some(123_456));
        assert_eq!((run_time(""), run_time("x 1")), (None, None));
    }

    #[test]
    fn cpu_time_of_others_is_told_by_their_folders() {
        let own = threads_cpu(std::process::id());
        let first = task_cpu(Path::new("/proc/self"));
        // A kernel without it reports no times at all.
        assert_eq!(first.is_none(), own.is_zero(), "{first:?}, {own:?}");
        assert!(first.unwrap_or_default() <= threads_cpu(std::process::id()));
        assert_eq!(task_cpu(Path::new("/proc/no such")), None);
        assert_eq!(threads_cpu_named(std::process::id(), "no such"), Duration::ZERO);
        assert!(own <= threads_cpu_named(std::process::id(), ""));
    }

    #[test]
    fn cpu_time_of_another_process_is_as_it_says() {
        let own = process_cpu().total();
        let seen = process_cpu_of(std::process::id()).unwrap();
        // The times count ticks of 10 ms.
        assert!(seen.total() + Duration::from_millis(40) >= own, "{seen:?}, {own:?}");
        assert!(seen.total() <= process_cpu().total() + Duration::from_millis(40), "{seen:?}");
        assert_eq!(process_cpu_of(u32::MAX), None);
    }

    #[test]
    fn clocks_move() {
        let (real, monotonic) = (realtime_ns(), monotonic_ns());
        assert!(real > 1_600_000_000_000_000_000);
        std::thread::sleep(Duration::from_millis(2));
        assert!(monotonic_ns() - monotonic >= 2_000_000);
    }

    #[test]
    fn ticks_count_up() {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(1));
        assert!(before.is_none() || ticks() > before);
    }

    #[test]
    fn cpu_time_is_spent_by_this_thread() {
        let (thread, process) = (thread_cpu(), process_cpu());
        let mut sum = 0u64;
        while thread_cpu().since(thread).total() < Duration::from_millis(10) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(process_cpu().since(process).total() >= Duration::from_millis(5));
        assert_eq!(thread.since(thread_cpu()), CpuTime::default());
    }
}
