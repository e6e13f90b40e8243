//! Another program that captures into a file while a test goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;

use super::shared::*;

/// tcpdump or dumpcap; killed when dropped. No other file of the directory begins with the name of
/// its file.
pub(crate) struct Peer {
    child: ChildGuard,
    file: PathBuf,
}

impl Peer {
    /// `tcpdump -i interface -w file ARGS`, with memory for everything and every packet in the file
    /// at once.
    #[track_caller]
    pub(crate) fn tcpdump(ns: &Namespace, interface: &str, file: &Path, args: &[&str]) -> Self {
        let mut command = ns.command("tcpdump");
        // In immediate mode each packet would take as much of the memory as the longest.
        command.args(["-i", interface, "-s", "0", "-B", "65536", "-U", "-w"]);
        // It cannot give up its privileges for a directory of root's.
        command.arg(file).args(["-Z", "root", "--time-stamp-precision", "nano"]).args(args);
        Self::start(&mut command, file, "listening on")
    }

    /// `dumpcap -i interface -w file ARGS`.
    #[track_caller]
    pub(crate) fn dumpcap(ns: &Namespace, interface: &str, file: &Path, args: &[&str]) -> Self {
        let mut command = ns.command("dumpcap");
        command.args(["-q", "-i", interface, "-s", "0", "-B", "64", "-w"]).arg(file).args(args);
        Self::start(&mut command, file, "File: ")
    }

    #[track_caller]
    fn start(command: &mut Command, file: &Path, ready: &str) -> Self {
        let mut child = ChildGuard::spawn(command);
        child.wait_until(PATIENCE, |child| child.stderr().contains(ready));
        Self { child, file: file.to_owned() }
    }

    /// How often these bytes are in its file already.
    pub(crate) fn count(&self, mark: &[u8]) -> usize {
        count(&self.file, mark)
    }

    /// Ends it once these bytes are in its file so often; returns the file. What it has not looked
    /// at when it is interrupted it leaves.
    #[track_caller]
    pub(crate) fn finish(mut self, mark: &[u8], times: usize) -> PathBuf {
        let file = &self.file;
        self.child.wait_until(PATIENCE, |_| count(file, mark) >= times);
        self.child.interrupt();
        let ended = self.child.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let lost_none = ["\n0 packets dropped by kernel", "(pcap:0/dumpcap:0/"];
        assert!(lost_none.iter().any(|words| ended.stderr.contains(words)), "{}", ended.stderr);
        self.file
    }
}

/// How often these bytes are at the end of the file and of those that it was rotated to.
fn count(file: &Path, mark: &[u8]) -> usize {
    let stem = file.file_stem().unwrap().as_encoded_bytes();
    let is_part = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().starts_with(stem);
    let files = fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let times = files.filter(is_part).map(|file| {
        // One that a ring has removed by now has none.
        let written = fs::read(file).unwrap_or_default();
        let tail = &written[written.len().saturating_sub(1 << 16)..];
        tail.windows(mark.len()).filter(|bytes| *bytes == mark).count()
    });
    times.sum()
}
