//! Commands in a lab: their exit status, signals and surroundings.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::Signal;
use wirelane_testkit::privileged;
use wirelane_testkit::process::{ChildGuard, output, run};

use super::bed::Bed;
use super::shared::{PATIENCE, assert_refused};

#[test]
fn privileged_the_status_is_that_of_the_command() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    for status in [0, 1, 7, 255] {
        let ended = output(&mut bed.exec("a", ["sh", "-c", &format!("exit {status}")]));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(status), ""));
    }
    let ended = output(&mut bed.exec("a", ["wirelane-no-such-command"]));
    assert_refused(&ended, 127, &["command wirelane-no-such-command", "ENOENT"]);
    let ended = output(&mut bed.exec("a", ["/etc"]));
    assert_refused(&ended, 126, &["command /etc", "EACCES"]);
}

#[test]
fn privileged_signals_and_streams_are_those_of_the_command() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let script = "trap 'echo told; exit 4' USR1; echo ready; while :; do sleep 0.05; done";
    let mut child = ChildGuard::spawn(&mut bed.exec("b", ["sh", "-c", script]));
    child.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    child.signal(Signal::USR1);
    let ended = child.wait(PATIENCE);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(4), "ready\ntold\n"));

    let mut child =
        ChildGuard::spawn(&mut bed.exec("b", ["sh", "-c", "echo ready; exec sleep 600"]));
    child.wait_until(PATIENCE, |child| child.stdout().contains("ready"));
    child.signal(Signal::TERM);
    assert_eq!(child.wait(PATIENCE).status.signal(), Some(15));

    // A writer whose reader closes the pipe gets SIGPIPE, as outside a lab.
    let ended = output(&mut bed.exec("b", ["sh", "-c", "(yes; echo $? >&2) | head -n 1"]));
    assert_eq!((ended.stdout.as_str(), ended.stderr.trim()), ("y\n", "141"));

    let mut child =
        bed.exec("a", ["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"through\n");
}

/// As in `ip netns exec`: signals that nohup or a script ignores stay ignored in the command.
#[test]
fn privileged_ignored_signals_stay_ignored() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let ignored = |signals: &str| {
        let exec = bed.exec("a", ["grep", "SigIgn", "/proc/self/status"]);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "sh"]);
        let mask = run(command.arg(exec.get_program()).args(exec.get_args()));
        let mask = mask.trim().rsplit('\t').next().map(|mask| u64::from_str_radix(mask, 16));
        let is_ignored =
            |signal: Signal| mask.clone().unwrap().unwrap() & 1 << (signal.as_raw() - 1) != 0;
        [Signal::INT, Signal::QUIT, Signal::HUP].map(is_ignored)
    };
    assert_eq!(ignored("HUP"), [false, false, true]);
    assert_eq!(ignored("INT QUIT"), [true, true, false]);
}

#[test]
fn privileged_arguments_are_left_alone() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let print = "for word; do echo \"[$word]\"; done";
    let words = ["--name", "x", "-h", "--", "a b", ""];
    let out = run(bed.exec("a", ["sh", "-c", print, "sh"]).args(words));
    assert_eq!(out, "[--name]\n[x]\n[-h]\n[--]\n[a b]\n[]\n");
}

#[test]
fn privileged_sys_shows_the_interfaces_inside() {
    if !privileged::require() {
        return;
    }
    let bed = Bed::new();
    bed.up(&[]);
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert_eq!(run(&mut bed.exec("b", ["ls", "/sys/class/net"])), "lo\nwl-b\n");
    let mounted = "grep -o ' /sys/[^ ]*' /proc/self/mountinfo | sort -u";
    let outside = run(std::process::Command::new("sh").args(["-c", mounted]));
    assert_eq!(run(&mut bed.exec("b", ["sh", "-c", mounted])), outside);
    // The host's mount table is unchanged, apart from namespaces of other tests.
    let lines = |table: &str| -> Vec<String> {
        table.lines().filter(|line| !line.contains(" nsfs ")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&std::fs::read_to_string("/proc/self/mountinfo").unwrap()), lines(&before));
}
