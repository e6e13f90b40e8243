//! CPU time of a packet in tcpdump, over Wirelane's libpcap and over the system's.
//!
//! It is the same program, on the same interface, with a buffer of the same size; what differs is
//! the library. It writes to /dev/null, which is the least it can do, to a file in memory, and
//! prints.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::peers::capture::{PROGRAMS, Program};
use crate::peers::missing;
use crate::report::Report;
use crate::suites::paced::{self, PacedBed, PacedSample, Subject};
use crate::suites::turns::{self, ProcessPlan, Turn};
use crate::wire::Wired;
use wirelane::error::{Error, Result};

const SUITE: &str = "libpcap";
const CASE: &str = "tcpdump";
/// The system's library, as a peer.
const STOCK: &str = "libpcap";

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None in a lab: what cannot be measured is skipped with its reason.
pub fn tcpdump(
    plan: &ProcessPlan<'_>,
    wired: Option<Wired>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let program = PROGRAMS.iter().find(|program| program.name == CASE);
    let program = program.filter(|program| program.command(plan.own, "", None).is_some());
    let Some(program) = program else {
        report.skip(SUITE, CASE, missing(CASE));
        return Ok(());
    };
    let bed = match wired {
        Some(wired) => PacedBed::wired(wired, plan)?,
        None => match PacedBed::or_skip(plan, (SUITE, CASE), report) {
            Some(bed) => bed,
            None => return Ok(()),
        },
    };
    let mut cases = Vec::new();
    for task in Task::ALL {
        cases.extend([false, true].map(|is_ours| {
            let (bed, own) = (&bed, plan.own);
            TcpdumpCase { bed, own, program, task, is_ours, samples: Vec::new() }
        }));
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    for case in cases.iter().filter(|case| !case.samples.is_empty()) {
        report.rows.extend(paced::rows(&case.subject(), &case.samples));
    }
    Ok(())
}

/// What becomes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Nothing,
    Memory,
    Text,
}

impl Task {
    const ALL: [Self; 3] = [Self::Nothing, Self::Memory, Self::Text];

    fn target(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Memory => "memory",
            Self::Text => "text",
        }
    }

    /// Packets per second that it takes without loss on one CPU of a machine of today.
    fn rate(self) -> u64 {
        if self == Self::Text { 100_000 } else { 300_000 }
    }
}

/// The program with one of the libraries.
struct TcpdumpCase<'a> {
    bed: &'a PacedBed,
    own: &'a Path,
    program: &'a Program,
    task: Task,
    is_ours: bool,
    samples: Vec<PacedSample>,
}

impl Turn for TcpdumpCase<'_> {
    fn case(&self) -> &'static str {
        if self.is_ours { "wirelane" } else { STOCK }
    }

    fn title(&self) -> String {
        let library = if self.is_ours { "Wirelane's libpcap" } else { "the system's libpcap" };
        format!("CPU time of tcpdump over {library}, written to: {}", self.task.target())
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let command = self.command().ok_or_else(|| Error::failed(CASE, "is missing"))?;
        let sample = self.bed.sample(self.program, command, self.task.rate(), stop, report)?;
        self.samples.extend(sample);
        Ok(())
    }
}

impl TcpdumpCase<'_> {
    fn command(&self) -> Option<Command> {
        let file = (self.task == Task::Memory).then(|| self.bed.file());
        let plain = self.program.command(self.own, self.bed.interface(), file.as_deref())?;
        let mut words = vec![plain.get_program().to_owned()];
        words.extend(plain.get_args().map(OsString::from));
        if self.is_ours {
            let exec = [self.own.into(), "exec".into(), "--".into()];
            words.splice(0..0, exec);
        }
        if self.task == Task::Text {
            // What it prints is as little wanted as what it writes.
            words.truncate(words.iter().position(|word| word == "-w")?);
            let shell = ["sh", "-c", "exec \"$0\" \"$@\" > /dev/null"].map(OsString::from);
            words.splice(0..0, shell);
        }
        let mut command = Command::new(words.first()?);
        // Nothing but the library differs.
        command.args(words.get(1..)?).env_remove("LD_PRELOAD").env_remove("WIRELANE_PCAP");
        Some(command)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            bed: self.bed,
            suite: SUITE,
            case: CASE,
            peer: (!self.is_ours).then_some(STOCK),
            target: self.task.target(),
            rate: self.task.rate(),
        }
    }
}
