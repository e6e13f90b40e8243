//! The order of answers, and the packets that they leave out.

use proptest::prelude::*;
use wirelane_pcap::Compression;

use super::ask;
use super::stores::{Packet, SegmentFile, in_order, store};
use crate::query::{Query, count};

/// An extent: a time, and packets with an interface, a time after that, and data.
type Extent = (u64, Vec<(u32, u64, Vec<u8>)>);

/// Segments whose extents overlap in time, with clocks that jump and packets of the same time.
fn segments() -> impl Strategy<Value = Vec<SegmentFile>> {
    let packet = (0..2u32, 0..40u64, proptest::collection::vec(any::<u8>(), 0..60));
    let extent = proptest::collection::vec(packet, 0..12);
    let kind = (0..3usize, any::<bool>(), any::<bool>());
    let segment = (proptest::collection::vec((0..1000u64, extent), 1..6), kind);
    proptest::collection::vec(segment, 0..8).prop_map(|segments| {
        let segment = |(number, (extents, (kind, indexed, finished)))| {
            let extents: Vec<Extent> = extents;
            SegmentFile {
                compression: [None, Some(Compression::Lz4), Some(Compression::Zstd)][kind],
                indexed,
                finished,
                ..SegmentFile::new(number, extents.into_iter().map(packets).collect())
            }
        };
        (5..).zip(segments).map(segment).collect()
    })
}

fn packets((start, packets): Extent) -> Vec<Packet> {
    let packet = |(interface, time, data): (u32, u64, Vec<u8>)| {
        let mut packet = Packet::new(interface, start + time, &data);
        packet.comment = data.first().filter(|byte| **byte < 64).map(u8::to_string);
        packet
    };
    packets.into_iter().map(packet).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn answers_are_whole_and_in_order(
        first in segments(),
        second in segments(),
        from in proptest::option::of(0..1000u64),
        to in proptest::option::of(0..1100u64),
        threads in 1..4usize,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let stores = [
            store(&scratch.path().join("a"), &first),
            store(&scratch.path().join("b"), &second),
        ];
        let query = Query { from, to, threads, ..Query::all() };
        let (found, report) = ask(&stores, &query);
        // The second store has separate interfaces.
        let numbers = |packet: &Packet| (packet.time, packet.data.clone(), packet.comment.clone());
        let expected: Vec<_> = in_order(&[&first, &second])
            .iter()
            .filter(|packet| query.includes(packet.time))
            .map(numbers)
            .collect();
        prop_assert_eq!(found.iter().map(numbers).collect::<Vec<_>>(), expected);
        prop_assert_eq!(&report.damage, &[]);
        prop_assert_eq!(report.segments, (first.len() + second.len()) as u64);
        prop_assert_eq!(count(&stores, &query).unwrap().packets, report.packets);
    }
}
