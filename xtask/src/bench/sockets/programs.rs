//! The programs that are compared: how each is started, and how it tells what it did.

use std::process::Command;

use serde_json::Value;
use wirelane_testkit::process::Output;

use super::super::{Context, Result};
use crate::setup;

/// What a program is to do on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Rxdrop,
    Txpush,
    L2fwd,
}

impl Task {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rxdrop => "rxdrop",
            Self::Txpush => "txpush",
            Self::L2fwd => "l2fwd",
        }
    }
}

/// A program that does all of them.
pub(super) struct Program {
    pub(super) name: &'static str,
    command: fn(&Context, Task, &Place<'_>) -> Option<Command>,
    /// What it says it received.
    pub(super) received: fn(&Output) -> Result<u64>,
    /// What it writes when it is about to begin; `None` if it says nothing.
    pub(super) ready: Option<&'static str>,
    /// It ends by itself after the time it was given.
    pub(super) ends: bool,
}

/// Where and how long it runs.
pub(super) struct Place<'a> {
    pub(super) interface: &'a str,
    pub(super) cpu: u32,
    pub(super) seconds: u64,
    /// Bytes of a packet.
    pub(super) size: usize,
    /// What tells the runs of a peer apart that are alive at the same time.
    pub(super) tag: u64,
}

/// The Debian package of the peer.
pub(super) const PACKAGE: &str = "dpdk";
const PEER: &str = "dpdk-testpmd";

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        name: "wirelane",
        command: |context, task, place| {
            // The peer's program leaves VLAN tags where a driver put them.
            let port = format!("xdp:{}?mode=native&tags=off", place.interface);
            Some(bench(context, task, &port, place))
        },
        received: |output| {
            let report: Value = serde_json::from_str(&output.stdout)
                .map_err(|error| format!("wirelane gave no report: {error}: {}", output.stderr))?;
            let rows = report["rows"].as_array().into_iter().flatten();
            let row = rows.into_iter().find(|row| row["metric"] == "packets");
            let packets = row.and_then(|row| row["median"].as_f64());
            packets.map(|packets| packets as u64).ok_or_else(|| "wirelane counted nothing".into())
        },
        ready: None,
        ends: true,
    },
    // Its main lcore only sleeps; the other one works, on the same CPU.
    Program {
        name: PEER,
        command: |_, task, place| {
            let mut command = testpmd(place)?;
            let device =
                format!("net_af_xdp0,iface={},start_queue=0,queue_count=1", place.interface);
            command.args(["--vdev", &device, "--", "--nb-cores=1", "--total-num-mbufs=16384"]);
            command.arg(match task {
                Task::Rxdrop => "--forward-mode=rxonly",
                Task::Txpush => "--forward-mode=txonly",
                Task::L2fwd => "--forward-mode=macswap",
            });
            command.arg(format!("--txpkts={}", place.size));
            command.args(["--stats-period", STATS]);
            Some(command)
        },
        received: |output| accumulated(&output.stdout, "RX-packets:"),
        ready: Some("Port statistics"),
        ends: false,
    },
];

/// `wirelane bench sockets` with one sample.
pub(super) fn bench(context: &Context, task: Task, port: &str, place: &Place<'_>) -> Command {
    let mut command = Command::new(&context.wirelane);
    command.args(["bench", "sockets", "--port", port, "--case", task.name(), "--all", "--json"]);
    command.args(["--samples", "1", "--size", &place.size.to_string()]);
    command.args(["--seconds", &format!("{}s", place.seconds)]);
    command.args(["--cpus", &place.cpu.to_string()]);
    command
}

/// The peer without devices and beyond `--`.
pub(super) fn testpmd(place: &Place<'_>) -> Option<Command> {
    let mut command = Command::new(setup::find(PEER)?);
    let cpu = place.cpu;
    command.arg(format!("--lcores=0@{cpu},1@{cpu}"));
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "-m", "512"]);
    command.arg(format!("--file-prefix=wl{}-{}", std::process::id(), place.tag));
    Some(command)
}

/// Seconds between the statistics of the peer: without the option it ends when it has no terminal.
pub(super) const STATS: &str = "3600";

/// A number from the statistics that the peer ends with.
pub(super) fn accumulated(text: &str, name: &str) -> Result<u64> {
    let (_, rest) = text.split_once("Accumulated forward statistics").unwrap_or_default();
    let (_, rest) = rest.split_once(name).unwrap_or_default();
    let number = rest.split_whitespace().next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("{PEER} does not say {name}"))
}

impl Program {
    pub(super) fn is_ours(&self) -> bool {
        self.name != PEER
    }

    /// `None` if it is not installed.
    pub(super) fn command(
        &self,
        context: &Context,
        task: Task,
        place: &Place<'_>,
    ) -> Option<Command> {
        (self.command)(context, task, place)
    }
}
