//! Captures that start with ignored signals: in the background of a script, or under nohup.

use rustix::process::Signal;
use wirelane_testkit::{privileged, tools};

use super::*;

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// A command that starts with these signals ignored.
fn ignoring(signals: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "sh"]).args(words);
    command
}

/// Which of [`SIGNALS`] a process catches.
fn caught(pid: u32) -> [bool; 3] {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
    SIGNALS.map(|signal| mask & 1 << (signal.as_raw() - 1) != 0)
}

/// SIGTERM and SIGINT end it.
#[test]
fn a_capture_in_the_background_of_a_script_ends_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let words = [WIRELANE, "capture", "-q", "--json", "sim:2?rate=10kpps"];
        let child = ChildGuard::spawn(&mut ignoring("INT QUIT", &words));
        let mut capture = Running { child };
        capture.wait_until_ready();
        capture.wait_for(100);
        capture.child.signal(signal);
        summary(&capture.child.wait(PATIENCE));
    }
}

/// A signal that is ignored at the start is treated as tcpdump treats it: SIGINT ends the capture
/// anyway, SIGHUP does not.
#[test]
fn privileged_ignored_signals_are_treated_as_tcpdump_does() {
    if !privileged::require() || !tools::require("tcpdump") {
        return;
    }
    let ns = Namespace::new();
    let inside = format!("--net={}", ns.path().display());
    for (ignored, expected) in [
        ("INT QUIT", [true, true, true]),
        ("INT QUIT HUP", [true, true, false]),
        ("HUP", [true, true, false]),
    ] {
        for words in [
            &["tcpdump", "-i", "lo", "-w", "/dev/null"][..],
            &[WIRELANE, "capture", "packet:lo", "-q", "-w", "/dev/null"],
        ] {
            let words = [&["nsenter", &inside], words].concat();
            let mut child = ChildGuard::spawn(&mut ignoring(ignored, &words));
            // SIGTERM is caught in any case.
            child.wait_until(PATIENCE, |child| caught(child.id()) == expected);
            child.signal(Signal::INT);
            let ended = child.wait(PATIENCE);
            assert_eq!(ended.status.code(), Some(0), "{words:?}: {}", ended.stderr);
        }
    }
}
