//! Whole conversations of matching packets.

use std::collections::HashSet;

use proptest::prelude::*;
use wirelane_pcap::LINK_TYPE_ETHERNET;
use wirelane_testkit::packets;

use super::ask;
use super::stores::{Packet, SegmentFile, in_order, store};
use crate::index::FlowId;
use crate::query::{Query, count, run};

/// Packets of this number of conversations, one after the other, and some without a conversation.
fn segments(flows: u16, indexed: bool) -> Vec<SegmentFile> {
    let packet = |at: u64| {
        let data = match at % 10 {
            9 => packets::raw(at),
            even if even % 2 == 0 => packets::udp4(at).flow(at as u16 % flows).build(),
            _ => packets::tcp6(at).flow(at as u16 % flows).build(),
        };
        Packet::new(0, 1000 + at, &data)
    };
    let packets: Vec<_> = (0..600).map(packet).collect();
    let extents: Vec<_> = packets.chunks(7).map(<[_]>::to_vec).collect();
    let segment = |(number, extents): (u64, &[Vec<Packet>])| {
        let new = SegmentFile::new(number, extents.to_vec());
        SegmentFile { indexed: indexed && number % 4 != 3, ..new }
    };
    (0..).zip(extents.chunks(11)).map(segment).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn conversations_are_whole(
        flows in 1..60u16,
        from in 1000..1600u64,
        len in 0..60u64,
        expression in 0..3usize,
        indexed: bool,
    ) {
        let segments = segments(flows, indexed);
        let scratch = tempfile::tempdir().unwrap();
        let stores = [store(scratch.path(), &segments)];
        let filter = [None, Some("udp"), Some("greater 300")][expression];
        let filter = filter.map(|text| text.parse().unwrap());
        let part = Query { from: Some(from), to: Some(from + len), filter, ..Query::all() };
        let (matched, _) = ask(&stores, &part);
        let ids: HashSet<_> = matched.iter().filter_map(flow).collect();
        let expected: Vec<_> = in_order(&[&segments])
            .into_iter()
            .filter(|packet| {
                matched.contains(packet) || flow(packet).is_some_and(|flow| ids.contains(&flow))
            })
            .collect();
        let query = Query { flows: true, ..part };
        let (found, report) = ask(&stores, &query);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(report.flows, ids.len() as u64);
        prop_assert!(report.passes == 1 && report.opened <= report.segments);
        prop_assert_eq!(count(&stores, &query).unwrap().packets, report.packets);
    }
}

fn flow(packet: &Packet) -> Option<FlowId> {
    FlowId::of(LINK_TYPE_ETHERNET, &packet.data)
}

#[test]
fn more_conversations_than_memory_has_room_for_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments(500, true))];
    let query = Query { flows: true, memory: 1000, ..Query::all() };
    let error = run(&stores, &query, |_| std::ops::ControlFlow::Continue(())).unwrap_err();
    assert!(error.to_string().contains("narrow the expression"), "{error}");
}
