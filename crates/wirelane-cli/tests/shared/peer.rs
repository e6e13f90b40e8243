//! Another program that captures into a file during a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;

use super::shared::*;

/// tcpdump or dumpcap; killed when dropped. No other file of the directory may begin with the name
/// of its file.
pub(crate) struct Peer {
    child: ChildGuard,
    file: PathBuf,
}

impl Peer {
    /// `tcpdump -i interface -w file ARGS` with a large buffer. It writes every packet at once.
    #[track_caller]
    pub(crate) fn tcpdump(ns: &Namespace, interface: &str, file: &Path, args: &[&str]) -> Self {
        let mut command = ns.command("tcpdump");
        // In immediate mode, each packet would take as much memory as the longest one.
        command.args(["-i", interface, "-s", "0", "-B", "65536", "-U", "-w"]);
        // tcpdump cannot drop its privileges for a directory of root.
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

    /// How often `mark` is in its file.
    pub(crate) fn count(&self, mark: &[u8]) -> usize {
        count(&self.file, mark)
    }

    /// Ends it once `mark` is in its file `times` times. Returns the file. The program drops
    /// packets that it has not read when it is interrupted.
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

/// How often `mark` is at the end of the file and of its rotated files.
fn count(file: &Path, mark: &[u8]) -> usize {
    let stem = file.file_stem().unwrap().as_encoded_bytes();
    let is_part = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().starts_with(stem);
    let files = fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let times = files.filter(is_part).map(|file| {
        // A file that a ring has removed has no marks.
        let written = fs::read(file).unwrap_or_default();
        let tail = &written[written.len().saturating_sub(1 << 16)..];
        tail.windows(mark.len()).filter(|bytes| *bytes == mark).count()
    });
    times.sum()
}
