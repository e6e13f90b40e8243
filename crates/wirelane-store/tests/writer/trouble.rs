//! A disk that accepts no writes: lost packets are counted, and recording continues when there is
//! room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane_store::{Limits, StoreOptions, StoreReport, StoreStatus, StoreWriter};
use wirelane_testkit::{privileged, tools};

use crate::scratch::{Scratch, packet, sources};

const MIB: u64 = 1 << 20;

fn options(limits: Limits) -> StoreOptions {
    StoreOptions::default().segment_bytes(4 * MIB).buffer(4 << 20).limits(limits)
}

/// Polls until the condition holds.
fn wait_for(status: &StoreStatus, is_so: impl Fn(&StoreReport) -> bool) {
    while !is_so(&status.report()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_the_disk_does_not_take_is_told() {
    let scratch = Scratch::in_memory();
    // Only 16 MiB may be used, and another file occupies them.
    let stranger = scratch.path().join("stranger");
    std::fs::write(&stranger, vec![1; 16 << 20]).unwrap();
    let total = wirelane_store::disk::space(std::fs::File::open(&stranger).unwrap()).unwrap().total;
    let min_free = Some(1.0 - (16 * MIB) as f64 / total as f64);
    let limits = Limits::default().min_free(min_free);
    let mut store = StoreWriter::create(scratch.path(), options(limits)).unwrap();
    let told = Arc::new(Mutex::new([(0, 0); 2]));
    let teller = Arc::clone(&told);
    let lost = move |source: u32, packets: u64, bytes: u64| {
        let sums = &mut teller.lock().unwrap()[source as usize];
        *sums = (sums.0 + packets, sums.1 + bytes);
    };
    let mut lane = store.lane(&sources(), Some(Box::new(lost))).unwrap();
    let (mut taken, mut refused) = ([(0, 0); 2], 0);
    for packet in (0..20_000).map(packet) {
        if lane.push(&packet.record(), None) {
            let sums = &mut taken[packet.interface as usize];
            *sums = (sums.0 + 1, sums.1 + u64::from(packet.original_len));
        } else {
            refused += 1;
        }
    }
    assert!(!lane.wait_for_room(2000, Duration::from_millis(1)));
    wait_for(&store.status(), |report| report.trouble.is_some());
    lane.finish();
    let report = store.finish();
    let total = report.total();
    assert_eq!((total.written.packets, total.dropped.packets), (0, refused));
    assert_eq!(total.lost.packets, taken[0].0 + taken[1].0);
    assert_eq!(*told.lock().unwrap(), taken);
    assert!(refused > 0 && total.lag() == 0);
    assert!(report.last_trouble.unwrap().contains("less of the disk is free"));
    assert_eq!(report.segments, 0);
}

#[test]
fn privileged_recording_goes_on_when_a_full_disk_has_room_again() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(16);
    let stranger = scratch.path().join("stranger");
    std::fs::write(&stranger, vec![1; 10 << 20]).unwrap();
    let mut store = StoreWriter::create(scratch.path(), options(Limits::default())).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let status = store.status();
    let mut numbers = 0..;
    let dropped = AtomicU64::new(0);
    let mut push = |while_so: &dyn Fn(&StoreReport) -> bool| {
        while while_so(&status.report()) {
            let number = numbers.next().unwrap();
            lane.tick(number * 10_000_000);
            if !lane.push(&packet(number).record(), None) {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    // One segment fits, the next does not.
    push(&|report| report.trouble.is_none());
    push(&|report| report.total().dropped.packets < 10);
    let full = status.report();
    assert!(full.trouble.unwrap().contains("No space left on device"));
    std::fs::remove_file(&stranger).unwrap();
    let before = full.lanes[0].written.packets;
    push(&|report| report.lanes[0].written.packets <= before);
    wait_for(&status, |report| report.trouble.is_none());
    lane.finish();
    let report = store.finish();
    let total = report.total();
    assert_eq!(total.dropped.packets, dropped.into_inner());
    assert_eq!(total.written.packets + total.lost.packets, total.taken.packets);
    assert_eq!(scratch.packets(0).len() as u64, total.written.packets);
    scratch.is_sound();
}

#[test]
fn privileged_a_limit_makes_room_on_a_full_disk() {
    if !privileged::require() {
        return;
    }
    let scratch = Scratch::small(20);
    // More than the disk has.
    let limits = Limits::default().max_bytes(100 * MIB);
    let mut store = StoreWriter::create(scratch.path(), options(limits)).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    for packet in (0..50_000).map(packet) {
        assert!(lane.wait_for_room(packet.data.len(), Duration::from_secs(60)));
        assert!(lane.push(&packet.record(), None));
    }
    lane.finish();
    let report = store.finish();
    assert_eq!(report.total().written.packets, 50_000);
    assert!(report.deleted > 0 && report.total().lost.packets == 0);
    let found = scratch.packets(0);
    assert_eq!(found.last(), Some(&packet(49_999)));
    scratch.is_sound();
}

#[test]
fn privileged_what_could_not_be_written_is_written_when_it_can_be() {
    let has_tools = ["mkfs.ext4", "losetup"].into_iter().all(tools::require);
    if !privileged::require() || !has_tools {
        return;
    }
    // If space cannot be reserved, a write finds that the disk is full.
    let scratch = Scratch::without_reservation(64);
    let stranger = scratch.path().join("stranger");
    std::fs::write(&stranger, vec![1; 49 << 20]).unwrap();
    let options = options(Limits::default()).buffer(16 << 20);
    let mut store = StoreWriter::create(scratch.path(), options).unwrap();
    let mut lane = store.lane(&sources(), None).unwrap();
    let status = store.status();
    let mut count = 0;
    let has_failed = |report: &StoreReport| report.trouble.is_some();
    while !has_failed(&status.report()) && lane.wait_for_room(2000, Duration::from_secs(60)) {
        assert!(lane.push(&packet(count).record(), None));
        count += 1;
    }
    while lane.push(&packet(count).record(), None) {
        count += 1;
    }
    let failed = status.report();
    assert_eq!(failed.total().dropped.packets, 1);
    assert!(failed.troubles > 0 && failed.total().lag() > 0, "{failed:?}");
    std::fs::remove_file(&stranger).unwrap();
    wait_for(&status, |report| report.trouble.is_none() && report.total().lag() == 0);
    lane.finish();
    let report = store.finish();
    assert_eq!((report.total().written.packets, report.total().lost.packets), (count, 0));
    let expected: Vec<_> = (0..count).map(packet).collect();
    assert!(scratch.packets(0) == expected, "packets are missing, or in another order");
    scratch.is_sound();
}
