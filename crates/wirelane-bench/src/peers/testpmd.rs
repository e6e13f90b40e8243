//! `dpdk-testpmd`: receiving, sending and forwarding over one queue of AF_XDP, and forwarding over
//! nothing.

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
/// The program with devices that have packets from nowhere, in rows.
pub const NOWHERE: &str = "dpdk-testpmd over net_null";
/// The Debian package that has it.
pub const PACKAGE: &str = "dpdk-dev";
/// What its statistics begin with.
const STATISTICS: &str = "Port statistics";

/// Of [`swap_nothing`].
const DEVICES: usize = 2;

/// Where DPDK keeps files of its processes: a folder that is not there. Otherwise it makes one for
/// every prefix in /run/dpdk, though it needs none (`--no-shconf`), and leaves it.
pub(crate) const RUNTIME: (&str, &str) = ("RUNTIME_DIRECTORY", "/nonexistent");

/// Does `task` with packets of `size` bytes on queue 0 of `interface`, on this CPU; `None` if it is
/// not installed. It ends by ^C, and says then what it did.
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

/// Exchanges addresses of packets of `size` bytes between two devices that have them from nowhere,
/// on this CPU; otherwise as [`command`], and it writes statistics every second: see
/// [`sending_rate`].
pub fn swap_nothing(size: usize, cpu: u32) -> Option<Command> {
    let mut command = environment(cpu)?;
    for device in 0..DEVICES {
        command.args(["--vdev", &format!("net_null{device},size={size}")]);
    }
    command.args(["--", "--nb-cores=1", "--total-num-mbufs=8192", "--forward-mode=macswap"]);
    command.args(["--stats-period", "1"]);
    Some(command)
}

/// The program without devices and what comes after `--`. Its main thread only sleeps; the other
/// one works, on the same CPU. Without huge pages, devices and a telemetry socket it leaves
/// nothing.
pub fn environment(cpu: u32) -> Option<Command> {
    let mut command = Command::new(find(PROGRAM)?);
    command.arg(format!("--lcores=0@{cpu},1@{cpu}"));
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "128"]);
    // Those of several processes of ours are told apart by it.
    command.arg(format!("--file-prefix=wirelane-{}", std::process::id()));
    command.env(RUNTIME.0, RUNTIME.1);
    Some(command)
}

/// Whether it has begun: its ports are started then, and its worker has stopped to sleep for a
/// command (`eal_thread_loop`) and polls without end. What it writes comes later, or not at all:
/// its standard output is buffered, and its first statistics wait until the machine has been up for
/// as long as their period.
pub fn is_forwarding(process: u32) -> bool {
    /// More than the worker takes to get ready for commands.
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

/// Whether it has begun, and packets of the interface at `site` are its own: its XDP program is
/// there, which comes with its socket.
pub(crate) fn is_receiving(process: u32, site: &Site) -> bool {
    mode(site).is_some() && is_forwarding(process)
}

/// The mode in which the kernel runs the program of the interface at `site`; `None` if there is
/// none.
pub(crate) fn mode(site: &Site) -> Option<XdpMode> {
    let look = || bpf::attached(iface::index(site.interface())?);
    Some(site.inside(look).ok()?.ok()??.mode)
}

/// Packets that all its ports together sent per second, between the first of its statistics and the
/// second; `None` before it has written them. It knows better than others when it counted.
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

/// A number from the statistics that it ends with, such as that of `RX-packets:`.
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
