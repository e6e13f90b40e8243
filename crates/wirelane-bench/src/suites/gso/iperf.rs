//! Repeats a transfer with iperf3, to check this suite's sender and receiver: the bytes that iperf3
//! reports, over the same path and on the same CPU.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::sample::GsoSample;
use crate::peers::process::RunningProgram;
use crate::suites::gso::traffic::TransferEnds;
use wirelane::error::{Error, Result};

pub(super) const PROGRAM: &str = "iperf3";
const PORT: &str = "5201";
/// iperf3 accepts whole seconds only. A connection over a veth pair reaches its speed within
/// milliseconds.
const SECONDS: &str = "1";
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets the program at `path` send over TCP in `flows` connections, on `cpu` only.
///
/// # Errors
/// It cannot be started, fails, or does not report what it received.
pub(super) fn transfer(
    path: &Path,
    ends: &TransferEnds<'_>,
    flows: u16,
    cpu: u32,
    stop: &AtomicBool,
) -> Result<GsoSample> {
    let address = ends.address.ip().to_string();
    let mut server = Command::new(path);
    server.args(["--server", "--one-off", "--forceflush", "--port", PORT]);
    let mut server = RunningProgram::start(&mut server, &[cpu], Some(ends.to))?;
    server.wait_for("Server listening", PATIENCE, stop)?;
    let mut client = Command::new(path);
    client.args(["--client", &address, "--port", PORT, "--json"]);
    client.args(["--time", SECONDS, "--parallel", &flows.to_string()]);
    let output = RunningProgram::start(&mut client, &[cpu], Some(ends.from))?.wait(PATIENCE)?;
    received(&output.stdout).ok_or_else(|| {
        Error::failed(PROGRAM, "it does not say what was received")
            .help("is its version below 3.1?")
    })
}

/// The received bytes in the report of a client.
fn received(report: &str) -> Option<GsoSample> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let sum = &report["end"]["sum_received"];
    let elapsed = Duration::try_from_secs_f64(sum["seconds"].as_f64()?).ok()?;
    let bytes = sum["bytes"].as_u64()?;
    (!elapsed.is_zero()).then_some(GsoSample { bytes, elapsed, account: None, lost: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_figure_counts() {
        let report = r#"{"end": {"sum_sent": {"seconds": 2.0, "bytes": 500},
                          "sum_received": {"seconds": 1.5, "bytes": 300}}}"#;
        let sample = received(report).unwrap();
        assert_eq!((sample.bytes, sample.elapsed), (300, Duration::from_millis(1500)));
        for report in ["", "{}", r#"{"error": "x", "end": {}}"#] {
            assert!(received(report).is_none(), "{report}");
        }
        let nothing = r#"{"end": {"sum_received": {"seconds": 0, "bytes": 0}}}"#;
        assert!(received(nothing).is_none());
    }
}
