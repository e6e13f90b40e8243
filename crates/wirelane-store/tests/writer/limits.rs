//! The writer keeps its limits, and deletes only the oldest segments.

use std::time::Duration;

use wirelane_store::{Limits, StoreOptions, StoreWriter};
use wirelane_testkit::privileged;

use crate::scratch::{Read, Scratch, packet, sources};

const MIB: u64 = 1 << 20;
const WAIT: Duration = Duration::from_secs(60);

/// Writes this number of bytes, and checks the size after each MiB.
fn write(scratch: &Scratch, limits: Limits, bytes: u64, mut look: impl FnMut()) {
    let options = StoreOptions::default().segment_bytes(4 * MIB).buffer(8 << 20).limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let (mut written, mut next) = (0, 0);
    for number in 0.. {
        let packet = packet(number);
        assert!(lane.wait_for_room(packet.data.len(), WAIT));
        assert!(lane.push(&packet.record(), None));
        written += packet.data.len() as u64;
        if written >= next {
            next += MIB;
            look();
        }
        if written >= bytes {
            break;
        }
    }
    lane.finish();
    let report = store.finish();
    assert_eq!(report.total().lost.packets, 0);
    look();
}

fn size(scratch: &Scratch) -> u64 {
    let sizes = std::fs::read_dir(scratch.path()).unwrap().filter_map(Result::ok);
    sizes.filter_map(|entry| entry.metadata().ok()).map(|it| it.len()).sum()
}

#[test]
fn bytes_are_limited_and_the_oldest_go_first() {
    let scratch = Scratch::on_disk();
    let stranger = scratch.path().join("notes.pcapng");
    std::fs::write(&stranger, vec![7; 3 << 20]).unwrap();
    let limits = Limits::default().max_bytes(20 * MIB);
    // Other files are not counted.
    let most = (20 + 3 + 4) * MIB;
    write(&scratch, limits, 80 * MIB, || assert!(size(&scratch) <= most, "{}", size(&scratch)));
    assert_eq!(std::fs::read(&stranger).unwrap().len(), 3 << 20);
    let found = scratch.packets(0);
    let first = (found[0].timestamp - packet(0).timestamp) / 1000;
    assert!(first > 10_000);
    let expected: Vec<Read> = (first..first + found.len() as u64).map(packet).collect();
    assert!(found == expected, "what is left is the newest, without a gap");
    scratch.is_sound();
}

#[test]
fn pinned_segments_stay() {
    let scratch = Scratch::in_memory();
    let limits = Limits::default().max_bytes(20 * MIB);
    write(&scratch, limits, 8 * MIB, || {});
    let directory = scratch.directory();
    let first = scratch.segments().into_values().flatten().next().unwrap();
    assert!(directory.pin(&first, wirelane_store::Access::default()).unwrap());
    write(&scratch, limits, 60 * MIB, || assert!(size(&scratch) <= 24 * MIB));
    assert!(scratch.path_of(&first).exists());
    assert_eq!(scratch.packets(0)[0], packet(0));
}

#[test]
fn what_cannot_hold_two_segments_is_refused() {
    let scratch = Scratch::in_memory();
    let limits = Limits::default().max_bytes(12 * MIB);
    let options = StoreOptions::default().segment_bytes(4 * MIB).limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let _lane = store.lane(&sources(), None).unwrap();
    let error = store.lane(&sources(), None).err().unwrap().to_string();
    assert!(error.contains("raise the limit"), "{error}");
}

#[test]
fn privileged_a_disk_that_can_never_hold_two_segments_is_refused() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(20);
    let limits = Limits::default().min_free(0.5);
    let options = StoreOptions::default().limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let _lane = store.lane(&sources(), None).unwrap();
    let error = store.lane(&sources(), None).err().unwrap().to_string();
    assert!(error.contains("10485760 bytes") && error.contains("16777216"), "{error}");
}

/// With segments of the usual size, not even one would fit.
#[test]
fn privileged_where_there_is_little_room_segments_are_shorter() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(80);
    let limits = Limits::default().min_free(0.2);
    let options = StoreOptions::default().buffer(8 << 20).limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lanes = [(); 2].map(|()| store.lane(&sources(), None).unwrap());
    for number in 0..200_000 {
        let packet = packet(number);
        let lane = &mut lanes[(number / 1000 % 2) as usize];
        assert!(lane.wait_for_room(packet.data.len(), WAIT));
        assert!(lane.push(&packet.record(), None));
    }
    lanes.into_iter().for_each(wirelane_store::LaneWriter::finish);
    let report = store.finish();
    assert_eq!((report.total().written.packets, report.troubles), (200_000, 0));
    let short = report.short_segments.unwrap();
    assert_eq!((short.wanted, short.lanes), (256 * MIB, 2));
    // 64 MiB may be used: eight segments of each lane.
    assert!((63 * MIB..=64 * MIB).contains(&short.room), "{short:?}");
    assert_eq!(short.len, 4 * MIB);
    let segments = scratch.segments();
    assert!(segments.values().all(|of_lane| of_lane.len() >= 4), "{segments:?}");
    assert!(size(&scratch) <= 64 * MIB && report.deleted > 0);
    scratch.is_sound();
}

/// Other files in the share to keep free leave less room for segments: longer segments would
/// displace all older ones.
#[test]
fn privileged_what_others_took_is_no_room() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(64);
    write(&scratch, Limits::default(), 36 * MIB, || {});
    std::fs::write(scratch.path().join("stranger"), vec![1; 20 << 20]).unwrap();
    let limits = Limits::default().min_free(0.25);
    let options = StoreOptions::default().segment_bytes(16 * MIB).limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    assert!(lane.push(&packet(0).record(), None));
    lane.finish();
    let report = store.finish();
    assert_eq!((report.total().written.packets, report.troubles), (1, 0));
    // 28 MiB remain for the store.
    let short = report.short_segments.unwrap();
    assert!((27 * MIB..=28 * MIB).contains(&short.room), "{short:?}");
    assert!(report.segments >= 5, "{report:?}");
}

/// tmpfs without a limit reports 0 of 0 bytes.
#[test]
fn privileged_a_file_system_that_does_not_tell_its_size_has_room() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(0);
    let limits = Limits::default().min_free(0.05);
    write(&scratch, limits, 10 * MIB, || {});
    scratch.is_sound();
}

#[test]
fn what_is_too_old_goes_also_without_traffic() {
    let scratch = Scratch::in_memory();
    let limits = Limits::default().max_age(Duration::from_secs(1));
    // The times of packets do not matter: these are years old.
    let options = StoreOptions::default().segment_bytes(4 * MIB).limits(limits);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    assert!(lane.push(&packet(0).record(), None));
    lane.tick(1);
    lane.tick(2_000_000_000);
    let status = store.status();
    while status.report().deleted == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    lane.finish();
    let report = store.finish();
    assert_eq!((report.total().written.packets, report.segments), (1, 0));
}

#[test]
fn privileged_a_share_of_the_disk_stays_free() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(40);
    let limits = Limits::default().min_free(0.5);
    // Indexes and other files are extra.
    write(&scratch, limits, 80 * MIB, || assert!(size(&scratch) <= (20 + 4) * MIB));
    assert!(scratch.packets(0)[0] != packet(0) && scratch.segments()[&0].len() >= 3);
    // Other files take the rest: only pinned segments remain.
    let first = scratch.segments()[&0][0];
    assert!(scratch.directory().pin(&first, wirelane_store::Access::default()).unwrap());
    std::fs::write(scratch.path().join("stranger"), vec![1; 22 << 20]).unwrap();
    let store = StoreWriter::create(
        scratch.path(),
        StoreOptions::default().segment_bytes(4 * MIB).limits(limits),
    );
    let report = store.unwrap().finish();
    assert_eq!((report.segments, report.room), (1, Some(0)));
    assert!(scratch.path_of(&first).exists() && scratch.path().join("stranger").exists());
}
