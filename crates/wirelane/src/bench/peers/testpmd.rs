//! `dpdk-testpmd` over AF_XDP: receiving, sending and forwarding on one queue.

use std::process::Command;

use super::find;
use crate::bench::sockets::Kind;

/// The program.
pub const PROGRAM: &str = "dpdk-testpmd";
/// The Debian package that has it.
pub const PACKAGE: &str = "dpdk-dev";
/// What it writes when it is about to begin.
pub const READY: &str = "Port statistics";

/// Where DPDK keeps files of its processes: a folder that is not there. Otherwise it makes one for every prefix
/// in /run/dpdk, though it needs none (`--no-shconf`), and leaves it.
pub(in crate::bench) const RUNTIME: (&str, &str) = ("RUNTIME_DIRECTORY", "/nonexistent");

/// Does `kind` with packets of `size` bytes on queue 0 of `interface`, on this CPU; `None` if it is not installed.
/// It ends by ^C, and says then what it did.
pub fn command(kind: Kind, interface: &str, size: usize, cpu: u32) -> Option<Command> {
    let mut command = environment(cpu)?;
    command.arg("--vdev");
    command.arg(format!("net_af_xdp0,iface={interface},start_queue=0,queue_count=1"));
    command.args(["--", "--nb-cores=1", "--total-num-mbufs=16384"]);
    command.arg(match kind {
        Kind::Rxdrop => "--forward-mode=rxonly",
        Kind::Txpush => "--forward-mode=txonly",
        Kind::L2fwd => "--forward-mode=macswap",
    });
    command.arg(format!("--txpkts={size}"));
    // Without a period it ends when it has no terminal.
    command.args(["--stats-period", "3600"]);
    Some(command)
}

/// The program without devices and what comes after `--`. Its main thread only sleeps; the other one
/// works, on the same CPU. Without huge pages, devices and a telemetry socket it leaves nothing.
pub fn environment(cpu: u32) -> Option<Command> {
    let mut command = Command::new(find(PROGRAM)?);
    command.arg(format!("--lcores=0@{cpu},1@{cpu}"));
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "-m", "512"]);
    // Those of several processes of ours are told apart by it.
    command.arg(format!("--file-prefix=wirelane-{}", std::process::id()));
    command.env(RUNTIME.0, RUNTIME.1);
    Some(command)
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
}
