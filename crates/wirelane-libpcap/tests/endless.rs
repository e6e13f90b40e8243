//! A call that reads all packets ends, also while packets arrive faster than it reads.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::tempdir_in;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::{c, tools};

#[test]
fn every_call_ends_while_packets_never_do() {
    if !tools::require("gcc") {
        return;
    }
    let directory = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = directory.path().join("endless");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/endless.c");
    c::compile("gcc", &program, [source, PathBuf::from("-lpcap")]);
    for device in ["wirelane:sim:1?rate=max", "wirelane:sim:4?rate=max"] {
        // All packets, and none.
        for (filter, next) in [("udp", "next 1"), ("port 1", "next 0")] {
            let mut command = Command::new(&program);
            Library::Ours.of(&mut command).args([device, filter]);
            let ended = ChildGuard::spawn(&mut command).wait(Duration::from_secs(60));
            assert!(ended.status.success(), "{device} {filter}: {}", ended.stdout);
            let lines: Vec<_> = ended.stdout.lines().collect();
            assert_eq!(lines.len(), 8, "{device} {filter}: {}", ended.stdout);
            for line in lines {
                let counts = line.strip_prefix("same ").map(|count| count.parse::<u32>().unwrap());
                match counts {
                    Some(count) => assert_eq!(count > 0, next == "next 1", "{device} {filter}"),
                    None => assert_eq!(line, next, "{device} {filter}"),
                }
            }
        }
    }
}
