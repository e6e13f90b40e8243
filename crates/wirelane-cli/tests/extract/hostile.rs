//! The owner of a store's directory puts links, FIFOs and sparse files there, while root extracts,
//! repairs or records.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use wirelane_testkit::process::{self, Output, output};

use crate::store::{PACKETS, Store};

/// Runs `wirelane` with little time and memory; `STORE` is replaced by the path.
fn bounded(store: &Store, words: &[&str]) -> Output {
    let mut command = process::bounded(env!("CARGO_BIN_EXE_wirelane"), 2_000_000);
    command.args(words.iter().map(|word| match *word {
        "STORE" => store.path().as_os_str(),
        word => word.as_ref(),
    }));
    output(&mut command)
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The file keeps its bytes, but its header states 3 GB, too.
fn grow(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let (len, huge) = (bytes.len() as u64, 3_u64 << 30);
    bytes[16..24].copy_from_slice(&huge.to_le_bytes());
    for field in 0..7 {
        let at = 64 + 48 * field;
        bytes[at + 8..at + 16].copy_from_slice(&len.to_le_bytes());
        bytes[at + 16..at + 24].copy_from_slice(&(huge - len).to_le_bytes());
    }
    let sum = crc32(&bytes[..508]);
    bytes[508..512].copy_from_slice(&sum.to_le_bytes());
    fs::write(path, bytes).unwrap();
    OpenOptions::new().write(true).open(path).unwrap().set_len(huge).unwrap();
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        let step = |sum: u32, _| (sum >> 1) ^ (0xEDB8_8320 * (sum & 1));
        (0..8).fold(sum ^ u32::from(*byte), step)
    })
}

/// Spoils each index of the store.
fn spoil(store: &Store) -> usize {
    let indexes = store.files(".index");
    for (kind, path) in (0..3).cycle().zip(&indexes) {
        match kind {
            0 => grow(path),
            1 => {
                fs::remove_file(path).unwrap();
                symlink("/dev/zero", path).unwrap();
            }
            _ => {
                fs::remove_file(path).unwrap();
                fifo(path);
            }
        }
    }
    assert!(indexes.len() >= 3, "each kind once");
    indexes.len()
}

#[test]
fn an_index_that_is_no_file_costs_neither_memory_nor_time() {
    let store = Store::new(None);
    spoil(&store);
    let out = bounded(&store, &["extract", "STORE", "udp", "--count"]);
    assert_eq!(out.stdout.trim(), (PACKETS - PACKETS / 10).to_string(), "{}", out.stderr);
    for what in ["is a link, not a regular file", "is a FIFO, not a regular file", "cut off"] {
        assert!(out.stderr.contains(what), "{what}: {}", out.stderr);
    }
    // All packets are found; the damage gives status 1.
    let out = bounded(&store, &["flows", "STORE", "--json", "udp"]);
    assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
    assert!(out.stderr.contains("12 flows of 10,800 packets"), "{}", out.stderr);
}

#[test]
fn an_index_that_is_no_file_is_made_anew_and_a_planted_link_overwrites_nothing() {
    for words in [["extract", "--reindex", "STORE"], ["record", "--check", "STORE"]] {
        let store = Store::new(None);
        let root = tempfile::tempdir().unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        spoil(&store);
        for path in store.files(".index") {
            symlink(&victim, path.with_extension("index.part")).unwrap();
        }
        let out = bounded(&store, &words);
        assert_eq!(out.status.code(), Some(0), "{words:?}: {}", out.stderr);
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{words:?}");
        for path in store.files(".index") {
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_file() && metadata.len() < 1 << 20, "{}", path.display());
        }
        let out = bounded(&store, &["extract", "STORE", "udp", "--count"]);
        assert_eq!(out.stdout.trim(), (PACKETS - PACKETS / 10).to_string(), "{}", out.stderr);
        assert!(!out.stderr.contains("regular"), "{}", out.stderr);
    }
}

#[test]
fn a_fifo_in_place_of_a_file_is_refused_at_once() {
    for kind in [".pcapng", "wirelane.store"] {
        let store = Store::new(None);
        let path = store.files(kind).remove(0);
        fs::remove_file(&path).unwrap();
        fifo(&path);
        for words in [
            &["extract", "STORE", "udp", "--count"][..],
            &["extract", "STORE", "udp", "-w", "-"],
            &["extract", "STORE", "--list"],
            &["record", "--check", "STORE"],
            &["flows", "STORE", "--json"],
            &["pin", "STORE", "udp", "--all"],
        ] {
            let out = bounded(&store, words);
            assert_eq!(out.status.code(), Some(1), "{kind} {words:?}: {}", out.stderr);
            assert!(out.stderr.contains("a FIFO, not a regular file"), "{words:?}: {}", out.stderr);
        }
    }
}

#[test]
fn a_recorder_overwrites_nothing_that_a_planted_link_leads_to() {
    for hard in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let victim = root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let directory = root.path().join("store");
        fs::create_dir(&directory).unwrap();
        let planted = directory.join("recorder.lock");
        match hard {
            true => fs::hard_link(&victim, &planted).unwrap(),
            false => symlink(&victim, &planted).unwrap(),
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
        command.args(["record", "sim:1?count=10"]).arg(&directory);
        let out = output(command.args(["-q", "--keep-privileges"]));
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "hard: {hard}");
        match hard {
            // A new file has replaced it.
            true => assert_eq!(out.status.code(), Some(0), "{}", out.stderr),
            false => {
                assert_eq!(out.status.code(), Some(1), "{}", out.stderr);
                assert!(out.stderr.contains("recorder.lock"), "{}", out.stderr);
            }
        }
    }
}

/// A backup by `cp -al`: recording into one store does not change the other.
#[test]
fn a_store_whose_files_have_hard_links_is_recorded_into() {
    let root = tempfile::tempdir().unwrap();
    let (store, copy) = (root.path().join("store"), root.path().join("copy"));
    let record = |directory: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
        command.args(["record", "sim:1?count=1000", "-q"]).arg(directory);
        let out = output(&mut command);
        assert_eq!((out.status.code(), out.stderr.as_str()), (Some(0), ""), "{directory:?}");
    };
    let count = |directory: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane"));
        let out = output(command.arg("extract").arg(directory).args(["--count", "-q"]));
        out.stdout.trim().to_owned()
    };
    record(&store);
    let copied = output(Command::new("cp").arg("-al").args([&store, &copy]));
    assert_eq!(copied.status.code(), Some(0), "{}", copied.stderr);
    record(&store);
    assert_eq!((count(&store), count(&copy)), ("2000".into(), "1000".into()));
    record(&copy);
    record(&copy);
    assert_eq!((count(&store), count(&copy)), ("2000".into(), "3000".into()));
}
