use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::pin::Deletion;

fn store() -> (tempfile::TempDir, Directory) {
    let temp = tempfile::tempdir().unwrap();
    let directory = Directory::create(&temp.path().join("store"), Access::default()).unwrap();
    (temp, directory)
}

fn part(number: u64) -> SegmentName {
    SegmentName { times: None, lane: number as u32 % 2, number, compression: None }
}

fn finished(number: u64) -> SegmentName {
    SegmentName { times: Some((number, number + 5)), ..part(number) }
}

fn touch(directory: &Directory, name: &str) {
    fs::write(directory.path_of(name), "x").unwrap();
}

#[test]
fn a_store_keeps_its_number() {
    let (_temp, first) = store();
    let again = Directory::create(first.path(), Access::default()).unwrap();
    assert!(first.id().is_some());
    assert_eq!(again.id(), first.id());
    assert_eq!(Directory::open(first.path()).unwrap().id(), first.id());
    let names: Vec<_> =
        fs::read_dir(first.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [STORE_FILE]);
}

#[test]
fn what_is_no_store_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let error = Directory::open(temp.path()).unwrap_err().to_string();
    assert!(error.contains("is not a store"), "{error}");
    assert!(Directory::open(&temp.path().join("missing")).is_err());
    fs::write(temp.path().join("notes.txt"), "x").unwrap();
    assert!(Directory::open(temp.path()).is_err());
    // A copy of some segments is a store.
    fs::write(temp.path().join(finished(1).file_name()), "x").unwrap();
    let copy = Directory::open(temp.path()).unwrap();
    assert_eq!((copy.id(), copy.segments().unwrap().len()), (None, 1));

    fs::write(temp.path().join(STORE_FILE), "{\"format\":\"wirelane.store/2\"}\n").unwrap();
    let error = Directory::open(temp.path()).unwrap_err().to_string();
    assert!(error.contains("newer version"), "{error}");
    assert!(Directory::create(temp.path(), Access::default()).is_err());
}

#[test]
fn segments_are_listed_in_the_order_of_their_numbers() {
    let (_temp, directory) = store();
    for number in [7, 3] {
        touch(&directory, &finished(number).file_name());
    }
    touch(&directory, &finished(3).index_name());
    touch(&directory, &part(9).file_name());
    touch(&directory, &part(9).pin_name());
    // Other files, and files without a segment.
    touch(&directory, "capture.pcapng");
    touch(&directory, &finished(4).index_name());
    touch(&directory, &finished(12).pin_name());
    let entry = |name, has_index, is_pinned| SegmentEntry { name, has_index, is_pinned };
    let listing = directory.list().unwrap();
    assert_eq!(
        listing.segments,
        [
            entry(finished(3), true, false),
            entry(finished(7), false, false),
            entry(part(9), false, true)
        ]
    );
    assert_eq!(listing.next_number, 13);
    assert_eq!(listing.orphans.len(), 2);
}

#[test]
fn a_segment_is_never_missed_while_it_is_renamed() {
    let (_temp, directory) = store();
    const COUNT: u64 = 300;
    for number in 0..COUNT {
        touch(&directory, &part(number).file_name());
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                let (from, to) = (part(number).file_name(), finished(number).file_name());
                fs::rename(directory.path_of(&from), directory.path_of(&to)).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        loop {
            let was_done = done.load(Ordering::Relaxed);
            let numbers: Vec<_> =
                directory.segments().unwrap().iter().map(|entry| entry.name.number).collect();
            assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
            if was_done {
                break;
            }
        }
    });
    assert!(directory.segments().unwrap().iter().all(|entry| !entry.name.is_part()));
}

#[test]
fn a_segment_is_opened_under_its_new_name() {
    let (_temp, directory) = store();
    touch(&directory, &part(1).file_name());
    assert_eq!(directory.open_segment(&part(1)).unwrap().unwrap().0, part(1));
    fs::rename(
        directory.path_of(&part(1).file_name()),
        directory.path_of(&finished(1).file_name()),
    )
    .unwrap();
    assert_eq!(directory.open_segment(&part(1)).unwrap().unwrap().0, finished(1));
    assert!(directory.open_segment(&finished(2)).unwrap().is_none());
}

#[test]
fn a_store_has_one_recorder() {
    let (_temp, directory) = store();
    assert!(!directory.is_recording().unwrap());
    let lock = directory.lock_recorder(Access::default()).unwrap();
    assert!(directory.is_recording().unwrap());
    let error = directory.lock_recorder(Access::default()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {} records into it", std::process::id())), "{error}");
    drop(lock);
    assert!(!directory.is_recording().unwrap());
    directory.lock_recorder(Access::default()).unwrap();
}

#[test]
fn a_pinned_segment_stays() {
    let (_temp, directory) = store();
    touch(&directory, &part(1).file_name());
    assert!(directory.pin(&part(1), Access::default()).unwrap());
    // Finished later, it is still pinned.
    let name = finished(1);
    fs::rename(directory.path_of(&part(1).file_name()), directory.path_of(&name.file_name()))
        .unwrap();
    touch(&directory, &name.index_name());
    assert!(directory.segments().unwrap()[0].is_pinned);
    assert_eq!(directory.delete(&name).unwrap(), Deletion::Pinned);
    assert!(directory.unpin(&name).unwrap());
    assert!(!directory.unpin(&name).unwrap());
    assert!(matches!(directory.delete(&name).unwrap(), Deletion::Deleted(1..)));
    assert_eq!(directory.delete(&name).unwrap(), Deletion::Missing);
    assert!(!directory.pin(&name, Access::default()).unwrap());
    let listing = directory.list().unwrap();
    assert!(listing.segments.is_empty() && listing.orphans.is_empty());
}

#[test]
fn files_are_for_the_owner_or_a_group() {
    use std::os::unix::fs::MetadataExt;
    let temp = tempfile::tempdir().unwrap();
    let group = fs::metadata(temp.path()).unwrap().gid();
    for (access, dir_mode, file_mode) in [
        (Access::default(), 0o700, 0o600),
        (Access { mode: None, group: Some(group) }, 0o750, 0o640),
        (Access { mode: Some(0o644), group: Some(group) }, 0o755, 0o644),
    ] {
        let directory =
            Directory::create(&temp.path().join(format!("{dir_mode}")), access).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(directory.path()), dir_mode);
        assert_eq!(mode(&directory.path_of(STORE_FILE)), file_mode);
        assert_eq!(directory.access(), access);
    }
}
