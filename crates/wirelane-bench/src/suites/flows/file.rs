//! A capture in memory, and the programs that make flows of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use wirelane::error::Result;

use super::process::{SUITE, received, run};
use super::traffic::{IMIX, Traffic};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane_lab::leftovers::{self, Folder};

/// Programs that make the same of a capture; every path is one of the folder that they run in.
pub(super) struct Contest {
    pub(super) case: &'static str,
    /// Of our command.
    arguments: &'static [&'static str],
    /// A program that our command needs for it.
    needs: Option<&'static str>,
    /// The other programs, with their arguments.
    peers: &'static [(&'static str, &'static [&'static str])],
}

/// Flows as each program likes them. softflowd sends them: to a port of this machine where nobody
/// takes them.
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

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn file(
    contests: &[&'static Contest],
    plan: &ProcessPlan<'_>,
    packets: u64,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    let made = Folder::new(Path::new(leftovers::MEMORY)).and_then(|folder| {
        folder.make()?;
        let traffic = Traffic { packets, flows: FLOWS, sizes: &IMIX, has_tcp: true };
        traffic.write(&folder.file("capture"))?;
        Ok(folder)
    });
    let folder = match made {
        Ok(folder) => folder,
        Err(error) => return report.skip(SUITE, FILE.case, error.to_string()),
    };
    let mut cases = Vec::new();
    for contest in contests {
        let reader = |peer| {
            let samples = Vec::new();
            Reader { contest, folder: &folder, own: plan.own, packets, peer, samples }
        };
        match contest.needs.filter(|name| !is_there(plan.own, name)) {
            None => cases.push(reader(None)),
            Some(name) => {
                let cause = format!("{name} lies neither beside wirelane nor on the PATH");
                report.skip(SUITE, contest.case, cause);
                continue;
            }
        }
        for peer in contest.peers {
            match find(peer.0) {
                Some(program) => cases.push(reader(Some((program, *peer)))),
                None => report.skip(SUITE, peer.0, missing(peer.0)),
            }
        }
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.samples.is_empty()).map(Reader::row));
}

/// Whether a program lies where our command looks for it.
fn is_there(own: &Path, name: &str) -> bool {
    own.with_file_name(name).is_file() || find(name).is_some()
}

/// Another program: where it is, its name and its arguments.
type Peer = (PathBuf, (&'static str, &'static [&'static str]));

/// A program that reads the capture.
struct Reader<'a> {
    contest: &'static Contest,
    folder: &'a Folder,
    own: &'a Path,
    packets: u64,
    /// `None` is ours.
    peer: Option<Peer>,
    /// CPU time of a packet, in ns.
    samples: Vec<f64>,
}

impl Reader<'_> {
    fn name(&self) -> Option<&'static str> {
        self.peer.as_ref().map(|(_, (name, _))| *name)
    }

    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: self.contest.case,
            peer: self.name(),
            params: Params(vec![("size", Param::Text("imix")), ("flows", Param::Number(FLOWS))]),
            metric: "cpu_ns_per_packet",
            unit: "ns",
            samples: self.samples.clone(),
            source: None,
        }
    }
}

impl Turn for Reader<'_> {
    fn case(&self) -> &'static str {
        self.name().unwrap_or(self.contest.case)
    }

    fn title(&self) -> String {
        let what = if self.contest.case == PARQUET.case { "flows as Parquet" } else { "flows" };
        format!("{what} of a file by {}", self.name().unwrap_or("wirelane"))
    }

    fn measure(&mut self, _: u32, _: &AtomicBool, report: &mut Report) -> Result<()> {
        let mut command = match &self.peer {
            Some((program, (_, arguments))) => {
                let mut command = Command::new(program);
                command.args(*arguments);
                command
            }
            None => {
                let mut command = Command::new(self.own);
                command.args(self.contest.arguments);
                command
            }
        };
        command.current_dir(self.folder.file("."));
        let (cpu, output) = run(command, self.packets, report)?;
        // Files have new names each time.
        let _ = fs::remove_dir_all(self.folder.file("flows"));
        if self.peer.is_none() {
            received(&output.stdout, self.packets)?;
        }
        self.samples.push(cpu);
        Ok(())
    }
}
