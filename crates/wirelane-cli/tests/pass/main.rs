//! A command keeps all parts of a capture file, or reports the loss: compared with mergecap,
//! editcap, capinfos and tshark.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

#[path = "../shared/running.rs"]
#[allow(dead_code, reason = "other tests need more")]
mod running;

mod convert;
mod header;
mod merged;
mod through;
mod tls;

use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane::pcap::CaptureReader;
use wirelane_testkit::process::{output, run};
use wirelane_testkit::tools;
use wirelane_testkit::tshark::{filtered_fields, tshark_fields};

use self::shared::*;

/// A directory for the files of a test.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A capture of 5000 packets of several queues.
    fn capture(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        run(wirelane(["capture", "-q", "sim:4?count=5000&other=7&tx=5&flows=99", "-w"]).arg(&path));
        path
    }
}

/// Runs a command of Wirelane on files. Returns its standard error.
#[track_caller]
fn ours<'a>(words: impl IntoIterator<Item = &'a str>, files: &[&Path]) -> String {
    let ended = output(wirelane(words).args(files));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stderr
}

/// Each packet of a file in the form that pcap can hold, as tshark reads it: time, lengths and a
/// hash of its bytes.
#[track_caller]
fn seen(file: &Path) -> Vec<String> {
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.md5_hash"];
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-o", "frame.generate_md5_hash:TRUE", "-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field])).arg("-r").arg(file);
    run(&mut tshark).lines().map(str::to_owned).collect()
}

/// The comments of the packets of a file, each after the number of its packet.
#[track_caller]
fn packet_comments(file: &Path) -> Vec<Vec<String>> {
    filtered_fields(file, "frame.comment", &["frame.number", "frame.comment"])
}

/// The output of capinfos for a file, line by line: name and value.
#[track_caller]
fn about(file: &Path) -> Vec<(String, String)> {
    let text = run(Command::new("capinfos").arg("-A").arg(file));
    let pairs = text.lines().filter_map(|line| line.split_once([':', '=']));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// The values with this name.
#[track_caller]
fn about_its(name: &str, file: &Path) -> Vec<String> {
    about(file).into_iter().filter(|(found, _)| found == name).map(|(_, value)| value).collect()
}

/// Whether tshark, capinfos, editcap and mergecap are installed.
fn has_wireshark() -> bool {
    ["tshark", "capinfos", "editcap", "mergecap"].into_iter().all(tools::require)
}
