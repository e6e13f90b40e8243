//! A capture in memory, and the programs that make flow records from it.

use std::fs;
use std::path::Path;
use std::process::Command;

use wirelane::error::Result;

use super::process::{received, run};
use super::traffic::{CaptureTraffic, IMIX};
use crate::job::{Case, Job};
use crate::peers::find;
use crate::row::params;
use crate::suites::bed;

/// Programs that convert a capture into flow records of one kind. All paths are relative to the
/// folder in which the programs run.
pub(super) struct Contest {
    pub(super) case: &'static str,
    /// Arguments of Wirelane's command.
    arguments: &'static [&'static str],
    /// A program that Wirelane's command needs for it.
    needs: Option<&'static str>,
    /// The other programs, with their arguments.
    peers: &'static [(&'static str, &'static [&'static str])],
}

/// Flow records in each program's own format. softflowd exports them to a local port on which no
/// program listens.
pub(super) static FILE: Contest = Contest {
    case: "file",
    arguments: &["flows", "--json", "./capture", "-w", "flows.csv"],
    needs: None,
    peers: &[
        ("nfpcapd", &["-r", "capture", "-w", "."]),
        ("softflowd", &["-r", "capture", "-n", "127.0.0.1:9", "-d", "-c", "none", "-p", "pid"]),
        ("argus", &["-X", "-r", "capture", "-w", "argus.out"]),
    ],
};

/// Flows in files of Parquet.
pub(super) static PARQUET: Contest = Contest {
    case: "parquet",
    arguments: &["flows", "--json", "./capture", "-w", "flows/"],
    needs: Some("wirelane-query"),
    peers: &[("flowprep", &["pcap", "capture", "flowprep.parquet"])],
};

/// Packets of the capture: 730 MB, and a quarter of it.
pub(super) const PACKETS: [u64; 2] = [2_000_000, 500_000];
const FLOWS: u64 = 10_000;

/// Measures how every program makes flows of a capture of `packets` packets.
pub(super) fn file(contests: &[&'static Contest], packets: u64, job: &mut Job<'_>) -> Result<()> {
    let made = bed::in_memory().and_then(|folder| {
        folder.make()?;
        let traffic = CaptureTraffic { packets, flows: FLOWS, sizes: &IMIX, has_tcp: true };
        traffic.write(&folder.file("capture"))?;
        Ok(folder)
    });
    let Some(folder) = &job.or_skip(FILE.case, made) else { return Ok(()) };
    let mut cases = Vec::new();
    for contest in contests {
        let own = job.own()?.to_owned();
        if let Some(name) = contest.needs.filter(|name| !is_there(&own, name)) {
            let cause = format!("{name} is neither beside wirelane nor on the PATH");
            job.skip(contest.case, cause);
            continue;
        }
        let mut programs = vec![(None, own, contest.arguments)];
        for (peer, arguments) in contest.peers {
            programs.extend(job.find(peer).map(|program| (Some(*peer), program, *arguments)));
        }
        for (peer, program, arguments) in programs {
            let what = if contest.case == PARQUET.case { "flows as Parquet" } else { "flows" };
            let title = format!("{what} of a file by {}", peer.unwrap_or("wirelane"));
            let measure = move |job: &mut Job<'_>| {
                let mut command = Command::new(&program);
                command.args(arguments).current_dir(folder.file("."));
                let (cpu, output) = run(command, packets, job)?;
                // The file names differ in each run.
                let _ = fs::remove_dir_all(folder.file("flows"));
                if peer.is_none() {
                    received(&output.stdout, packets)?;
                }
                Ok([("cpu_ns_per_packet", cpu)].into())
            };
            let params = params![size = "imix", flows = FLOWS];
            cases.push(Case::new(contest.case, params, title, measure).of(peer));
        }
    }
    job.take(cases)
}

/// Whether a program is in a folder where Wirelane's command looks for it.
fn is_there(own: &Path, name: &str) -> bool {
    own.with_file_name(name).is_file() || find(name).is_some()
}
