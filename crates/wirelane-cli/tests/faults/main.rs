//! Faults × commands: for every missing or removed resource, a command ends in time, names the
//! first cause, and the file holds the packets that it reports as written.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod shared;

mod inputs;
mod interfaces;
mod limits;
mod memory;
mod readers;
mod signals;
mod systems;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use wirelane_testkit::process::{ChildGuard, Output, output, run};
use wirelane_testkit::tools;
use wirelane_testkit::tshark::capinfos;

use self::shared::*;

/// How long a command may take to end once it has a reason, on an idle machine.
const BOUND: Duration = Duration::from_secs(5);

/// The commands that run until something ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Capture,
    Forward,
    Merge,
}

const KINDS: [Kind; 3] = [Kind::Capture, Kind::Forward, Kind::Merge];

/// A directory with the inputs of the commands: a file of 5000 packets, and an open pipe with 100
/// packets.
struct Bed {
    directory: TempDir,
    bound: Duration,
    /// Keeps the pipe from ending.
    pipe: Option<File>,
}

impl Bed {
    /// Every user may write there, and read the files.
    fn new() -> Self {
        let directory = tempdir().unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
        let make = |name, port| {
            let arguments = ["capture", "-q", port, "--mode", "644", "-w"];
            let made = output(wirelane(arguments).arg(directory.path().join(name)));
            assert!(made.status.success(), "{}", made.stderr);
        };
        let began = Instant::now();
        make("in.pcapng", "sim:2?count=5000&size=imix");
        // On a busy machine everything takes longer, as did this capture.
        let bound = BOUND + 20 * began.elapsed();
        make("small.pcapng", "sim:2?count=100");
        let mut bed = Self { directory, bound, pipe: None };
        bed.renew_pipe();
        bed
    }

    /// Replaces the pipe that a command has read.
    fn renew_pipe(&mut self) {
        let path = self.path("pipe");
        let _ = std::fs::remove_file(&path);
        run(Command::new("mkfifo").arg(&path));
        let mut pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        pipe.write_all(&std::fs::read(self.path("small.pcapng")).unwrap()).unwrap();
        self.pipe = Some(pipe);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The arguments of a command that writes `output` and ends by itself, after 5000 packets or
    /// more.
    fn finite(&self, kind: Kind, output: &Path) -> Vec<String> {
        match kind {
            Kind::Merge => self.merge(&["in.pcapng", "small.pcapng"], output),
            _ => from("sim:2?count=5000&size=imix", kind, output),
        }
    }

    /// As [`Bed::finite`], until something ends it.
    fn endless(&self, kind: Kind, output: &Path) -> Vec<String> {
        match kind {
            Kind::Merge => self.merge(&["in.pcapng", "pipe"], output),
            _ => from("sim:2?rate=5kpps&size=imix", kind, output),
        }
    }

    fn merge(&self, inputs: &[&str], output: &Path) -> Vec<String> {
        let inputs = inputs.iter().map(|name| self.path(name).display().to_string());
        let output = ["-w".to_owned(), output.display().to_string()];
        words(&["merge", "--json"]).into_iter().chain(inputs).chain(output).collect()
    }

    /// Waits for the command, which has a reason to end now.
    #[track_caller]
    fn end(&self, child: ChildGuard) -> Output {
        child.wait(self.bound)
    }

    /// Runs `command`, which has a reason to end from the start.
    #[track_caller]
    fn run(&self, command: &Command) -> Output {
        let mut timed = Command::new("timeout");
        // Its output is a pipe, which a file size limit does not affect.
        timed.args(["--signal=KILL", &self.bound.as_secs().to_string()]);
        let ended = output(timed.arg(command.get_program()).args(command.get_args()));
        assert_ne!(ended.status.code(), Some(128 + 9), "{command:?} goes on: {}", ended.stderr);
        ended
    }
}

/// The arguments of a command that writes the packets of `port` into `output`.
fn from(port: &str, kind: Kind, output: &Path) -> Vec<String> {
    let output = output.display().to_string();
    match kind {
        Kind::Capture => words(&["capture", "-q", "--json", port, "-w", &output]),
        Kind::Forward => words(&["forward", "-q", "--json", port, &format!("file:{output}")]),
        Kind::Merge => unreachable!("it reads files"),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The number of packets that a command reports as written, after checking that it ended by itself
/// and that its counters balance. `None` if it did not begin.
#[track_caller]
fn written(kind: Kind, ended: &Output) -> Option<u64> {
    assert!(ended.status.code().is_some(), "{kind:?}: {} {}", ended.status, ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{kind:?}: {}", ended.stderr);
    if ended.stdout.is_empty() {
        assert_ne!(ended.status.code(), Some(0), "{kind:?}: no summary");
        return None;
    }
    Some(match kind {
        Kind::Capture => number(&parse(&ended.stdout)["totals"]["written"]),
        Kind::Forward => {
            let summary = parse(&ended.stdout);
            let sent = number(&summary["totals"]["sent"]);
            let lost: u64 =
                summary["tx"].as_array().unwrap().iter().map(|tx| number(&tx["errors"])).sum();
            assert_eq!(number(&summary["totals"]["delivered"]), sent + lost, "{summary}");
            sent
        }
        Kind::Merge => {
            let report: Value = serde_json::from_str(&ended.stdout).unwrap();
            number(&report["output"]["packets"])
        }
    })
}

/// The file holds the packets that the command reports, and ends with a whole block. Returns their
/// number.
#[track_caller]
fn assert_written(kind: Kind, ended: &Output, file: &Path) -> Option<u64> {
    let written = written(kind, ended)?;
    if written == 0 && !file.metadata().is_ok_and(|file| file.len() > 0) {
        return Some(0);
    }
    assert_eq!(packets(file).len() as u64, written, "{kind:?}: {}", ended.stderr);
    if tools::require("capinfos") {
        assert_eq!(capinfos(file).packets, written, "{kind:?}");
    }
    Some(written)
}

/// The command failed, and its last line names one of the causes.
#[track_caller]
fn assert_told(kind: Kind, ended: &Output, causes: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{kind:?}: {}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap_or_default();
    let is_told = last.starts_with("wirelane: ") && causes.iter().any(|cause| last.contains(cause));
    assert!(is_told, "{kind:?}: {}", ended.stderr);
}
