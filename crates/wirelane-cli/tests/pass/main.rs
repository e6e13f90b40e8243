//! Nothing of a capture file is lost on its way through a command, or it is told: beside mergecap, editcap, capinfos and
//! tshark.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod convert;
mod through;

use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane::pcap::CaptureReader;
use wirelane_testkit::process::{output, run};
use wirelane_testkit::tools;

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

    /// A capture of some thousand packets of several queues.
    fn capture(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        run(wirelane(["capture", "-q", "sim:4?count=5000&other=7&tx=5&flows=99", "-w"]).arg(&path));
        path
    }
}

/// Runs a command of ours on files: what it says.
#[track_caller]
fn ours<'a>(words: impl IntoIterator<Item = &'a str>, files: &[&Path]) -> String {
    let ended = output(wirelane(words).args(files));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stderr
}

/// Some fields of each packet, as tshark reads them: a line per packet.
#[track_caller]
fn fields(file: &Path, options: &[&str], fields: &[&str]) -> Vec<String> {
    let names = fields.iter().flat_map(|field| ["-e", field]);
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields"]).args(names).args(options).arg("-r").arg(file);
    run(&mut tshark).lines().map(str::to_owned).collect()
}

/// All that pcap can say of a packet.
const PACKET: [&str; 4] = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.md5_hash"];

/// The packets of a file, as tshark reads them.
fn seen(file: &Path) -> Vec<String> {
    fields(file, &["-o", "frame.generate_md5_hash:TRUE"], &PACKET)
}

/// Whether tshark, capinfos, editcap and mergecap are there.
fn has_wireshark() -> bool {
    ["tshark", "capinfos", "editcap", "mergecap"].into_iter().all(tools::require)
}
