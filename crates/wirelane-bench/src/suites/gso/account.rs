//! What a transfer costs: CPU time of everything that takes part, by the nanosecond.
//!
//! The kernel does most of the work of a transfer in whatever thread happens to run: `write` of the
//! sender runs the stack down to the TAP device's queue, `sendto` of the forwarder that over the
//! veth pair, and a softirq runs on top of the thread that raises it. All that is CPU time of the
//! thread (the scheduler's clock counts it, softirqs included). What arrives at the far end is
//! received by a kernel thread (threaded NAPI), which is booked to the receiver. What a softirq
//! leaves over is done by `ksoftirqd`; its time on the CPU of the trial is counted, too.
//!
//! Sender, forwarder, receiver and ksoftirqd are the whole path. Interrupts that hit while a thread
//! runs are in it, and so is what ksoftirqd does for others on that CPU: a busy machine measures
//! more, never less.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use wirelane_os::clock;

/// CPU time of the parts of a transfer, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// The thread that sends, with the stack below it.
    pub(super) sender: u64,
    /// The threads of the forwarder, with what their packets cause.
    pub(super) forwarder: u64,
    /// The thread that receives, and the kernel's that receive for it.
    pub(super) receiver: u64,
    /// The kernel's thread for softirqs on the CPU of the trial.
    pub(super) softirqd: u64,
}

/// Names of threads, as far as the kernel keeps them.
pub(super) const SENDER: &str = "wl-gso-send";
pub(super) const RECEIVER: &str = "wl-gso-receive";
const FORWARDER: &str = "wl-fwd";

impl Account {
    /// Until now, of the threads of this process that carry the names, of the kernel's threads
    /// `receiving`, and of `cpu`. `None` where the kernel does not tell (`CONFIG_SCHED_INFO`).
    pub(super) fn read(cpu: u32, receiving: &[u32]) -> Option<Self> {
        let mut account = Self::default();
        for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
            let path = entry.path();
            // A thread may end meanwhile.
            let Ok(name) = fs::read_to_string(path.join("comm")) else { continue };
            let part = match name.trim() {
                SENDER => &mut account.sender,
                RECEIVER => &mut account.receiver,
                name if name.starts_with(FORWARDER) => &mut account.forwarder,
                _ => continue,
            };
            *part += nanoseconds(clock::task_cpu(&path)?);
        }
        let of_kernel = |pid: u32| {
            let path = PathBuf::from(format!("/proc/{pid}"));
            clock::task_cpu(&path).map_or(0, nanoseconds)
        };
        account.receiver += receiving.iter().copied().map(of_kernel).sum::<u64>();
        account.softirqd = softirqd(cpu).map_or(0, of_kernel);
        Some(account)
    }

    /// What was used since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            sender: self.sender.saturating_sub(before.sender),
            forwarder: self.forwarder.saturating_sub(before.forwarder),
            receiver: self.receiver.saturating_sub(before.receiver),
            softirqd: self.softirqd.saturating_sub(before.softirqd),
        }
    }

    /// All parts together.
    pub(super) fn total(self) -> u64 {
        self.sender + self.forwarder + self.receiver + self.softirqd
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The process number of ksoftirqd of `cpu`; kernel threads are children of number 2.
fn softirqd(cpu: u32) -> Option<u32> {
    let wanted = format!("ksoftirqd/{cpu}");
    let mut numbers: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // Those of the first CPUs have the smallest numbers.
    numbers.sort_unstable();
    numbers.into_iter().find(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == wanted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_is_booked_to_the_thread_of_its_name() {
        if Account::read(0, &[]).is_none() {
            eprintln!("SKIPPED: the kernel keeps no schedstat");
            return;
        }
        let spin = || {
            let before = Account::read(0, &[]).unwrap();
            let (begin, cpu) = (Instant::now(), wirelane_os::clock::thread_cpu());
            // On a busy machine it takes longer.
            while wirelane_os::clock::thread_cpu().since(cpu).total() < Duration::from_millis(30)
                && begin.elapsed() < Duration::from_secs(20)
            {}
            Account::read(0, &[]).unwrap().since(before)
        };
        let thread = wirelane::threads::spawn(RECEIVER, spin).unwrap();
        let used = thread.join().unwrap();
        assert!(used.receiver > 10_000_000 && used.total() >= used.receiver, "{used:?}");
        assert_eq!(used.sender, 0);
    }
}
