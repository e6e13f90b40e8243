//! Interfaces that are removed while they are in use.

use rustix::process::Signal;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::privileged;
use wirelane_testkit::veth::VethPair;

use super::*;

/// Waits until the command answers requests, which it does once it receives packets.
#[track_caller]
fn wait_until_ready(child: &mut ChildGuard) {
    let pid = child.id().to_string();
    child.wait_until(PATIENCE, |_| output(&mut wirelane(["stats", &pid])).status.success());
}

/// The command ends by itself, or continues until the first signal. If it reports an error, it
/// names the interface.
#[test]
fn privileged_an_interface_vanishes() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    for backend in ["packet", "xdp"] {
        for (kind, sends) in [(Kind::Capture, false), (Kind::Forward, false), (Kind::Forward, true)]
        {
            let ns = Namespace::new();
            let pair = VethPair::new(&ns, &ns, 2, 1500);
            let name = pair.a.interface.clone();
            let file = bed.path(&format!("{backend}{kind:?}{sends}.pcapng"));
            let (port, path) = (format!("{backend}:{name}"), file.display().to_string());
            let args = match (kind, sends) {
                (Kind::Capture, _) => words(&["capture", "-q", "--json", &port, "-w", &path]),
                (_, false) => words(&["forward", "-q", "--json", &port, &format!("file:{path}")]),
                _ => {
                    let source = "sim:2?rate=20kpps";
                    words(&["forward", "-q", "--json", "--one-way", source, &port])
                }
            };
            let mut command = ns.command(WIRELANE);
            command.args(args);
            if backend == "xdp" && !sends {
                command.arg("--all");
            }
            let mut child = ChildGuard::spawn(&mut command);
            wait_until_ready(&mut child);
            ns.run("ip", ["link", "del", &name]);
            let struck = Instant::now();
            while child.is_running() && struck.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(10));
            }
            child.signal(Signal::INT);
            let ended = bed.end(child);
            if !ended.status.success() {
                assert_told(kind, &ended, &[&name]);
            }
            if sends {
                assert!(written(kind, &ended).is_some(), "{}", ended.stderr);
            } else {
                assert!(assert_written(kind, &ended, &file).is_some(), "{}", ended.stderr);
            }
            assert!(!ended.stderr.contains("exceed its MTU"), "{}", ended.stderr);
        }
    }
}
