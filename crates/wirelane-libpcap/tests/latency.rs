//! The time until a program receives a packet.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use wirelane_testkit::libpcap::Library;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::tap::MultiQueueTap;
use wirelane_testkit::{c, packets, privileged, tools};

const PATIENCE: Duration = Duration::from_secs(60);
/// The most packets that may be late on a busy machine before one must be in time.
const TRIES: u64 = 2000;
/// In blocks, a packet would take at least a millisecond, and another one to wait for other rings.
const SOON: i64 = 900_000;

#[test]
fn privileged_packets_come_one_by_one_in_immediate_mode_and_with_short_timeouts() {
    if !privileged::require() || !tools::require("gcc") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/latency.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latency");
    c::compile("gcc", &program, [source.as_os_str(), "-lpcap".as_ref()]);
    let ns = Namespace::new();
    let tap = MultiQueueTap::new(&ns, "wl-late", 4);
    for [timeout, immediate] in [["1000", "1"], ["1", "0"], ["4", "0"]] {
        let mut command = ns.command(&program);
        Library::Ours.of(&mut command).args(["wl-late", timeout, immediate]);
        let mut process = ChildGuard::spawn(&mut command);
        process.wait_until(PATIENCE, |process| process.stdout().starts_with("ready\n"));
        let ages = |process: &ChildGuard| -> Vec<i64> {
            let lines = process.stdout();
            lines.lines().skip(1).filter_map(|line| line.parse().ok()).collect()
        };
        let came = |n: u64| {
            tap.write((n % 4) as usize, &packets::udp4(n).build());
            let until = Instant::now() + PATIENCE;
            // The last line may be incomplete.
            while ages(&process).len() <= n as usize {
                assert!(Instant::now() < until, "{}", process.stderr());
                std::thread::sleep(Duration::from_micros(500));
            }
            ages(&process).iter().any(|age| *age < SOON)
        };
        assert!((0..TRIES).any(came), "{timeout} ms, {immediate}: {:?}", ages(&process));
        process.interrupt();
    }
}
