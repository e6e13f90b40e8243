//! Failures are reported, and their packets counted.

use std::fs;
use std::process::Command;

use serde_json::Value;
use wirelane_testkit::{privileged, process};

use super::{assert_conserved, capture, count, flows, rows, text};
use crate::flows::wirelane;

#[test]
fn what_comes_before_damage_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 1000);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    // `wirelane-query` reads a whole file by itself. With a filter, it gets packets by a pipe.
    for (number, filter) in [&[][..], &["ip or ip6 or vlan"]].into_iter().enumerate() {
        let to = directory.path().join(format!("rows-{number}/"));
        let ended = flows(&[&["--json", "-w", text(&to), text(&file)], filter].concat());
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(text(&file)), "{}", ended.stderr);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_conserved(&summary);
        let written = count(&rows(&to));
        assert!((300..700).contains(&written), "{written}");
        assert_eq!(summary["packets"]["exports"][0]["packets"], written);
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("a.pcap"), directory.path().join("rows/"));
    fs::write(&file, "no capture at all").unwrap();
    let ended = flows(&["-w", text(&to), text(&file)]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains(text(&file)), "{}", ended.stderr);
    assert!(!to.exists());
}

#[test]
fn packets_for_a_store_that_takes_nothing_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 100);
    let to = directory.path().join("rows");
    fs::create_dir(&to).unwrap();
    // A file in place of a directory.
    fs::write(to.join("date=2026-11-23"), "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    command.args(["sink", "--packets", "--json", "--patience", "0s", "-r"]).arg(&file).arg(&to);
    let ended = process::output(&mut command);
    assert_eq!(ended.status.code(), Some(1));
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["packets"], &told["lost"]), (&0.into(), &100.into()), "{told}");
    let said = &ended.stderr;
    assert!(said.contains("100 of 100 packets were not written"), "{said}");
}

#[test]
fn privileged_a_full_disk_is_said_and_packets_are_counted() {
    if !privileged::require() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("disk");
    fs::create_dir(&disk).unwrap();
    // The mount disappears with its namespace.
    let script = "mount -t tmpfs -o size=256k none \"$1\" && shift && exec \"$@\"";
    let run = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(&disk).arg(wirelane().get_program());
        process::output(command.args(["flows", "--packets", "--json"]).args(args))
    };
    let port = "sim:1?count=100000&flows=60000";
    let file = format!("{}/rows.csv", disk.display());
    let ended = run(&[port, "-w", &file]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left on device"), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_conserved(&summary);
    assert!(summary["packets"]["exports"][0]["lost"].as_u64() > Some(0), "{summary}");
}
