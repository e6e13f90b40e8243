//! Lists of candidate segments.

use wirelane_testkit::packets;

use super::ask;
use super::stores::{Packet, SegmentFile, sources, store};
use crate::key::{Field, Term};
use crate::narrow::Keys;
use crate::query::{Query, count, list};

#[test]
fn the_list_tells_what_the_index_knows() {
    // Every extent has two other conversations.
    let packet = |at: u64| {
        let data = packets::udp4(at).flow((at / 5) as u16).build();
        Packet::new(0, 1000 + at, &data)
    };
    let packets: Vec<_> = (0..100).map(packet).collect();
    let extents: Vec<_> = packets.chunks(10).map(<[_]>::to_vec).collect();
    let segments: Vec<_> = (0..)
        .zip(extents.chunks(5))
        .map(|(number, extents)| SegmentFile::new(number, extents.to_vec()))
        .collect();
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments)];

    let (all, report) = list(&stores, &Query::all()).unwrap();
    assert_eq!((all.len(), report.segments, report.extents), (2, 2, 10));
    let told: Vec<_> = all
        .iter()
        .map(|one| (one.packets, one.oldest, one.newest, one.candidates, one.is_indexed))
        .collect();
    assert_eq!(told, [(50, 1000, 1049, 5, true), (50, 1050, 1099, 5, true)]);
    assert!(all.iter().all(|one| one.path.exists() && !one.is_pinned && one.bytes == 5 * 4096));

    // The port of a conversation, which is in one extent.
    let port = u16::from_be_bytes([packets[72].data[34], packets[72].data[35]]);
    let filter = Some(format!("src port {port}").parse().unwrap());
    let query = Query { filter, ..Query::all() };
    let (some, report) = list(&stores, &query).unwrap();
    assert_eq!(some.len(), 1);
    assert_eq!((some[0].name.number, some[0].candidates, some[0].packets), (1, 1, 10));
    assert_eq!((some[0].oldest, some[0].newest), (1070, 1079));
    assert_eq!(report.opened, 2);
    let counted = count(&stores, &query).unwrap();
    assert_eq!((counted.packets, counted.extents_read), (5, 1));

    // The same by keys, which do not filter: the whole extent is in the answer.
    let key = Keys::Term(Term::equal(Field::Port, port));
    for (keys, packets, read) in [
        (key.clone(), 10, 1),
        (Keys::All(vec![key.clone(), key.clone()]), 10, 1),
        (Keys::Any(vec![key.clone(), Keys::Any(Vec::new())]), 10, 1),
        (Keys::All(vec![key, Keys::Any(Vec::new())]), 0, 0),
        (Keys::All(Vec::new()), 100, 10),
    ] {
        let query = Query { keys: Some(keys), ..Query::all() };
        let counted = count(&stores, &query).unwrap();
        assert_eq!((counted.packets, counted.extents_read), (packets, read), "{query:?}");
    }

    // Times narrow segments by their names, and extents by their headers.
    let query = Query { from: Some(1058), to: Some(1061), ..Query::all() };
    let (some, report) = list(&stores, &query).unwrap();
    assert_eq!((some[0].candidates, some[0].oldest, some[0].newest), (2, 1050, 1069));
    assert_eq!((some.len(), report.opened), (1, 1));
    // Extents wholly within the times are counted by their headers.
    let query = Query { from: Some(1005), to: Some(1040), ..Query::all() };
    let counted = count(&stores, &query).unwrap();
    assert_eq!((counted.packets, counted.extents_read), (35, 1));
}

#[test]
fn the_interfaces_are_known_without_a_packet() {
    let packets: Vec<_> = (0..10).map(|at| Packet::new(0, 1000 + at, &[0; 60])).collect();
    let segments = [SegmentFile::new(0, vec![packets.clone()]), SegmentFile::new(1, vec![packets])];
    let scratch = tempfile::tempdir().unwrap();
    let stores = [store(scratch.path(), &segments)];
    let none = Query { from: Some(2000), ..Query::all() };
    let filtered = Query { filter: Some("ip6".parse().unwrap()), ..Query::all() };
    for query in [none, filtered] {
        let (found, report) = ask(&stores, &query);
        assert_eq!((found, report.sources), (vec![], sources()));
    }
}
