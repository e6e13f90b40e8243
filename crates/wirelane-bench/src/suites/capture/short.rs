//! CPU time of a whole short capture, from the start of the process to its end: our command and
//! tcpdump in turns.
//!
//! ```text
//!   first CPU: a few thousand frames per second ─▶ wl-a ═══ wl-b ─▶ 100 packets ─▶ file in memory     second CPU: capture
//! ```
//!
//! Nearly all of it goes into getting ready and taking down, whatever a packet costs.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::paced::PacedBed;
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};

const SUITE: &str = "capture";
const CASE: &str = "short";
/// After so many packets a capture ends by itself.
const PACKETS: u64 = 100;
const TCPDUMP: &str = "tcpdump";

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn short(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let Some(bed) = PacedBed::or_skip(plan, (SUITE, CASE), report) else { return Ok(()) };
    let mut cases = vec![ShortCase { bed: &bed, own: plan.own, peer: None, samples: Vec::new() }];
    match find(TCPDUMP) {
        Some(_) => cases.push(ShortCase {
            bed: &bed,
            own: plan.own,
            peer: Some(TCPDUMP),
            samples: Vec::new(),
        }),
        None => report.skip(SUITE, TCPDUMP, missing(TCPDUMP)),
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.samples.is_empty()).map(ShortCase::row));
    Ok(())
}

/// A program, and the CPU time of its runs.
struct ShortCase<'a> {
    bed: &'a PacedBed,
    own: &'a Path,
    peer: Option<&'static str>,
    samples: Vec<Duration>,
}

impl Turn for ShortCase<'_> {
    fn case(&self) -> &'static str {
        self.peer.unwrap_or(CASE)
    }

    fn title(&self) -> String {
        let name = self.peer.unwrap_or("wirelane");
        format!("CPU time of {name} from start to end, {PACKETS} packets")
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let sample = self.bed.whole(self.command()?, stop, report)?;
        self.samples.extend(sample);
        Ok(())
    }
}

impl ShortCase<'_> {
    fn command(&self) -> Result<Command> {
        let interface = self.bed.interface();
        let count = PACKETS.to_string();
        let (program, words) = match self.peer {
            None => (Some(self.own.to_owned()), vec!["capture", interface]),
            // As whom it runs from then on is left out: both stay who they are.
            Some(peer) => (find(peer), vec!["-i", interface, "-n", "-Z", "root"]),
        };
        let program = program.ok_or_else(|| Error::failed(TCPDUMP, "is missing"))?;
        let mut command = Command::new(program);
        command.args(words).args(["-c", &count, "-w"]).arg(self.bed.file());
        Ok(command)
    }

    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: self.peer,
            params: Params(vec![
                ("port", Param::Text("packet")),
                ("target", Param::Text("memory")),
                ("packets", Param::Number(PACKETS)),
            ]),
            metric: "cpu_ns_of_process",
            unit: "ns",
            samples: self.samples.iter().map(|time| time.as_nanos() as f64).collect(),
            source: None,
        }
    }
}
