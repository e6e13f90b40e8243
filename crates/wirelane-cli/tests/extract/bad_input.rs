//! An impossible request gets an error on one line, and destroys nothing.

use std::ffi::OsStr;
use std::fs;

use crate::store::{Store, extract, wirelane};

#[test]
fn wrong_arguments_are_status_2() {
    let store = Store::new(None);
    for (arguments, parts) in [
        ("", &["arguments", "required"][..]),
        ("--count --list", &["cannot be used"]),
        ("--count --from yesterday", &["--from", "14:03", "RFC 3339"]),
        ("--count --from -5m --to -6m", &["is not after the start"]),
        ("--json -w -", &["standard output"]),
        ("--count -c 5", &["-c", "-w FILE"]),
        ("--list --compress lz4", &["--compress", "-w FILE"]),
        ("--rate 0 --count", &["--rate"]),
        ("tcp prot 80 --count", &["syntax error", "prot"]),
        ("host and --count", &["syntax error"]),
        ("--list --flow", &["cannot be used"]),
    ] {
        let out = extract(&store, arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments}: {}", out.stderr);
        assert_eq!(out.stdout, "");
        for part in parts {
            assert!(out.stderr.contains(part), "{arguments}: {}", out.stderr);
        }
    }
    let out = extract(&store, "tcp prot 80 --count");
    assert!(out.stderr.starts_with("tcp prot 80\n    ^~~~\n"), "{}", out.stderr);
}

#[test]
fn what_is_no_store_is_status_1() {
    let folder = tempfile::tempdir().unwrap();
    for command in [["extract", "--count"], ["pin", "--all"]] {
        let missing = folder.path().join("missing");
        for path in [folder.path(), &missing] {
            let [command, option] = command;
            let out = wirelane([OsStr::new(command), path.as_os_str()], option);
            assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
            assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
            assert!(out.stderr.contains(path.to_str().unwrap()), "{}", out.stderr);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
    }
}

#[test]
fn a_segment_is_not_written_over() {
    let store = Store::new(None);
    let files = [store.files(".pcapng"), store.files(".index")].concat();
    let before: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    for path in &files {
        let out = extract(&store, &format!("host 10.0.0.1 -w {}", path.display()));
        assert_ne!(out.status.code(), Some(0));
        assert!(out.stderr.contains(path.to_str().unwrap()), "{}", out.stderr);
    }
    let after: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(before == after);
}

#[test]
fn a_full_disk_is_an_error() {
    let store = Store::new(None);
    let out = extract(&store, "-w /dev/full");
    assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
    assert!(out.stderr.contains("/dev/full"), "{}", out.stderr);
}
