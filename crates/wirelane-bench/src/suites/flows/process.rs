//! Programs that read a capture, on one CPU.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wirelane::error::{Error, Result};
use wirelane_os::{affinity, clock};

use crate::peers::process::{Output, Running, line};
use crate::report::Report;

pub(super) const SUITE: &str = "flows";
/// How long a program may take to read a file.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program to its end on one CPU: its CPU time per packet in ns, and what it wrote.
pub(super) fn run(
    mut command: Command,
    packets: u64,
    report: &mut Report,
) -> Result<(f64, Output)> {
    report.environment.add_command(line(&command));
    let last = affinity::allowed_cpus().unwrap_or_default().last().copied();
    // Nothing else is started until it has ended: the difference is its own.
    let before = clock::children_cpu();
    let output = Running::start(&mut command, last.as_slice(), None)?.wait(LIMIT)?;
    let used = clock::children_cpu().since(before).total();
    Ok((used.as_nanos() as f64 / packets as f64, output))
}

/// Whether our command has read all packets, by its summary.
///
/// # Errors
/// It has not.
pub(super) fn received(summary: &str, packets: u64) -> Result<()> {
    let summary: Value = serde_json::from_str(summary).unwrap_or_default();
    match summary["totals"]["received"].as_u64() {
        Some(received) if received == packets => Ok(()),
        received => {
            let cause = format!("read {} of {packets} packets", received.unwrap_or(0));
            Err(Error::failed("wirelane flows", cause))
        }
    }
}
