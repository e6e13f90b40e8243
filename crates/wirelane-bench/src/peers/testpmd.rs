//! `dpdk-testpmd`: receiving, sending and forwarding over one queue of AF_XDP, and forwarding
//! between null devices.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wirelane_lab::Site;
use wirelane_os::bpf::{self, XdpMode};
use wirelane_os::{clock, iface};

use crate::peers::find;
use crate::task::Task;

/// The program.
pub const PROGRAM: &str = "dpdk-testpmd";
/// The program with null devices, in rows.
pub const NOWHERE: &str = "dpdk-testpmd over net_null";
/// The Debian package that has it.
pub const PACKAGE: &str = "dpdk-dev";
/// The first words of its statistics.
const STATISTICS: &str = "Port statistics";

/// Number of null devices of [`swap_nothing`].
const DEVICES: usize = 2;

/// The directory in which DPDK keeps files of its processes: one that does not exist. Otherwise
/// DPDK creates a directory in /run/dpdk for every prefix and leaves it there, although it needs
/// none (`--no-shconf`).
pub(crate) const RUNTIME: (&str, &str) = ("RUNTIME_DIRECTORY", "/nonexistent");

/// Does `task` with packets of `size` bytes on queue 0 of `interface`, on this CPU. `None` if it is
/// not installed. On SIGINT, it prints its statistics and ends.
pub fn command(task: Task, interface: &str, size: usize, cpu: u32) -> Option<Command> {
    let mut command = environment(cpu)?;
    command.arg("--vdev");
    command.arg(format!("net_af_xdp0,iface={interface},start_queue=0,queue_count=1"));
    command.args(["--", "--nb-cores=1", "--total-num-mbufs=16384"]);
    command.arg(match task {
        Task::Rxdrop => "--forward-mode=rxonly",
        Task::Txpush => "--forward-mode=txonly",
        Task::L2fwd => "--forward-mode=macswap",
    });
    command.arg(format!("--txpkts={size}"));
    // Without a period it ends when it has no terminal.
    command.args(["--stats-period", "3600"]);
    Some(command)
}

/// Swaps the addresses of packets of `size` bytes between two null devices, on this CPU. Like
/// [`command`], but prints statistics every second: see [`sending_rate`].
pub fn swap_nothing(size: usize, cpu: u32) -> Option<Command> {
    let mut command = environment(cpu)?;
    for device in 0..DEVICES {
        command.args(["--vdev", &format!("net_null{device},size={size}")]);
    }
    command.args(["--", "--nb-cores=1", "--total-num-mbufs=8192", "--forward-mode=macswap"]);
    command.args(["--stats-period", "1"]);
    Some(command)
}

/// The command without devices and without the arguments after `--`. Its main thread only sleeps;
/// the worker runs on the same CPU. Without huge pages, devices and a telemetry socket, it leaves
/// no files.
pub fn environment(cpu: u32) -> Option<Command> {
    let mut command = Command::new(find(PROGRAM)?);
    command.arg(format!("--lcores=0@{cpu},1@{cpu}"));
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "128"]);
    // The prefix separates several processes of the same benchmark.
    command.arg(format!("--file-prefix=wirelane-{}", std::process::id()));
    command.env(RUNTIME.0, RUNTIME.1);
    Some(command)
}

/// Whether it has started to forward, after starting its ports. A waiting worker sleeps in
/// `eal_thread_loop`; a forwarding worker polls without end. The output is no indication: standard
/// output is buffered, and the first statistics are delayed until the uptime of the machine exceeds
/// their period.
pub fn is_forwarding(process: u32) -> bool {
    /// More CPU time than the worker uses before it waits for commands.
    const AWAKE: Duration = Duration::from_millis(10);
    // rte-worker-1, lcore-worker-1 or dpdk-worker1, by its version.
    let is_worker = |task: &Path| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.contains("-worker"))
    };
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks
        .map(|task| task.path())
        .any(|task| is_worker(&task) && clock::task_cpu(&task).is_some_and(|used| used >= AWAKE))
}

/// Whether it has started and receives the packets of the interface at `site`: its XDP program is
/// attached, which happens when its socket is created.
pub(crate) fn is_receiving(process: u32, site: &Site) -> bool {
    mode(site).is_some() && is_forwarding(process)
}

/// The mode in which the kernel runs the program of the interface at `site`; `None` if there is
/// none.
pub(crate) fn mode(site: &Site) -> Option<XdpMode> {
    let look = || bpf::attached(iface::index(site.interface())?);
    Some(site.inside(look).ok()?.ok()??.mode)
}

/// Packets that all its ports together sent per second, from its second statistics. `None` before
/// it has printed them. The program's timing of its counters is more precise than an observer's.
pub fn sending_rate(text: &str) -> Option<f64> {
    let (_, second) = text.split_once(STATISTICS)?.1.split_once(STATISTICS)?;
    let rates: Vec<f64> = second
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Tx-pps:")?.split_whitespace().next())
        .map_while(|rate| rate.parse().ok())
        .take(DEVICES)
        .collect();
    (rates.len() == DEVICES).then(|| rates.iter().sum())
}

/// A number from its final statistics, such as `RX-packets:`.
pub fn accumulated(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once("Accumulated forward statistics")?;
    let (_, rest) = rest.split_once(name)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_statistics_are_read() {
        let text = "Port statistics\n RX-packets: 3\n\
                    +++ Accumulated forward statistics for all ports +++\n\
                    RX-packets: 1234           RX-dropped: 5             RX-total: 1239\n\
                    TX-packets: 7\n";
        assert_eq!(accumulated(text, "RX-packets:"), Some(1234));
        assert_eq!(accumulated(text, "TX-packets:"), Some(7));
        assert_eq!(accumulated("RX-packets: 3", "RX-packets:"), None);
    }

    #[test]
    fn a_worker_that_polls_forwards_and_one_that_sleeps_does_not() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::thread;

        let (polls, ends) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let work = || {
                while !ends.load(Ordering::Relaxed) {
                    if !polls.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            };
            thread::Builder::new().name("rte-worker-1".into()).spawn_scoped(scope, work).unwrap();
            assert!(!is_forwarding(std::process::id()));
            polls.store(true, Ordering::Relaxed);
            while !is_forwarding(std::process::id()) {
                thread::sleep(Duration::from_millis(1));
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert!(!is_forwarding(u32::MAX));
    }

    #[test]
    fn rates_are_those_of_the_second_statistics() {
        let port = |rate| format!("  Rx-pps: 1  Rx-bps: 2\n  Tx-pps: {rate}    Tx-bps: 0\n");
        let first = format!("Port statistics ====\n{}{}", port(0), port(0));
        let second = format!("Port statistics ====\n{}{}", port(30), port(12));
        assert_eq!(sending_rate(&format!("{first}{second}")), Some(42.0));
        let begun = format!("{first}Port statistics ====\n{}", port(30));
        assert_eq!((sending_rate(&first), sending_rate(&begun)), (None, None));
        assert_eq!(sending_rate(&format!("{first}{second}{second}")), Some(42.0));
    }
}
