//! Boards of other programs cost `wirelane stats` little memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use wirelane_testkit::process::bounded;

use super::*;

/// A board of this process whose header states `length` bytes of text, with `text` as its content.
fn board(length: u32, text: &[u8]) -> File {
    let file = File::from(memfd_create("wirelane-board", MemfdFlags::CLOEXEC).unwrap());
    let mut header = [0; 64];
    header[..8].copy_from_slice(&u64::from_be_bytes(*b"WLBOARD1").to_ne_bytes());
    header[8..12].copy_from_slice(&std::process::id().to_ne_bytes());
    header[12..16].copy_from_slice(&length.to_ne_bytes());
    file.write_all_at(&header, 0).unwrap();
    file.write_all_at(text, 64).unwrap();
    file.set_len(64 + u64::from(length)).unwrap();
    file
}

#[test]
fn boards_of_others_cost_no_memory() {
    let sparse: Vec<_> = (0..100).map(|_| board(16 << 20, b"")).collect();
    let whole = vec![b' '; 1 << 20];
    let full: Vec<_> = (0..50).map(|_| board(1 << 20, &whole)).collect();
    for pid in [None, Some(std::process::id().to_string())] {
        let out = output(bounded(WIRELANE, 600_000).arg("stats").args(&pid));
        assert!(matches!(out.status.code(), Some(0 | 1)), "{pid:?} {}: {}", out.status, out.stderr);
        assert!(!out.stderr.contains("memory allocation"), "{}", out.stderr);
    }
    drop((sparse, full));
}
