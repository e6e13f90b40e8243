//! Ten thousand flows and a million flows: the cost of flows that do not fit into the CPU's caches.
//!
//! A file of a million packets is read several times, so that flows have many packets. Their begin
//! and end, which cost several packets each, are then the smaller part. Flows are not exported.

use std::process::Command;

use wirelane::error::Result;

use super::process::{received, run};
use super::traffic::{CaptureTraffic, SMALL};
use crate::job::{Case, Job};
use crate::row::params;
use crate::suites::bed;

const CASE: &str = "many";
/// The numbers of flows.
const FLOWS: [u64; 2] = [10_000, 1_000_000];
/// Packets of a file.
const PACKETS: u64 = 1_000_000;

/// Measures both numbers of flows. `readings` is how often each file is read.
pub(super) fn many(readings: [u64; 2], job: &mut Job<'_>) -> Result<()> {
    let made = bed::in_memory().and_then(|folder| {
        folder.make()?;
        for flows in FLOWS {
            let traffic = CaptureTraffic { packets: PACKETS, flows, sizes: &SMALL, has_tcp: false };
            traffic.write(&folder.file(&flows.to_string()))?;
        }
        Ok(folder)
    });
    let Some(folder) = &job.or_skip(CASE, made) else { return Ok(()) };
    let case = |(flows, readings): (u64, u64)| {
        let file = folder.file(&flows.to_string());
        let measure = move |job: &mut Job<'_>| {
            let mut command = Command::new(job.own()?);
            command.args(["flows", "--json"]);
            command.arg(format!("file:{}?loop={readings}", file.display()));
            let packets = PACKETS * readings;
            let (cpu, output) = run(command, packets, job)?;
            received(&output.stdout, packets)?;
            Ok([("cpu_ns_per_packet", cpu)].into())
        };
        let params = params![size = 64_u64, flows = flows, readings = readings];
        Case::new(CASE, params, format!("{flows} flows"), measure)
    };
    job.take(FLOWS.into_iter().zip(readings).map(case).collect())
}
