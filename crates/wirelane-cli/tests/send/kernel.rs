//! The kernel as the engine: when it is chosen, and that the same packets arrive as with sockets.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::tempdir;
use wirelane_testkit::privileged;

use super::wire::Wire;
use super::*;

const RECIPE: &str = "ipv4 src=10.0.0.0/24 udp src=random dst=4791 payload fill=count";

#[test]
fn privileged_the_kernel_sends_what_sockets_send() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "gro", "on"]);
    let directory = tempdir().unwrap();
    let what = ["--packet", RECIPE, "--size", "60,590,1514"];
    let file = directory.path().join("x.pcap");
    let target = format!("file:{}", file.display());
    send(&[&[target.as_str(), "--top-speed", "-c", "200"], &what[..]].concat());
    let expected = bytes(&file);
    for (engine, how) in [("kernel", &["--top-speed"][..]), ("kernel", &["--rate", "20kpps"])] {
        let path = directory.path().join("y.pcapng");
        let seen = wire.captured(&path, 200, || {
            let port = wire.port("packet:");
            let args = [&["-q", &port, "-c", "200", "--engine", engine], how, &what[..]].concat();
            let summary = sent(&summary(&wire.send(&args).wait(PATIENCE)));
            assert_eq!(summary["engine"], engine, "{summary}");
            assert_eq!(summary["totals"]["sent"], 200, "{summary}");
        });
        assert!(seen == expected, "{how:?}: not what sockets send");
    }
}

#[test]
fn privileged_the_kernel_is_chosen_where_it_can() {
    if !privileged::require() {
        return;
    }
    let wire = Wire::new(1);
    let port = wire.port("");
    let run = |more: &[&str]| {
        let args = [&["-q", &port, "-c", "200", "--packet", "udp", "--size", "60"], more].concat();
        wire.send(&args).wait(PATIENCE)
    };
    // The other end does not poll: the command uses sockets and prints why.
    let summary_of = |more: &[&str]| sent(&summary(&run(more)));
    let of_sockets = summary_of(&["--top-speed"]);
    assert_eq!(of_sockets["engine"], "sockets", "{of_sockets}");
    let refusal = of_sockets["kernel_refused"].as_str().unwrap_or_default();
    assert!(refusal.contains("does not transmit frames of programs now"), "{of_sockets}");
    let refused = run(&["--top-speed", "--engine", "kernel"]);
    assert_ne!(refused.status.code(), Some(0));
    assert!(refused.stderr.contains("the kernel cannot send this"), "{}", refused.stderr);

    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "gro", "on"]);
    assert_eq!(summary_of(&["--top-speed"])["engine"], "kernel");
    assert_eq!(summary_of(&["--rate", "10kpps"])["engine"], "kernel");
    assert_eq!(summary_of(&["--rate", "10kpps", "--engine", "sockets"])["engine"], "sockets");
}

/// Even with uneven threads, exactly the first packets are sent.
#[test]
fn privileged_the_kernel_sends_the_first_packets_by_number() {
    if !privileged::require() {
        return;
    }
    const COUNT: usize = 3000;
    let wire = Wire::new(2);
    wire.pair.b.ethtool(&["-K", &wire.pair.b.interface, "gro", "on"]);
    let directory = tempdir().unwrap();
    let path = directory.path().join("y.pcapng");
    // A busy machine, whose threads differ in speed.
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        // This runs even after a failed assertion, because the scope waits for its threads.
        let _calm = Calm(&busy);
        for _ in 0..3 {
            scope.spawn(|| {
                while busy.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        for rate in ["3kpps", "20kpps"] {
            let seen = wire.captured(&path, COUNT, || {
                let what = ["--packet", "ipv4 id=0-65535 udp dst=4791", "--size", "60"];
                let how = ["-c", "3000", "--engine", "kernel", "--rate", rate];
                let port = wire.port("");
                let args = [&["-q", port.as_str()][..], &what, &how].concat();
                let summary = sent(&summary(&wire.send(&args).wait(PATIENCE)));
                assert_eq!(summary["tx"].as_array().unwrap().len(), 2, "{summary}");
            });
            let id = |frame: &Vec<u8>| usize::from(u16::from_be_bytes([frame[18], frame[19]]));
            let mut numbers: Vec<_> = seen.iter().map(id).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..COUNT), "{rate}: not the first packets");
        }
    });
}

/// Ends the busy threads.
struct Calm<'a>(&'a AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
