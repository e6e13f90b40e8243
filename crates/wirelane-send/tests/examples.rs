//! Runs the compiled example.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::PathBuf;
use std::process::Command;

use wirelane_testkit::process::output;

/// The path of an example program. Cargo builds it with the tests of the package, next to them.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.is_file(), "{}: cargo build -p wirelane-send --examples", program.display());
    program
}

#[test]
fn send_sends_what_is_described_at_its_rate() {
    let args = ["sim:2", "ipv4 dst=10.0.0.0/24 udp dst=53", "1kpps", "1"];
    let ended = output(Command::new(example("send")).args(args));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let mut lines = ended.stdout.lines();
    assert_eq!(lines.next(), Some("1000 sent"));
    assert!(lines.next().is_some_and(|line| line.starts_with("rate error ")), "{}", ended.stdout);
}

#[test]
fn send_says_what_is_wrong() {
    let cases: [(&[&str], &str); 3] = [
        (&["sim:1"], "usage"),
        (&["sim:1", "ipx", "1kpps", "1"], "ipx"),
        (&["sim:1", "ipv4 udp", "80%", "1"], "unknown speed"),
    ];
    for (args, words) in cases {
        let ended = output(Command::new(example("send")).args(args));
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}
