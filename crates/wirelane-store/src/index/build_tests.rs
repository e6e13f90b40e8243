use std::collections::BTreeMap;

use super::*;
use crate::ExtentSet;
use crate::index::samples::samples;
use crate::index::{Index, keys};
use crate::key::Term;
use proptest::prelude::*;

/// A frame of UDP over IPv4.
fn udp(source: u32, destination: u32, ports: [u16; 2]) -> Vec<u8> {
    let mut frame = vec![0; 42];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = 17;
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame
}

fn header(number: usize) -> ExtentHeader {
    ExtentHeader { segment: 9, number: 3 + number as u32, packets: 5, ..ExtentHeader::default() }
}

/// The index of extents of these packets.
fn index(extents: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut builder = IndexBuilder::new(9);
    for (number, packets) in extents.iter().enumerate() {
        packets.iter().for_each(|packet| builder.packet(1, packet));
        builder.end_extent(4096 * number as u64, &header(number));
    }
    builder.finish()
}

/// The answer without any index.
fn scan(extents: &[Vec<Vec<u8>>], term: &Term) -> ExtentSet {
    let mut set = ExtentSet::none(extents.len());
    for (number, packets) in extents.iter().enumerate() {
        for packet in packets {
            keys(1, packet, |field, value| {
                if field == term.field && (term.first..=term.last).contains(&value) {
                    set.insert(number);
                }
            });
        }
    }
    set
}

#[test]
fn an_empty_index_is_one() {
    let index = Index::from_bytes(IndexBuilder::new(7).finish(), "index").unwrap();
    assert_eq!((index.segment(), index.extents().len()), (7, 0));
    assert!(index.lookup(&Term::equal(Field::Port, 1_u16)).unwrap().is_empty());
}

#[test]
fn extents_are_where_they_were_written() {
    let index = Index::from_bytes(index(&[vec![], vec![]]), "index").unwrap();
    for (number, extent) in index.extents().iter().enumerate() {
        assert_eq!(*extent, Extent { offset: 4096 * number as u64, header: header(number) });
    }
}

#[test]
fn many_keys_are_found_over_blocks() {
    let extents: Vec<Vec<Vec<u8>>> = (0..300_u32)
        .map(|extent| {
            (0..50).map(|at| udp(extent * 40 + at, 1, [(extent % 7) as u16, at as u16])).collect()
        })
        .collect();
    let index = Index::from_bytes(index(&extents), "index").unwrap();
    assert!(index.keys(Field::Ipv4) > 12_000);
    for key in [0_u32, 1, 39, 40, 6_000, 12_009, 12_010, u32::MAX] {
        for len in [0, 1, 1000] {
            let first = u128::from(key);
            let term = Term { field: Field::Ipv4, first, last: first + len };
            assert_eq!(index.lookup(&term).unwrap(), scan(&extents, &term), "{term:?}");
        }
    }
    for step in [1, 7, 4000] {
        let values: Vec<u128> = (0..13_000).step_by(step).map(|it| it + 5).collect();
        let mut expected = ExtentSet::none(extents.len());
        for value in &values {
            expected.unite(&index.lookup(&Term::equal(Field::Ipv4, *value)).unwrap());
        }
        assert_eq!(index.lookup_any(Field::Ipv4, &values).unwrap(), expected);
    }
}

#[test]
fn more_conversations_than_are_listed_are_found() {
    let extents: Vec<Vec<Vec<u8>>> =
        (0..9).map(|extent| vec![udp(extent, 1, [extent as u16, 2]); 2]).collect();
    let mut builder = IndexBuilder::with_limit(9, 5);
    for (number, packets) in extents.iter().enumerate() {
        packets.iter().for_each(|packet| builder.packet(1, packet));
        builder.end_extent(0, &header(number));
    }
    let index = Index::from_bytes(builder.finish(), "index").unwrap();
    for value in 0..9_usize {
        for field in [Field::Ipv4, Field::Port] {
            let found = index.lookup(&Term::equal(field, value as u128)).unwrap();
            let listed = scan(&extents, &Term::equal(field, value as u128));
            let expected: Vec<usize> =
                (0..9).filter(|extent| *extent >= 5 || listed.contains(*extent)).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{field:?} {value}");
        }
    }
    // These do not count conversations.
    let all = index.lookup(&Term::equal(Field::Protocol, 6_u8)).unwrap();
    assert!(all.is_empty());
}

#[test]
fn damage_is_no_answer() {
    let extents = [vec![udp(1, 2, [3, 4])], vec![udp(5, 6, [7, 8])]];
    let good = index(&extents);
    let terms: Vec<Term> = Field::ALL.map(|field| Term { field, first: 0, last: u128::MAX }).into();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(index) = Index::from_bytes(bytes, "index") else { continue };
        let answers: Vec<_> = terms.iter().map(|term| index.lookup(term)).collect();
        assert!(answers.iter().any(Result::is_err), "bit {bit}");
        for (term, answer) in terms.iter().zip(answers) {
            assert!(answer.is_err() || answer.unwrap() == scan(&extents, term));
        }
    }
    for len in 0..good.len() {
        assert!(Index::from_bytes(good[..len].to_vec(), "index").is_err(), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn answers_are_those_of_a_scan(
        extents in prop::collection::vec(
            prop::collection::vec((0..40_u32, 0..40_u32, 0..9_u16, 0..9_u16), 0..20), 0..20),
        field in prop::sample::select(&Field::ALL[..]),
        first in prop_oneof![0..40_u128, Just(0x800), any::<u128>()],
        len in prop_oneof![Just(0), 0..40_u128, any::<u128>()],
    ) {
        let packets = |extent: Vec<_>| -> Vec<Vec<u8>> {
            extent.into_iter().map(|(from, to, one, other)| udp(from, to, [one, other])).collect()
        };
        let extents: Vec<_> = extents.into_iter().map(packets).collect();
        let index = Index::from_bytes(index(&extents), "index").unwrap();
        let term = Term { field, first, last: first.saturating_add(len) };
        prop_assert_eq!(index.lookup(&term).unwrap(), scan(&extents, &term));
    }

    #[test]
    fn every_packet_is_found_by_its_keys(
        extents in prop::collection::vec(prop::collection::vec(samples(), 0..8), 0..8),
        link_type in prop::sample::select(&[1, 101, 113, 276][..]),
    ) {
        let mut builder = IndexBuilder::new(9);
        for (number, packets) in extents.iter().enumerate() {
            packets.iter().for_each(|packet| builder.packet(link_type, &packet.bytes(link_type)));
            builder.end_extent(0, &header(number));
        }
        let index = Index::from_bytes(builder.finish(), "index").unwrap();
        let mut expected = BTreeMap::new();
        for (number, packets) in extents.iter().enumerate() {
            for packet in packets {
                keys(link_type, &packet.bytes(link_type), |field, value| {
                    let none = || ExtentSet::none(extents.len());
                    expected.entry((field, value)).or_insert_with(none).insert(number);
                });
            }
        }
        for ((field, value), extents) in &expected {
            prop_assert_eq!(&index.lookup(&Term::equal(*field, *value)).unwrap(), extents);
        }
        for field in Field::ALL {
            let count = expected.keys().filter(|key| key.0 == field).count();
            prop_assert_eq!(index.keys(field), count as u64);
        }
    }
}
