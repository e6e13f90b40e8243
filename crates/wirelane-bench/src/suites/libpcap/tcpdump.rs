//! CPU time of a packet in tcpdump, over Wirelane's libpcap and over the system's.
//!
//! The program, the interface and the buffer size are the same; only the library differs. tcpdump
//! writes to /dev/null, which costs least, writes to a file in memory, and prints.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use wirelane::error::Result;

use crate::job::{Case, Job};
use crate::peers::capture::{CaptureProgram, PROGRAMS};
use crate::row::Params;
use crate::suites::paced::PacedBed;
use crate::wire::Wired;

const CASE: &str = "tcpdump";
/// The system's library, as a peer.
const STOCK: &str = "libpcap";
/// The destination of packets, and a rate that tcpdump takes without loss on one CPU of a current
/// machine.
const TARGETS: [(&str, u64); 3] = [("none", 300_000), ("memory", 300_000), ("text", 100_000)];

/// Measures both libraries.
pub(super) fn tcpdump(wired: Option<Wired>, job: &mut Job<'_>) -> Result<()> {
    let program = PROGRAMS.iter().find(|program| program.name == CASE);
    let Some(program) = program.filter(|_| job.find(CASE).is_some()) else { return Ok(()) };
    let Some(bed) = &PacedBed::at(wired, CASE, job)? else { return Ok(()) };
    let mut cases = Vec::new();
    for (target, rate) in TARGETS {
        let libraries = [
            (Some(STOCK), STOCK, "the system's libpcap"),
            (None, "wirelane", "Wirelane's libpcap"),
        ];
        for (peer, name, library) in libraries {
            let title = format!("CPU time of tcpdump over {library}, written to: {target}");
            let measure = move |job: &mut Job<'_>| {
                let command = command(bed, program, target, peer.is_none(), job.own()?)?;
                let sample = bed.sample(program, command, rate, job)?;
                Ok(bed.figures(("target", target), rate, &sample))
            };
            let case = Case::new(CASE, Params::default(), title, measure);
            cases.push(case.of(peer).skipped_as(name));
        }
    }
    job.take(cases)
}

/// The program with one of the libraries.
fn command(
    bed: &PacedBed,
    program: &CaptureProgram,
    target: &str,
    is_ours: bool,
    own: &Path,
) -> Result<Command> {
    let file = (target == "memory").then(|| bed.file());
    let plain = program.command(own, bed.interface(), file.as_deref())?;
    let mut words = vec![plain.get_program().to_owned()];
    words.extend(plain.get_args().map(OsString::from));
    if is_ours {
        words.splice(0..0, [own.into(), "exec".into(), "--".into()]);
    }
    if target == "text" {
        // The text is written to /dev/null, like the file.
        words.truncate(words.iter().position(|word| word == "-w").unwrap_or(words.len()));
        let shell = ["sh", "-c", "exec \"$0\" \"$@\" > /dev/null"].map(OsString::from);
        words.splice(0..0, shell);
    }
    // Removes variables that select a library: only `exec` selects one.
    let mut command = Command::new(words.remove(0));
    command.args(words).env_remove("LD_PRELOAD").env_remove("WIRELANE_PCAP");
    Ok(command)
}
