//! Queries beside a recorder: they find at least the packets on disk at their start, in order.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wirelane_pcap::{Class, Compression, CompressionOptions, Direction, Record, Source};
use wirelane_store::query::{count, list, run};
use wirelane_store::{
    Directory, LaneWriter, Limits, Query, Report, StoreOptions, StoreStatus, StoreWriter,
};

const MIB: u64 = 1 << 20;
const LANES: u64 = 2;
const PACKETS: u64 = 24_000;
const START: u64 = 1_795_400_504_000_000_000;

/// Lane and number of a packet, which determine its time.
type Name = (u64, u64);

fn time(name: Name) -> u64 {
    START + name.1 * 1000 + name.0 % 2
}

fn push(lane: &mut LaneWriter, name: Name) {
    let mut data = vec![name.1 as u8; 200 + (name.1 * 37 % 1300) as usize];
    data[..8].copy_from_slice(&name.0.to_le_bytes());
    data[8..16].copy_from_slice(&name.1.to_le_bytes());
    assert!(lane.wait_for_room(data.len(), Duration::from_secs(60)));
    let record = Record {
        interface: 0,
        timestamp: time(name),
        original_len: data.len() as u32,
        direction: Direction::Unknown,
        data: &data,
    };
    assert!(lane.push(&record, None));
}

fn ask(path: &Path, query: &Query) -> (Vec<Name>, Report) {
    let mut found = Vec::new();
    let report = run(&[Directory::open(path).unwrap()], query, |packet| {
        let Record { timestamp, data, .. } = packet.record;
        let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
        let name = (word(0), word(8));
        assert_eq!(timestamp, time(name));
        assert!(data[16..].iter().all(|byte| *byte == name.1 as u8));
        found.push(name);
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert!(found.is_sorted_by_key(|name| time(*name)), "in order of time");
    assert_eq!(report.damage, [], "nothing is taken for damaged");
    (found, report)
}

fn of_lane(found: &[Name], lane: u64) -> Vec<u64> {
    found.iter().filter(|name| name.0 == lane).map(|name| name.1).collect()
}

/// Records on all lanes, and calls `look` repeatedly.
fn record(path: &Path, options: StoreOptions, mut look: impl FnMut(&StoreStatus)) {
    let mut store = StoreWriter::create(path, options).unwrap();
    let source = Source::new("eth0", Class::Rx, Some(0));
    let lanes: Vec<_> =
        (0..LANES).map(|_| store.lane(std::slice::from_ref(&source), None).unwrap()).collect();
    let (status, has_ended) = (store.status(), AtomicBool::new(false));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..LANES)
            .zip(lanes)
            .map(|(number, mut lane)| {
                scope.spawn(move || {
                    for packet in 0..PACKETS {
                        push(&mut lane, (number, packet));
                        if packet % 500 == 0 {
                            lane.tick(wirelane_os::clock::monotonic_ns());
                            thread::sleep(Duration::from_millis(20));
                        }
                    }
                    lane.finish();
                })
            })
            .collect();
        scope.spawn(|| {
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            has_ended.store(true, Ordering::Relaxed);
        });
        while !has_ended.load(Ordering::Relaxed) {
            look(&status);
        }
    });
    let report = store.finish();
    assert_eq!(report.total().lost.packets + report.total().dropped.packets, 0);
}

fn options(compression: Option<Compression>) -> StoreOptions {
    StoreOptions::default()
        .segment_bytes(4 * MIB)
        .buffer(8 << 20)
        .flush_every(Duration::from_millis(50))
        .compression(compression.map(CompressionOptions::fastest))
}

#[test]
fn what_is_on_disk_is_found_while_recording_goes_on() {
    for compression in [None, Some(Compression::Lz4)] {
        let scratch = tempfile::tempdir().unwrap();
        let mut looks = 0;
        record(scratch.path(), options(compression), |status| {
            let before = status.report();
            let (found, _) = ask(scratch.path(), &Query::all().threads(2));
            for (number, lane) in (0..).zip(&before.lanes) {
                let packets = of_lane(&found, number);
                let written = lane.written.packets;
                let start: Vec<_> = packets.iter().copied().take_while(|n| *n < written).collect();
                assert!(start.iter().copied().eq(0..written), "{written} were on disk");
            }
            looks += u32::from(!found.is_empty());
        });
        assert!(looks > 0);
        let stores = [Directory::open(scratch.path()).unwrap()];
        let (found, report) = ask(scratch.path(), &Query::all());
        for lane in 0..LANES {
            assert!(of_lane(&found, lane).into_iter().eq(0..PACKETS));
        }
        assert!(report.deleted == 0 && (report.segments > 4 || compression.is_some()));
        let (from, to) = (time((0, 7000)), time((0, 9000)));
        let query = Query::all().from(from).to(to);
        let (part, _) = ask(scratch.path(), &query);
        assert!((0..LANES).all(|lane| of_lane(&part, lane).into_iter().eq(7000..9000)));
        assert_eq!(count(&stores, &query).unwrap().packets, LANES * 2000);
        let (listed, _) = list(&stores, &query).unwrap();
        assert!(listed.iter().all(|one| one.is_indexed && one.oldest < to && one.newest >= from));
        assert!(listed.iter().map(|one| one.packets).sum::<u64>() >= LANES * 2000);
    }
}

#[test]
fn queries_stand_deletion_and_do_not_hold_it_up() {
    let scratch = tempfile::tempdir().unwrap();
    let limits = Limits::default().max_bytes(16 * MIB);
    let (mut most, mut deleted) = (0, 0);
    record(scratch.path(), options(None).limits(limits), |status| {
        let (found, report) = ask(scratch.path(), &Query::all().threads(2));
        for lane in 0..LANES {
            let packets = of_lane(&found, lane);
            assert!(packets.is_sorted_by(|one, next| one < next), "none twice");
        }
        most = most.max(report.segments);
        deleted = status.report().deleted;
    });
    assert!(deleted > 0 && most <= 16 / 4 + 2 * LANES, "{deleted} deleted, {most} segments");
    let (found, _) = ask(scratch.path(), &Query::all());
    for lane in 0..LANES {
        let packets = of_lane(&found, lane);
        let first = packets[0];
        assert!(packets.into_iter().eq(first..PACKETS), "the newest are there, without a gap");
    }
}
