//! The cost of a transfer: CPU time of all threads that take part, in nanoseconds.
//!
//! The kernel does most of the work of a transfer in the context of whichever thread runs: `write`
//! of the sender runs the stack down to the TAP device's queue, `sendto` of the forwarder runs it
//! across the veth pair, and a softirq runs on top of the thread that raises it. The scheduler's
//! clock counts all of this as CPU time of the thread, softirqs included. A kernel thread receives
//! packets at the far end (threaded NAPI); its time is added to the receiver. `ksoftirqd` does the
//! work that a softirq leaves; its time on the CPU of the trial is counted, too.
//!
//! Sender, forwarder, receiver and ksoftirqd are the whole path. The sum includes interrupts during
//! these threads, and ksoftirqd's work for other threads on that CPU: a busy machine can only
//! increase the figure.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use wirelane_os::clock;

/// CPU time of the parts of a transfer, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// The thread that sends, with the stack below it.
    pub(super) sender: u64,
    /// The threads of the forwarder, with the kernel's work for their packets.
    pub(super) forwarder: u64,
    /// The receiving thread, and the kernel threads that receive for it.
    pub(super) receiver: u64,
    /// The kernel's thread for softirqs on the CPU of the trial.
    pub(super) softirqd: u64,
}

/// Names of threads; the kernel truncates them to 15 bytes.
pub(super) const SENDER: &str = "wl-gso-send";
pub(super) const RECEIVER: &str = "wl-gso-receive";
const FORWARDER: &str = "wl-fwd";

impl Account {
    /// CPU time so far, of the threads of this process with these names, of the kernel threads
    /// `receiving`, and of ksoftirqd on `cpu`. `None` if the kernel does not report it
    /// (`CONFIG_SCHED_INFO`).
    pub(super) fn read(cpu: u32, receiving: &[u32]) -> Option<Self> {
        let mut account = Self::default();
        for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
            let path = entry.path();
            // A thread may have ended since the directory was read.
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

    /// CPU time since `before`.
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

/// The process number of ksoftirqd of `cpu`.
fn softirqd(cpu: u32) -> Option<u32> {
    let wanted = format!("ksoftirqd/{cpu}");
    let mut numbers: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // Threads of the first CPUs have the smallest numbers.
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
        let thread = wirelane::internal::threads::spawn(RECEIVER, spin).unwrap();
        let used = thread.join().unwrap();
        assert!(used.receiver > 10_000_000 && used.total() >= used.receiver, "{used:?}");
        assert_eq!(used.sender, 0);
    }
}
