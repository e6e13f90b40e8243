//! `wirelane bench` becomes the program `wirelane-bench`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use wirelane_testkit::process::{copy_program, output};

use crate::shared::{WIRELANE, assert_refused};

/// A copy of the command in this directory.
fn copy(directory: &Path) -> PathBuf {
    let program = directory.join("wirelane");
    copy_program(Path::new(WIRELANE), &program);
    program
}

#[test]
fn bench_becomes_the_program_beside_the_command() {
    let directory = tempdir().unwrap();
    let program = copy(directory.path());
    let companion = directory.path().join("wirelane-bench");
    fs::write(&companion, "#!/bin/sh\necho \"$#: $*\"\nexit 7\n").unwrap();
    fs::set_permissions(&companion, fs::Permissions::from_mode(0o755)).unwrap();
    for (words, said) in [
        (&["qdisc", "--quick", "--samples", "1"][..], "4: qdisc --quick --samples 1\n"),
        (&["--help"], "1: --help\n"),
        (&["all", "--report", "a b"], "3: all --report a b\n"),
        (&[], "0: \n"),
    ] {
        let ended = output(Command::new(&program).arg("bench").args(words));
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(7), said), "{words:?}");
    }
}

#[test]
fn a_bench_that_is_missing_can_be_installed() {
    let directory = tempdir().unwrap();
    let mut command = Command::new(copy(directory.path()));
    let ended = output(command.args(["bench", "all"]).env("PATH", directory.path()));
    let parts = [
        "wirelane-bench: it is not beside wirelane, and not on the PATH",
        "install it: cargo install --path crates/wirelane-bench",
    ];
    assert_refused(&ended, 1, &parts);
}
