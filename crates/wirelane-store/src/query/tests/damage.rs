//! Damaged stores: the packets found are correct, and the missing parts are reported.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::Index as Choice;
use wirelane_pcap::Compression;
use wirelane_testkit::packets;

use super::ask;
use super::stores::{Packet, SegmentFile, in_order, store};
use crate::query::Query;

fn segments(kind: usize) -> Vec<SegmentFile> {
    let packet = |at: u64| {
        let data = packets::udp4(at).flow(at as u16 % 50).length(60 + at as usize % 400).build();
        Packet::new(at as u32 % 2, 1000 + at, &data)
    };
    let packets: Vec<_> = (0..400).map(packet).collect();
    let extents: Vec<_> = packets.chunks(20).map(<[_]>::to_vec).collect();
    let segment = |(number, extents): (u64, &[Vec<Packet>])| SegmentFile {
        compression: [None, Some(Compression::Lz4), Some(Compression::Zstd)][kind],
        indexed: number != 1,
        ..SegmentFile::new(number, extents.to_vec())
    };
    (0..).zip(extents.chunks(6)).map(segment).collect()
}

/// Segments and indexes.
fn files(scratch: &tempfile::TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &PathBuf| path.to_string_lossy().contains(".pcapng");
    let mut files: Vec<_> = entries.filter(is_part).collect();
    files.sort();
    files
}

/// Checks that all packets of the answer were recorded, in order. Returns how many are missing.
fn missing(found: &[Packet], all: &[Packet]) -> usize {
    let mut rest = all.iter();
    for packet in found {
        assert!(rest.any(|one| one == packet), "never recorded, or not in order: {packet:?}");
    }
    all.len() - found.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_flipped_bit_is_never_a_wrong_answer(
        kind in 0..3usize,
        file: Choice,
        at: Choice,
        bit in 0..8u8,
        filtered: bool,
    ) {
        let segments = segments(kind);
        let scratch = tempfile::tempdir().unwrap();
        let stores = [store(scratch.path(), &segments)];
        let files = files(&scratch);
        let path = file.get(&files);
        let mut bytes = fs::read(path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(path, bytes).unwrap();

        let filter = filtered.then(|| "udp and len > 0".parse().unwrap());
        let (found, report) = ask(&stores, &Query { filter, ..Query::all() });
        let missing = missing(&found, &in_order(&[&segments]));
        prop_assert!(missing == 0 || !report.damage.is_empty(), "{missing} missing: {path:?} {at}");
        for damage in &report.damage {
            prop_assert_eq!(&damage.path, path, "{}", damage);
        }
        // At most an extent, or a segment if its interfaces are lost.
        prop_assert!(missing <= 120);
    }

    #[test]
    fn a_cut_file_is_never_a_wrong_answer(
        kind in 0..3usize,
        file: Choice,
        at: Choice,
        garbage: bool,
    ) {
        let segments = segments(kind);
        let scratch = tempfile::tempdir().unwrap();
        let stores = [store(scratch.path(), &segments)];
        let files = files(&scratch);
        let path = file.get(&files);
        let mut bytes = fs::read(path).unwrap();
        let len = bytes.len();
        let at = at.index(len);
        bytes.truncate(at);
        if garbage {
            bytes.resize(len, 0xa5);
        }
        fs::write(path, bytes).unwrap();

        let (found, report) = ask(&stores, &Query::all());
        let missing = missing(&found, &in_order(&[&segments]));
        prop_assert!(missing == 0 || !report.damage.is_empty(), "{missing} missing: {path:?} {at}");
        prop_assert!(missing <= 120);
    }
}

#[test]
fn a_store_without_its_indexes_gives_the_same_answers() {
    let segments = segments(1);
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments)];
    let query = Query { filter: Some("udp".parse().unwrap()), ..Query::all() };
    let with = ask(&stores, &query);
    for path in files(&scratch) {
        if path.extension().is_some_and(|suffix| suffix == "index") {
            fs::remove_file(path).unwrap();
        }
    }
    let without = ask(&stores, &query);
    assert_eq!(with.0, without.0);
    assert_eq!((with.0.len(), without.1.damage), (400, vec![]));
}

#[test]
fn segments_that_are_deleted_meanwhile_are_told() {
    let segments = segments(0);
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments)];
    let mut found = 0;
    // At the first packet, only the first segment needs to be open.
    let query = Query { threads: 1, ..Query::all() };
    let report = crate::query::run(&stores, &query, |_| {
        if found == 0 {
            fs::remove_file(files(&scratch).pop().unwrap()).unwrap();
            let last = files(&scratch).pop().unwrap();
            fs::remove_file(last).unwrap();
        }
        found += 1;
        std::ops::ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!((report.deleted, report.damage), (1, vec![]));
    assert_eq!(found, 360);
}
