//! Programs that read a capture, on one CPU.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wirelane::error::{Error, Result};

use crate::job::Job;
use crate::peers::process::ProgramOutput;
use crate::suites::bed;

/// How long a program may take to read a file.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program to its end on one CPU. Returns its CPU time per packet in ns, and its output.
pub(super) fn run(
    mut command: Command,
    packets: u64,
    job: &mut Job<'_>,
) -> Result<(f64, ProgramOutput)> {
    let last = bed::cpus().last().copied();
    let ended = job.run(&mut command, last.as_slice(), None, LIMIT)?;
    Ok((ended.cpu.as_nanos() as f64 / packets as f64, ended.output))
}

/// Checks in the summary of Wirelane's command that it has read all packets.
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
