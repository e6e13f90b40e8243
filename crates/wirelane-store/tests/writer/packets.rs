//! Pushed packets are in the store.

use std::time::Duration;

use wirelane_pcap::{Compression, CompressionOptions, Statistics};
use wirelane_store::{Access, LaneWriter, StoreOptions, StoreReport, StoreWriter};

use crate::scratch::{Read, Scratch, packet, sources};

const WAIT: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

fn small() -> StoreOptions {
    StoreOptions::default().segment_bytes(4 * MIB).buffer(8 << 20)
}

fn push(lane: &mut LaneWriter, packets: impl Iterator<Item = Read>) {
    for packet in packets {
        assert!(lane.wait_for_room(packet.data.len(), WAIT));
        assert!(lane.push(&packet.record(), None));
    }
}

/// Two lanes at once, and all packets in the order of each.
fn write(scratch: &Scratch, options: StoreOptions, count: u64) -> StoreReport {
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let lanes: Vec<_> = (0..2).map(|_| store.lane(&sources(), None).unwrap()).collect();
    std::thread::scope(|scope| {
        for (number, mut lane) in lanes.into_iter().enumerate() {
            scope.spawn(move || push(&mut lane, numbers(number, count).map(packet)));
        }
    });
    let report = store.finish();
    for (lane, told) in report.lanes.iter().enumerate() {
        let expected: Vec<Read> = numbers(lane, count).map(packet).collect();
        let found = scratch.packets(lane as u32);
        assert_eq!(found.len(), expected.len());
        assert!(found == expected, "packets differ");
        let bytes: u64 = expected.iter().map(|packet| packet.data.len() as u64).sum();
        assert_eq!((told.written.packets, told.written.bytes), (count, bytes));
        assert_eq!((told.taken, told.lag()), (told.written, 0));
    }
    scratch.is_sound();
    assert_eq!((report.trouble.clone(), report.troubles), (None, 0), "{report:?}");
    report
}

fn numbers(lane: usize, count: u64) -> impl Iterator<Item = u64> {
    let start = lane as u64 * 1_000_000;
    start..start + count
}

#[test]
fn a_disk_is_written_directly() {
    let scratch = Scratch::on_disk();
    let report = write(&scratch, small(), 20_000);
    let segments = scratch.segments();
    assert_eq!(segments.values().flatten().count() as u64, report.segments);
    assert!(report.segments >= 8, "{report:?}");
    for name in segments.values().flatten() {
        let len = std::fs::metadata(scratch.path_of(name)).unwrap().len();
        assert!(len <= 4 * MIB, "{name:?}: {len}");
    }
}

#[test]
fn a_tmpfs_is_written_through_its_cache_and_says_so() {
    let scratch = Scratch::in_memory();
    let report = write(&scratch, small(), 12_000);
    assert!(report.buffered.unwrap().contains("tmpfs"));
}

#[test]
fn compressed_segments_are_read_by_everybody() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        for threads in [1, 3] {
            let options = CompressionOptions::fastest(compression).threads(threads);
            let scratch = Scratch::in_memory();
            write(&scratch, small().compression(options), 8_000);
        }
    }
}

#[test]
fn a_second_recorder_is_refused() {
    let scratch = Scratch::in_memory();
    let first = StoreWriter::create(scratch.path(), small()).unwrap();
    let error = StoreWriter::create(scratch.path(), small()).err().unwrap().to_string();
    assert!(error.contains("records into it"), "{error}");
    drop(first);
    let second = StoreWriter::create(scratch.path(), small()).unwrap();
    assert_eq!(second.finish().segments, 0);
}

#[test]
fn numbers_go_on_where_the_last_recorder_ended() {
    let scratch = Scratch::in_memory();
    for round in 0..3 {
        let mut store = StoreWriter::create(scratch.path(), small()).unwrap();
        let mut lane = store.lane(&sources(), None).unwrap();
        push(&mut lane, (round * 10..round * 10 + 10).map(packet));
        lane.finish();
        assert_eq!(store.finish().segments, round + 1);
    }
    let expected: Vec<Read> = (0..30).map(packet).collect();
    assert_eq!(scratch.packets(0), expected);
}

#[test]
fn a_packet_waits_no_longer_than_it_may() {
    let scratch = Scratch::on_disk();
    let mut store = StoreWriter::create(scratch.path(), small()).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let status = store.status();
    let second = 1_000_000_000;
    lane.tick(5 * second);
    push(&mut lane, [packet(0)].into_iter());
    lane.tick(6 * second - 1);
    assert_eq!(status.report().total().taken.packets, 0);
    lane.tick(6 * second);
    assert_eq!(status.report().total().taken.packets, 1);
    // The store thread has it now, and needs no further call.
    while status.report().total().written.packets == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(lane.segment(), 1);
    lane.finish();
    assert_eq!(store.finish().total().written.packets, 1);
}

#[test]
fn comments_and_counters_are_kept() {
    let scratch = Scratch::in_memory();
    let mut store = StoreWriter::create(scratch.path(), small()).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let packet = packet(7);
    assert!(lane.push(&packet.record(), Some("trigger")));
    let counters = Statistics { received: Some(9), dropped: Some(1), ..Statistics::default() };
    assert!(lane.statistics(&[counters]));
    lane.finish();
    let _ = store.finish();
    assert_eq!(scratch.packets(0), [packet]);
    let name = scratch.segments().into_values().flatten().next().unwrap();
    let bytes = std::fs::read(scratch.path_of(&name)).unwrap();
    assert!(bytes.windows(7).any(|window| window == b"trigger"));
    let extent = &bytes[4096 + wirelane_store::ExtentHeader::disk_len(false)..];
    let found = wirelane_pcap::pcapng::blocks(extent).filter_map(Result::ok);
    let statistics = |content| match content {
        wirelane_pcap::pcapng::Content::Statistics(statistics) => Some(statistics),
        _ => None,
    };
    let found: Vec<_> = found.filter_map(|block| statistics(block.content)).collect();
    assert_eq!(found, [counters]);
}

#[test]
fn what_is_too_long_is_cut() {
    let scratch = Scratch::in_memory();
    let mut store = StoreWriter::create(scratch.path(), small()).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let long = Read { data: vec![1; 300 << 10], ..packet(0) };
    assert!(lane.push(&long.record(), None));
    assert!(lane.push(&packet(2).record(), Some(&"x".repeat(2 << 20))));
    lane.finish();
    let report = store.finish();
    assert_eq!((report.total().written.packets, report.total().dropped.packets), (2, 0));
    let found = scratch.packets(0);
    assert_eq!((found[0].data.len(), found[0].original_len), (256 << 10, packet(0).original_len));
    assert_eq!(found[1], packet(2));
}

#[test]
fn impossible_options_are_refused() {
    let scratch = Scratch::in_memory();
    let refused = |options: StoreOptions| {
        StoreWriter::create(scratch.path(), options).err().unwrap().to_string()
    };
    let gzip = Some(CompressionOptions::fastest(Compression::Gzip));
    assert!(refused(small().segment_bytes(1)).contains("4 MiB"));
    assert!(refused(small().compression(gzip)).contains("lz4 or zstd"));
}

#[test]
fn files_are_for_their_owner_and_for_a_group_that_is_named() {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata(Scratch::in_memory().path()).unwrap().gid();
    for (group, mode) in [(None, 0o600), (Some(own), 0o640)] {
        let scratch = Scratch::in_memory();
        let access = Access { group, ..Access::default() };
        let options = small().access(access);
        let mut store = StoreWriter::create(scratch.path(), options).unwrap();
        let mut lane = store.lane(&sources(), None).unwrap();
        push(&mut lane, [packet(0)].into_iter());
        lane.finish();
        assert_eq!(store.finish().segments, 1);
        let segment = scratch.segments()[&0][0];
        for file in [segment.file_name(), segment.index_name()] {
            let metadata = std::fs::metadata(scratch.path().join(&file)).unwrap();
            assert_eq!((metadata.mode() & 0o7777, metadata.gid()), (mode, own), "{file}");
        }
    }
}
