//! The programs that are compared: how each is started, and how it tells what it did.

use std::process::Command;

use serde_json::Value;
use wirelane_bench::peers::testpmd;
use wirelane_bench::task::Task;
use wirelane_testkit::process::{ChildGuard, Output};

use super::super::{Context, Result};

/// A program that does all kinds of work.
pub(super) struct Program {
    pub(super) name: &'static str,
    command: fn(&Context, Task, &Place<'_>) -> Option<Command>,
    /// What it says it received.
    pub(super) received: fn(&Output) -> Result<u64>,
    /// Whether it has begun; `None` if that cannot be seen.
    pub(super) ready: Option<fn(&ChildGuard) -> bool>,
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
}

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        name: "wirelane",
        command: |context, kind, place| {
            // The peer's program leaves VLAN tags where a driver put them.
            let port = format!("xdp:{}?mode=native&tags=off", place.interface);
            Some(bench(context, kind, &port, place))
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
    Program {
        name: testpmd::PROGRAM,
        command: |_, kind, place| testpmd::command(kind, place.interface, place.size, place.cpu),
        received: |output| accumulated(output, "RX-packets:"),
        ready: Some(|child| testpmd::is_forwarding(child.id())),
        ends: false,
    },
];

/// `wirelane bench sockets` with one sample.
pub(super) fn bench(context: &Context, kind: Task, port: &str, place: &Place<'_>) -> Command {
    let mut command = Command::new(&context.wirelane);
    command.args(["bench", "sockets", "--port", port, "--case", kind.as_str(), "--all", "--json"]);
    command.args(["--samples", "1", "--size", &place.size.to_string()]);
    command.args(["--seconds", &format!("{}s", place.seconds)]);
    command.args(["--cpus", &place.cpu.to_string()]);
    command
}

/// A number from the statistics that the peer ends with.
pub(super) fn accumulated(output: &Output, name: &str) -> Result<u64> {
    let number = testpmd::accumulated(&output.stdout, name);
    number.ok_or_else(|| format!("{} does not say {name}", testpmd::PROGRAM))
}

impl Program {
    pub(super) fn is_ours(&self) -> bool {
        self.name != testpmd::PROGRAM
    }

    /// `None` if it is not installed.
    pub(super) fn command(
        &self,
        context: &Context,
        kind: Task,
        place: &Place<'_>,
    ) -> Option<Command> {
        (self.command)(context, kind, place)
    }
}
