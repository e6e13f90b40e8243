//! `wirelane bench` as a user runs it: this program, which runs the command in its directory.
#![allow(clippy::unwrap_used)]

mod all;
mod broken;
mod compare;
mod flows;
mod gso;
mod page;
mod peers;
mod ports;
mod qdisc;
mod scaling;
mod sockets;
mod wired;

use std::path::PathBuf;
use std::process::Command;

use wirelane_testkit::process::{Output, output};

const BENCH: &str = env!("CARGO_BIN_EXE_wirelane-bench");

fn bench(args: &[&str]) -> Output {
    output(Command::new(BENCH).args(args))
}

/// The command that it runs.
fn wirelane() -> PathBuf {
    let path = PathBuf::from(BENCH).with_file_name("wirelane");
    assert!(path.is_file(), "no {}: cargo build -p wirelane-cli", path.display());
    path
}

#[test]
fn help_and_wrong_usage() {
    for (suite, options) in [
        ("qdisc", &["--quick", "--json", "--samples", "--port"][..]),
        ("capture", &["--quick", "--json", "--samples", "--disk", "--port", "--all"]),
        (
            "gso",
            &[
                "--quick",
                "--json",
                "--samples",
                "--cpu",
                "--case",
                "--offload",
                "--seconds",
                "--flows",
                "--vectors",
            ],
        ),
        ("noloss", &["--quick", "--json", "--samples", "--size", "--seconds", "--port", "--load"]),
        ("send", &["--json", "--samples", "--case", "--size", "--drift", "--port", "--count-at"]),
        ("scaling", &["--quick", "--json", "--samples", "--case", "--disk", "--port", "--all"]),
        ("record", &["--json", "--samples", "--case", "--disk", "--store", "--port", "--load"]),
        ("libpcap", &["--quick", "--json", "--samples", "--case", "--port", "--load"]),
        ("flows", &["--quick", "--json", "--samples", "--case", "--packets", "--port", "--load"]),
        ("all", &["--quick", "--json", "--samples", "--suite", "--report"]),
        (
            "sockets",
            &["--quick", "--json", "--samples", "--port", "--case", "--size", "--seconds", "--all"],
        ),
    ] {
        let help = bench(&[suite, "--help"]);
        assert!(help.status.success());
        for option in options {
            assert!(help.stdout.contains(option), "{}", help.stdout);
        }
    }
    for args in [
        &["nothing"][..],
        &["gso", "--cpu", "4"],
        &["gso", "--case", "tcp"],
        &["gso", "--port", "sim"],
        &["gso", "--flows", "0"],
        &["gso", "--vectors", "sse"],
        &["qdisc", "--samples", "0"],
        &["qdisc", "more"],
        &["sockets", "--size", "59"],
        &["sockets", "--case", "rx"],
        &["sockets", "--case", "xdp-drop", "--port", "sim:1"],
        &["sockets", "--case", "xdp-redirect", "--port", "sim:1"],
        &["scaling", "--port", "sim:1"],
        &["scaling", "--port", "packet:lo@0"],
        &["scaling", "--port", "packet:lo", "--case", "rx"],
        &["qdisc", "--port", "sim:1"],
        &["capture", "--all"],
        &["sockets", "--case", "rxdrop-paced", "--port", "sim:1"],
        &["sockets", "--case", "rxdrop-paced", "--rate", "1k"],
        &["sockets", "--port", "nothing:x"],
        &["sockets", "--port", "sim:1?size=64"],
        &["sockets", "--port", "file:x.pcap"],
        &["sockets", "--seconds", "0s"],
        &["noloss", "--size", "63"],
        &["record", "--case", "none"],
        &["libpcap", "--case", "rx"],
        &["record", "--store", "much"],
        &["send", "--size", "59"],
        &["send", "--case", "txpush"],
        &["all", "--quick"],
        &["all", "--report", "x", "--suite", "none"],
    ] {
        let ended = bench(args);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}
