//! Permissions of output files: for their owner only, unless options say otherwise.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tempfile::tempdir;
use wirelane_testkit::{privileged, process};

use super::*;

/// A group without members.
const GROUP: u32 = 1_000_003;
const NOBODY: u32 = 65_534;

/// Permissions of the files in a directory, which must be some.
#[track_caller]
fn modes(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).unwrap();
    let modes: Vec<_> =
        entries.map(|entry| entry.unwrap().metadata().unwrap().mode() & 0o7777).collect();
    assert!(!modes.is_empty());
    modes
}

/// Runs the command with umask 0.
fn open_minded(args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", WIRELANE]).args(args);
    command
}

#[test]
fn files_are_for_their_owner_unless_a_mode_is_given() {
    let given = tempdir().unwrap();
    let input = given.path().join("in.pcapng");
    let store = given.path().join("store");
    let (input, store) = (input.to_str().unwrap(), store.to_str().unwrap());
    process::run(&mut open_minded(&["capture", "-q", "sim:2?count=200", "-w", input]));
    process::run(&mut open_minded(&["record", "-q", "sim:2?count=200", store]));
    for command in [
        &["capture", "-q", "sim:2?count=200", "-w", "FILE"][..],
        &["capture", "-q", "sim:2?count=200", "--split", "-w", "FILE"],
        &["capture", "-q", "sim:2?count=200", "--rotate-packets", "20", "-w", "FILE.gz"],
        &["merge", input, input, "-w", "FILE.zst"],
        &["convert", input, "FILE"],
        &["extract", "-q", store, "-w", "FILE"],
        &["forward", "-q", "sim:1?count=20", "file:FILE"],
    ] {
        for (told, mode) in [(None, 0o600), (Some("0644"), 0o644), (Some("0660"), 0o660)] {
            if told.is_some() && command[0] == "forward" {
                continue;
            }
            let directory = tempdir().unwrap();
            let file = directory.path().join("x.pcapng");
            let named = |word: &&str| word.replace("FILE", file.to_str().unwrap());
            let mut words: Vec<_> = command.iter().map(named).collect();
            words.extend(told.map(|told| format!("--mode={told}")));
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            process::run(&mut open_minded(&words));
            let modes = modes(directory.path());
            assert!(modes.iter().all(|found| *found == mode), "{words:?}: {modes:?}");
        }
    }
}

#[test]
fn a_file_that_is_there_keeps_its_permissions_unless_told() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    capture(&["sim:1?count=1", "-w", file.to_str().unwrap()]);
    assert_eq!(modes(directory.path()), [0o604]);
    capture(&["sim:1?count=1", "-w", file.to_str().unwrap(), "--mode", "0640"]);
    assert_eq!(modes(directory.path()), [0o640]);
    assert_eq!(packets(&file).len(), 1);
}

#[test]
fn a_store_and_its_directory() {
    for (told, of_files, of_directory) in
        [(None, 0o600, 0o700), (Some("0644"), 0o644, 0o755), (Some("0660"), 0o660, 0o770)]
    {
        let directory = tempdir().unwrap();
        let store = directory.path().join("store");
        let mut command = wirelane(["record", "-q", "sim:2?count=100"]);
        process::run(command.arg(&store).args(told.map(|told| format!("--mode={told}"))));
        assert_eq!(modes(directory.path()), [of_directory]);
        let modes = modes(&store);
        assert!(modes.iter().all(|mode| *mode == of_files), "{modes:?}");
    }
}

/// Also after the command has dropped the privilege to give files away.
#[test]
fn privileged_files_of_a_group() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    let file = directory.path().join("x.pcapng");
    let (user, group) = (format!("{NOBODY}:{NOBODY}"), GROUP.to_string());
    let args = ["-w", file.to_str().unwrap(), "-Z", &user, "--group", &group];
    capture(&[&["sim:2?count=200", "--rotate-packets", "20"], &args[..]].concat());
    let files: Vec<_> = fs::read_dir(&directory).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 10);
    for file in &files {
        let found = file.metadata().unwrap();
        assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o640, NOBODY, GROUP));
    }
    let merged = directory.path().join("merged.pcap");
    let args = ["--group", &group, "--mode", "0660", "-w", merged.to_str().unwrap()];
    process::run(wirelane(["merge"]).arg(files[0].path()).args(args));
    let found = merged.metadata().unwrap();
    assert_eq!((found.mode() & 0o7777, found.gid()), (0o660, GROUP));
}

/// Giving files to a group without membership is an error, and leaves no readable file.
#[test]
fn privileged_only_members_give_files_to_a_group() {
    if !privileged::require() {
        return;
    }
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let mut command = Command::new("setpriv");
    // Still root by name, so that the program can be read in any directory.
    command.args(["--bounding-set=-all", "--inh-caps=-all", WIRELANE, "capture", "sim:1?count=1"]);
    command.args(["--group", &GROUP.to_string(), "-w"]).arg(&file);
    let ended = output(&mut command);
    assert_refused(&ended, 1, &["group 1000003", "EPERM", "member of the group"]);
    assert!(!file.exists());
}

#[test]
fn what_is_wrong_is_named() {
    refused(&["capture", "sim:1?count=1", "--mode", "0640"], 2, &["--mode", "-w FILE"]);
    refused(&["capture", "sim:1?count=1", "--group", "0"], 2, &["--group", "-w FILE"]);
    for mode in ["0755", "rw", "0440"] {
        let args = ["capture", "sim:1?count=1", "-w", "x.pcap", "--mode", mode];
        refused(&args, 2, &["--mode", mode, "0640"]);
    }
    let args = ["capture", "sim:1?count=1", "-w", "x.pcap", "--group", "no such"];
    refused(&args, 2, &["group 'no such'"]);
}
