//! Stores after crashes and damage, and their repair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use wirelane_pcap::{Access, CaptureReader, Compression};

use super::*;
use crate::extent::{EXTENT_ALIGNMENT, Extent, ExtentHeader};
use crate::query::Query;
use crate::query::tests::ask;
use crate::query::tests::stores::{Packet, SegmentFile, in_order, store};
use crate::scan::scan;

const KINDS: [Option<Compression>; 3] = [None, Some(Compression::Lz4), Some(Compression::Zstd)];

/// Packets of one size, all different, and without long runs of zeros.
fn packets(first: u64, count: u64) -> Vec<Packet> {
    let packet = |number: u64| {
        let mut data = vec![0; 60 + (number * 37 % 900) as usize];
        for (at, byte) in data.iter_mut().enumerate() {
            *byte = (number as usize * 31 + at * 7) as u8 | 1;
        }
        data[12..14].copy_from_slice(&[8, 0]);
        Packet::new((number % 2) as u32, 1_700_000_000_000_000_000 + number, &data)
    };
    (first..first + count).map(packet).collect()
}

fn segment(number: u64, compression: Option<Compression>) -> SegmentFile {
    let extents = (0..6).map(|extent| packets(number * 10_000 + extent * 100, 30)).collect();
    SegmentFile { compression, ..SegmentFile::new(number, extents) }
}

fn unfinished(number: u64, compression: Option<Compression>) -> SegmentFile {
    SegmentFile { finished: false, ..segment(number, compression) }
}

fn all(directory: &Directory) -> (Vec<Packet>, Vec<Damage>) {
    let directory = Directory::open(directory.path()).unwrap();
    let (packets, report) = ask(&[directory], &Query::all());
    (packets, report.damage)
}

fn run_check(directory: &Directory) -> CheckReport {
    check(directory, |_, _| ControlFlow::Continue(())).unwrap()
}

fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The only segment, and its extents.
fn only(directory: &Directory) -> (PathBuf, SegmentName, Vec<Extent>) {
    let segments = directory.segments().unwrap();
    let [entry] = &segments[..] else { panic!("{segments:?}") };
    let path = directory.path_of(&entry.name.file_name());
    let extents = scan(&fs::read(&path).unwrap()[..], entry.name.is_compressed()).unwrap().extents;
    (path, entry.name, extents)
}

/// Number of packets in a file, which must be readable for any tool.
fn read(path: &Path) -> usize {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut count = 0;
    while reader.advance().unwrap() {
        count += 1;
    }
    count
}

#[test]
fn a_segment_of_a_dead_recorder_is_finished() {
    for compression in KINDS {
        let temp = tempfile::tempdir().unwrap();
        let segments = [segment(1, compression), unfinished(2, compression)];
        let directory = store(temp.path(), &segments);
        let before = all(&directory);
        assert_eq!(before, (in_order(&[&segments]), vec![]));
        let report = run_check(&directory);
        assert_eq!((&report.damage, &report.failed), (&vec![], &vec![]));
        assert_eq!((report.segments, report.packets), (2, 360));
        assert_eq!(report.mended.len(), 1, "{report:?}");
        assert_eq!(all(&directory), before);
        // As the recorder would have finished it.
        let other = tempfile::tempdir().unwrap();
        let whole = [segment(1, compression), segment(2, compression)];
        store(other.path(), &whole);
        for (path, bytes) in files(other.path()) {
            let name = path.file_name().unwrap();
            if name != "wirelane.store" {
                assert!(fs::read(temp.path().join(name)).unwrap() == bytes, "{path:?}");
            }
        }
        // A second run finds no more repairs.
        let again = run_check(&directory);
        assert_eq!((again.mended, again.damage, again.packets), (vec![], vec![], 360));
    }
}

#[test]
fn what_was_in_flight_goes_and_the_rest_stays() {
    for compression in KINDS {
        let temp = tempfile::tempdir().unwrap();
        let directory = store(temp.path(), &[unfinished(1, compression)]);
        let (path, _, extents) = only(&directory);
        let mut bytes = fs::read(&path).unwrap();
        // The third and the last extent are partly written, the fourth not at all.
        let half = |extent: &Extent| {
            let at = extent.offset as usize;
            at + 1024..at + extent.header.extent_len(compression.is_some())
        };
        bytes[half(&extents[2])].fill(0);
        let at = extents[3].offset as usize;
        bytes[at..half(&extents[3]).end].fill(0);
        bytes[half(&extents[5])].fill(0);
        fs::write(&path, bytes).unwrap();

        let report = run_check(&directory);
        assert_eq!((report.damage, report.packets), (vec![], 90));
        let (path, name, _) = only(&directory);
        assert!(!name.is_part());
        let expected: Vec<_> =
            [0, 100, 400].into_iter().flat_map(|n| packets(10_000 + n, 30)).collect();
        assert_eq!(all(&directory), (expected, vec![]));
        assert_eq!(read(&path), 90);
        assert!(directory.segments().unwrap()[0].has_index);
        assert_eq!(run_check(&directory).mended, []);
    }
}

#[test]
fn damage_in_a_segment_of_a_dead_recorder_is_kept_and_named() {
    for compression in KINDS {
        for (damaged, at) in [(0, 500), (2, 20), (5, 200), (5, 30)] {
            let temp = tempfile::tempdir().unwrap();
            let directory = store(temp.path(), &[unfinished(1, compression)]);
            let (path, _, extents) = only(&directory);
            let mut bytes = fs::read(&path).unwrap();
            bytes[extents[damaged].offset as usize + at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            run_check(&directory);
            let (path, name, _) = only(&directory);
            assert!(!name.is_part());
            // All bytes remain, except the 12 that mark the damage as a filler.
            let mended = fs::read(&path).unwrap();
            let changed = mended.iter().zip(&bytes).filter(|(a, b)| a != b).count();
            assert!(changed <= 12, "{changed}");
            assert!(bytes[mended.len()..].iter().all(|byte| *byte == 0));
            let (found, damage) = all(&directory);
            assert_eq!(found.len(), 150);
            assert_eq!(damage.len(), 1, "{damage:?}");
            assert_eq!((&damage[0].path, damage[0].offset), (&path, extents[damaged].offset));
            assert_eq!(read(&path), 150);
            assert_eq!(run_check(&directory).damage, damage);
        }
    }
}

#[test]
fn an_empty_segment_of_a_dead_recorder_goes() {
    for len in [0, 4096, 1 << 20] {
        let temp = tempfile::tempdir().unwrap();
        let whole = [segment(1, None)];
        let directory = store(temp.path(), &whole);
        let empty = SegmentName { times: None, lane: 1, number: 7, compression: None };
        fs::write(directory.path_of(&empty.file_name()), vec![0; len]).unwrap();
        // One with a prelude.
        let number = 9;
        let new = SegmentFile { number, extents: vec![], ..unfinished(1, None) }.write(temp.path());
        assert!(new.is_part());
        let report = run_check(&directory);
        assert_eq!((report.mended.len(), report.damage), (2, vec![]));
        assert_eq!(directory.segments().unwrap().len(), 1);
        assert_eq!(all(&directory), (in_order(&[&whole]), vec![]));
    }
}

#[test]
fn what_cannot_be_read_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let directory = store(temp.path(), &[unfinished(1, None)]);
    let (path, ..) = only(&directory);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..4096].fill(0xFF);
    fs::write(&path, &bytes).unwrap();
    let notes = temp.path().join("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let foreign = temp.path().join("0_1.pcapng.part");
    fs::write(&foreign, "mine").unwrap();
    let report = run_check(&directory);
    assert!(report.damage.iter().any(|damage| damage.path == path), "{report:?}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "mine");
}

#[test]
fn files_without_a_segment_go() {
    let temp = tempfile::tempdir().unwrap();
    let directory = store(temp.path(), &[segment(1, None)]);
    let gone = SegmentName { number: 5, ..only(&directory).1 };
    let part = format!("{}.part", only(&directory).1.index_name());
    for name in [gone.index_name(), gone.pin_name(), part] {
        fs::write(directory.path_of(&name), "x").unwrap();
    }
    let before = files(temp.path()).len();
    assert_eq!(run_check(&directory).mended.len(), 3);
    // The lock file was added, and three files were removed.
    assert_eq!(files(temp.path()).len(), before + 1 - 3);
}

#[test]
fn a_recorder_at_work_is_not_disturbed() {
    let temp = tempfile::tempdir().unwrap();
    let directory = store(temp.path(), &[segment(1, None), unfinished(2, None)]);
    let index = directory.segments().unwrap()[0].name.index_name();
    fs::remove_file(directory.path_of(&index)).unwrap();
    let lock = directory.lock_recorder(Access::default()).unwrap();
    let before = files(temp.path());
    let report = run_check(&directory);
    assert_eq!(files(temp.path()), before);
    assert!(report.only_looked.unwrap().contains("records into it"));
    assert_eq!((report.segments, report.being_written), (1, 1));
    assert_eq!(report.damage.len(), 1);
    // The index can be rebuilt while a recorder runs.
    assert_eq!(reindex(&directory, |_, _| ControlFlow::Continue(())).unwrap().mended.len(), 1);
    drop(lock);
    assert_eq!(run_check(&directory).only_looked, None);
}

#[test]
fn a_lost_or_damaged_index_is_made_anew() {
    for compression in [None, Some(Compression::Lz4)] {
        let temp = tempfile::tempdir().unwrap();
        let segments = [segment(1, compression)];
        let directory = store(temp.path(), &segments);
        let path = directory.path_of(&only(&directory).1.index_name());
        let index = fs::read(&path).unwrap();
        let again = || reindex(&directory, |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(again().mended, []);
        fs::remove_file(&path).unwrap();
        assert_eq!(all(&directory), (in_order(&[&segments]), vec![]));
        assert_eq!(again().mended.len(), 1);
        assert!(fs::read(&path).unwrap() == index);
        for at in (0..index.len()).step_by(index.len() / 50) {
            let mut damaged = index.clone();
            damaged[at] ^= 0x20;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(all(&directory).0, in_order(&[&segments]), "byte {at}");
            assert_eq!(again().mended.len(), 1, "byte {at}");
            assert!(fs::read(&path).unwrap() == index);
        }
        for len in [0, 1, index.len() / 2, index.len() - 1] {
            fs::write(&path, &index[..len]).unwrap();
            assert_eq!(all(&directory).0, in_order(&[&segments]), "{len} bytes");
            assert_eq!(run_check(&directory).mended.len(), 1);
            assert!(fs::read(&path).unwrap() == index);
        }
    }
}

#[test]
fn a_damaged_copy_of_the_prelude_is_written_anew() {
    for compression in KINDS {
        let temp = tempfile::tempdir().unwrap();
        let segments = [segment(1, compression)];
        let directory = store(temp.path(), &segments);
        let (path, ..) = only(&directory);
        let bytes = fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(all(&directory).0, in_order(&[&segments]));
        let report = run_check(&directory);
        assert_eq!((report.mended.len(), report.damage), (1, vec![]));
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn a_cut_segment_keeps_what_is_before_the_cut() {
    for compression in [None, Some(Compression::Zstd)] {
        for indexed in [true, false] {
            let temp = tempfile::tempdir().unwrap();
            let segments = [SegmentFile { indexed, ..segment(1, compression) }];
            let directory = store(temp.path(), &segments);
            let (path, _, extents) = only(&directory);
            let bytes = fs::read(&path).unwrap();
            let head = ExtentHeader::disk_len(compression.is_some());
            for (number, extent) in extents.iter().enumerate() {
                let (at, payload) = (extent.offset as usize, extent.header.payload as usize);
                let used = at + head + payload;
                // At its start, in and after its header, in its content, before its end, in the
                // padding.
                for (cut, count) in [
                    (at, 0),
                    (at + 7, 0),
                    (at + head, 0),
                    (at + head + 99, 0),
                    (used - 1, 0),
                    (used, 1),
                    (used + 3, 1),
                ] {
                    fs::write(&path, &bytes[..cut]).unwrap();
                    let (found, damage) = all(&directory);
                    assert_eq!(found.len(), 30 * (number + count), "cut at {cut}");
                    assert_eq!(found, in_order(&[&segments])[..found.len()]);
                    assert!(found.len() == 180 || !damage.is_empty(), "cut at {cut}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// For any damage, found packets were recorded, missing parts are reported, and repair
    /// changes neither.
    #[test]
    fn an_answer_is_never_wrong(
        kind in 0..KINDS.len(),
        indexed: bool,
        finished: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let segments =
            [segment(1, KINDS[kind]), SegmentFile { indexed, finished, ..segment(2, KINDS[kind]) }];
        let directory = store(temp.path(), &segments);
        let expected = in_order(&[&segments]);
        let mut paths: Vec<_> = files(temp.path()).into_keys().collect();
        paths.retain(|path| !path.ends_with("wirelane.store"));
        for (place, change) in damage {
            let path = &paths[place.index(paths.len())];
            let mut bytes = fs::read(path).unwrap();
            let at = place.index(bytes.len());
            bytes[at] ^= change;
            fs::write(path, bytes).unwrap();
        }
        let (found, damage) = all(&directory);
        let mut rest = expected.iter();
        prop_assert!(found.iter().all(|packet| rest.any(|one| one == packet)));
        prop_assert!(found.len() == expected.len() || !damage.is_empty());
        run_check(&directory);
        let (after, damage) = all(&directory);
        prop_assert_eq!(&after, &found);
        prop_assert!(after.len() == expected.len() || !damage.is_empty());
        for (path, _) in files(temp.path()) {
            prop_assert!(!path.to_string_lossy().ends_with(".part"), "{:?}", path);
        }
    }
}

#[test]
fn the_stores_of_these_tests_have_extents_of_some_pages() {
    let temp = tempfile::tempdir().unwrap();
    let (_, _, extents) = only(&store(temp.path(), &[segment(1, None)]));
    assert!(extents.iter().all(|extent| extent.header.payload as usize > 2 * EXTENT_ALIGNMENT));
}
