//! A capture in memory, and the programs that make flows of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use wirelane::error::Result;

use super::process::{SUITE, received, run};
use super::traffic::{IMIX, Traffic};
use crate::leftovers::{self, Folder};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};

pub(super) const CASE: &str = "file";
/// The other programs, each with its arguments for a file in the folder that it runs in. softflowd sends its flows: to a
/// port of this machine where nobody takes them.
const PEERS: [(&str, &[&str]); 3] = [
    ("nfpcapd", &["-r", "capture", "-w", "."]),
    ("softflowd", &["-r", "capture", "-n", "127.0.0.1:9", "-d", "-c", "none", "-p", "pid"]),
    ("argus", &["-X", "-r", "capture", "-w", "argus.out"]),
];
/// Packets of the capture: 730 MB, and a quarter of it.
pub(super) const PACKETS: [u64; 2] = [2_000_000, 500_000];
const FLOWS: u64 = 10_000;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn file(
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
        Err(error) => return report.skip(SUITE, CASE, error.to_string()),
    };
    let case = |peer| Reader { folder: &folder, own: plan.own, packets, peer, samples: Vec::new() };
    let mut cases = vec![case(None)];
    for peer in PEERS {
        match find(peer.0) {
            Some(program) => cases.push(case(Some((program, peer)))),
            None => report.skip(SUITE, peer.0, missing(peer.0)),
        }
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.samples.is_empty()).map(Reader::row));
}

/// Another program: where it is, its name and its arguments.
type Peer = (PathBuf, (&'static str, &'static [&'static str]));

/// A program that reads the capture.
struct Reader<'a> {
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
            case: CASE,
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
        self.name().unwrap_or(CASE)
    }

    fn title(&self) -> String {
        format!("flows of a file by {}", self.name().unwrap_or("wirelane"))
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
                command.args(["flows", "--json", "./capture", "-w", "flows.csv"]);
                command
            }
        };
        // Every path is one of the folder.
        command.current_dir(self.folder.file("."));
        let (cpu, output) = run(command, self.packets, report)?;
        if self.peer.is_none() {
            received(&output.stdout, self.packets)?;
        }
        self.samples.push(cpu);
        Ok(())
    }
}
