//! CPU time of a whole short capture, from the start of the process to its end: Wirelane's command
//! and tcpdump in turns.
//!
//! ```text
//!   first CPU:   a few thousand frames per second ─▶ wl-a
//!   second CPU:  wl-b ─▶ capture of 100 packets ─▶ file in memory
//! ```
//!
//! Set-up and tear-down take nearly all of it; the cost per packet hardly matters.

use std::process::Command;

use wirelane::error::Result;

use crate::job::{Case, Job};
use crate::row::params;
use crate::suites::paced::PacedBed;

const CASE: &str = "short";
/// Both programs end after this number of packets.
const PACKETS: u64 = 100;
const TCPDUMP: &str = "tcpdump";

/// Measures both programs.
///
/// # Errors
/// The command is missing. Other failures are noted with their reason.
pub(super) fn short(job: &mut Job<'_>) -> Result<()> {
    let Some(bed) = &PacedBed::or_skip(CASE, job) else { return Ok(()) };
    // Both keep their user, so that changing it is no part of the figure.
    let ours = (None, job.own()?.to_owned(), vec!["capture", bed.interface()]);
    let words = vec!["-i", bed.interface(), "-n", "-Z", "root"];
    let theirs = job.find(TCPDUMP).map(|program| (Some(TCPDUMP), program, words));
    let case = |(peer, program, words): (Option<&'static str>, _, Vec<_>)| {
        let name = peer.unwrap_or("wirelane");
        let title = format!("CPU time of {name} from start to end, {PACKETS} packets");
        let measure = move |job: &mut Job<'_>| {
            let mut command = Command::new(&program);
            command.args(&words).args(["-c", &PACKETS.to_string(), "-w"]).arg(bed.file());
            let cpu = bed.whole(command, job)?;
            Ok([("cpu_ns_of_process", cpu.as_nanos() as f64)].into())
        };
        let params = params![port = "packet", target = "memory", packets = PACKETS];
        Case::new(CASE, params, title, measure).of(peer)
    };
    job.take([ours].into_iter().chain(theirs).map(case).collect())
}
