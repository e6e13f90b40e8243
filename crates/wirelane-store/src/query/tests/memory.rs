//! The order of answers with little memory.

use std::ops::ControlFlow;

use proptest::prelude::*;
use wirelane_pcap::pcapng;

use super::ask;
use super::stores::{Packet, SegmentFile, in_order, store};
use crate::query::Query;
use crate::query::order::{AnswerRun, AnswerWindow};
use crate::query::sweep::Sweep;

/// The blocks of an extent's run: packets with these times, each with its number.
fn run_of(extent: u64, times: &[u64], window: AnswerWindow) -> AnswerRun {
    let mut blocks = Vec::new();
    for (number, time) in (0..).zip(times) {
        let data = [extent as u8, number];
        pcapng::packet(&mut blocks, &Packet::new(0, *time, &data).record());
    }
    let mut run = AnswerRun::new([7].into(), 3, extent);
    for block in pcapng::blocks(&blocks) {
        let block = block.unwrap();
        let pcapng::Content::Packet { record, .. } = block.content else { unreachable!() };
        let place = crate::query::order::PacketPosition {
            time: record.timestamp,
            block: block.offset as u32,
            ..run.start()
        };
        if window.includes(&place) {
            run.push(record.timestamp, &block);
        }
    }
    run.sort();
    run
}

proptest! {
    /// For all times and memory sizes, the sweeps together give the sorted packets, and each makes
    /// progress.
    #[test]
    fn sweeps_give_the_order_in_any_memory(
        mut extents in proptest::collection::vec(proptest::collection::vec(0..30u64, 1..20), 1..20),
        memory in 0..4000usize,
    ) {
        extents.sort_by_key(|times| times.iter().min().copied());
        let mut expected = Vec::new();
        for (extent, times) in (0..).zip(&extents) {
            expected.extend((0..).zip(times).map(|(number, time)| (*time, [extent, number])));
        }
        expected.sort();
        let (mut found, mut window) = (Vec::new(), AnswerWindow::default());
        loop {
            let (mut sweep, before) = (Sweep::new(window, memory), found.len());
            let mut sink = |record: &wirelane_pcap::Record<'_>| {
                assert_eq!(record.interface, 7);
                found.push((record.timestamp, <[u8; 2]>::try_from(record.data).unwrap()));
            };
            for (extent, times) in extents.iter().enumerate() {
                sweep.add(run_of(extent as u64, times, window));
                let next = extents.get(extent + 1).and_then(|times| times.iter().min());
                let _ = sweep.emit(next.copied(), |record, _| {
                    sink(record);
                    ControlFlow::<()>::Continue(())
                });
            }
            let Some(until) = sweep.window().until else { break };
            prop_assert!(found.len() > before);
            window = AnswerWindow { from: until, until: None };
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_store_of_one_time_is_read_again_instead_of_held() {
    // Every extent has packets of all times: all must be read before one is passed on.
    let packet = |at: u64| Packet::new(0, 1000 + at * 7919 % 1000, &[at as u8; 9000]);
    let packets: Vec<_> = (0..2000).map(packet).collect();
    let extents: Vec<_> = packets.chunks(100).map(<[_]>::to_vec).collect();
    let segments =
        [SegmentFile::new(0, extents[..9].to_vec()), SegmentFile::new(1, extents[9..].to_vec())];
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments)];
    let (found, report) = ask(&stores, &Query { memory: 0, ..Query::all() });
    assert!(found == in_order(&[&segments]), "other packets, or another order");
    assert!((3..=8).contains(&report.passes), "{report:?}");
    let (found, report) = ask(&stores, &Query::all());
    assert!(found.len() == 2000 && report.passes == 1);
}
