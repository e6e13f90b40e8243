//! Packets above 128 KiB, such as those of BIG TCP.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::tempdir_in;
use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::{c, privileged, tools};

#[test]
fn privileged_packets_above_128_kib_come_whole() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let directory = tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = directory.path().join("long");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/long.c");
    c::compile("gcc", &program, [source, PathBuf::from("-lpcap")]);
    let ns = Namespace::new();
    ns.run("ip", ["link", "set", "lo", "mtu", "250000", "up"]);
    for mode in ["usual", "immediate"] {
        let mut command = ns.command(&program);
        Library::Ours.of(&mut command).arg(mode);
        let ended = ChildGuard::spawn(&mut command).wait(Duration::from_secs(30));
        let lengths = [60, 131_008, 131_009, 150_000, 200_000];
        let expected: String = lengths.map(|length| format!("{length} {length}\n")).concat();
        assert_eq!(ended.stdout, expected, "{mode}: {}", ended.stderr);
    }
}
