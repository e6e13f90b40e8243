use std::cell::Cell;

use crc32fast::hash;
use proptest::prelude::*;

use super::*;
use crate::extent::{padding, padding_len};

const ID: u64 = 0x1122_3344_5566_7788;

/// A segment of extents with these payloads, and the extents.
fn segment(payloads: &[Vec<u8>], compressed: bool) -> (Vec<u8>, Vec<Extent>) {
    let mut file = prelude::encode(&[7; 300], 300, ID, compressed).unwrap();
    let mut extents = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        let header = ExtentHeader {
            segment: ID,
            number: number as u32,
            packets: 1,
            payload: payload.len() as u32,
            plain: payload.len() as u32,
            oldest: 1,
            newest: 2,
            checksum: hash(payload),
        };
        extents.push(Extent { offset: file.len() as u64, header });
        file.extend_from_slice(&extent(&header, payload, compressed));
    }
    (file, extents)
}

fn extent(header: &ExtentHeader, payload: &[u8], compressed: bool) -> Vec<u8> {
    let mut bytes = header.encode(compressed);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&padding(padding_len(bytes.len(), compressed), compressed));
    assert_eq!(bytes.len(), header.extent_len(compressed));
    bytes
}

fn payloads() -> Vec<Vec<u8>> {
    [100, 4096, 9000, 0, 4020, 30_000].map(|len| vec![0xA5; len]).into()
}

fn kinds(scan: &Scan) -> Vec<GapKind> {
    scan.gaps.iter().map(|gap| gap.kind.clone()).collect()
}

#[test]
fn a_whole_segment() {
    for compressed in [false, true] {
        let (file, extents) = segment(&payloads(), compressed);
        let whole = scan(&file[..], compressed).unwrap();
        assert_eq!(whole.segment, Some(ID));
        assert_eq!(whole.prelude, Some((vec![7; 300], 300)));
        assert_eq!((whole.start, whole.end), (4096, file.len() as u64));
        assert_eq!((&whole.extents, kinds(&whole)), (&extents, vec![]));
        // Reserved space without data.
        let mut reserved = file.clone();
        reserved.resize(file.len() + 3 * CHUNK + 500, 0);
        let scanned = scan(&reserved[..], compressed).unwrap();
        assert_eq!(Scan { size: whole.size, ..scanned }, whole);
    }
}

#[test]
fn a_damaged_header_costs_its_extent() {
    for compressed in [false, true] {
        let (file, extents) = segment(&payloads(), compressed);
        for (number, extent) in extents.iter().enumerate() {
            for at in [0, 5, 30, 71] {
                let mut damaged = file.clone();
                damaged[extent.offset as usize + at] ^= 4;
                let scan = scan(&damaged[..], compressed).unwrap();
                let mut expected = extents.clone();
                expected.remove(number);
                assert_eq!(scan.extents, expected);
                let len = extent.header.extent_len(compressed) as u64;
                assert_eq!(scan.gaps, [Gap { offset: extent.offset, len, kind: GapKind::Damaged }]);
                assert_eq!(scan.end, file.len() as u64);
            }
        }
    }
}

#[test]
fn a_cut_file_keeps_what_is_before_the_cut() {
    for compressed in [false, true] {
        let (file, extents) = segment(&payloads(), compressed);
        for len in (0..file.len()).step_by(52).chain(extents.iter().map(|e| e.offset as usize)) {
            let scan = scan(&file[..len], compressed).unwrap();
            let is_whole = |extent: &&Extent| {
                let used = ExtentHeader::disk_len(compressed) + extent.header.payload as usize;
                extent.offset as usize + used <= len
            };
            let expected: Vec<_> = extents.iter().filter(is_whole).copied().collect();
            assert_eq!(scan.extents, expected, "{len}");
            assert_eq!(scan.size, len as u64);
            // Every incomplete part is reported. A cut between extents is not visible.
            let at_end = extents.iter().any(|extent| extent.offset as usize == len);
            let padding_only = expected.last().is_some_and(|last| {
                (last.offset as usize + last.header.extent_len(compressed)) >= len
            });
            assert_eq!(scan.gaps.is_empty(), at_end || padding_only, "{len}: {scan:?}");
        }
    }
}

#[test]
fn extents_that_never_came_are_told_from_damage() {
    let (file, extents) = segment(&payloads(), false);
    let (from, to) = (extents[1].offset as usize, extents[3].offset as usize);
    let mut holes = file.clone();
    holes[from..to].fill(0);
    let scanned = scan(&holes[..], false).unwrap();
    assert_eq!(scanned.extents, [&extents[..1], &extents[3..]].concat());
    let gap = |kind| Gap { offset: from as u64, len: (to - from) as u64, kind };
    assert_eq!(scanned.gaps, [gap(GapKind::Unwritten)]);
    // One is half written.
    holes[to - 4096..to].fill(3);
    assert_eq!(scan(&holes[..], false).unwrap().gaps, [gap(GapKind::Damaged)]);
    // As a file, with holes that are skipped.
    let sparse = tempfile::tempfile().unwrap();
    for (from, to) in [(0, from), (to, file.len())] {
        sparse.write_all_at(&file[from..to], from as u64).unwrap();
    }
    sparse.set_len(1 << 30).unwrap();
    let of_file = scan(&sparse, false).unwrap();
    assert_eq!((of_file.extents, of_file.gaps), (scanned.extents, scanned.gaps));
}

/// A recorder writes while the scan reads.
#[test]
fn an_extent_that_comes_meanwhile_is_found() {
    struct Growing<'a>(&'a [u8], u64, Cell<bool>);

    impl ReadAt for Growing<'_> {
        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let len = self.0.read_at(buffer, offset)?;
            if offset == self.1 && !self.2.replace(true) {
                buffer[..len].fill(0);
            }
            Ok(len)
        }

        fn next_data(&self, offset: u64) -> Option<u64> {
            self.0.next_data(offset)
        }
    }

    let (file, extents) = segment(&payloads(), true);
    for extent in &extents {
        let growing = Growing(&file, extent.offset, Cell::new(false));
        let scanned = scan(&growing, true).unwrap();
        assert!(growing.2.get());
        assert_eq!((&scanned.extents, kinds(&scanned)), (&extents, vec![]));
    }
}

#[test]
fn fillers_are_skipped() {
    for compressed in [false, true] {
        for (filler, kinds_expected) in
            [(Filler::Padding, vec![]), (Filler::Damage, vec![GapKind::Mended])]
        {
            let (mut file, extents) = segment(&payloads(), compressed);
            let (from, to) = (extents[2].offset as usize, extents[3].offset as usize);
            let (start, end) = filler.around((to - from) as u32, compressed);
            file[from..from + 8].copy_from_slice(&start);
            file[to - end.len()..to].copy_from_slice(&end);
            let scan = scan(&file[..], compressed).unwrap();
            assert_eq!(scan.extents, [&extents[..2], &extents[3..]].concat());
            assert_eq!(kinds(&scan), kinds_expected);
        }
    }
}

#[test]
fn headers_inside_of_packets_are_not_believed() {
    for compressed in [false, true] {
        let (own, _) = segment(&payloads(), compressed);
        // An extent whose payload holds, at pages, earlier extents of the same segment, and a
        // foreign one.
        let mut payload = vec![0xA5; 4096 - ExtentHeader::disk_len(compressed)];
        payload.extend_from_slice(&own[4096..]);
        let foreign = ExtentHeader { segment: 5, number: 50, ..ExtentHeader::default() };
        payload.extend_from_slice(&extent(&foreign, &[], compressed));
        let all = [payloads(), vec![payload], payloads()].concat();
        let (mut file, extents) = segment(&all, compressed);
        let evil = extents[payloads().len()];
        file[evil.offset as usize + 20] ^= 1;
        let scan = scan(&file[..], compressed).unwrap();
        let expected: Vec<_> = extents.iter().filter(|one| **one != evil).copied().collect();
        assert_eq!(scan.extents, expected);
        assert_eq!(kinds(&scan), [GapKind::Damaged]);
    }
}

#[test]
fn a_lost_prelude_does_not_hide_extents() {
    let (mut file, extents) = segment(&payloads(), false);
    file[..4096].fill(1);
    let scanned = scan(&file[..], false).unwrap();
    assert_eq!((scanned.extents, scanned.prelude), (extents.clone(), None));
    assert_eq!(scanned.gaps, [Gap { offset: 0, len: 4096, kind: GapKind::NoPrelude }]);
    let (mut file, _) = segment(&payloads(), false);
    file[5] ^= 1;
    let scanned = scan(&file[..], false).unwrap();
    assert_eq!((kinds(&scanned), scanned.extents), (vec![GapKind::Prelude], extents));
}

#[test]
fn unreadable_pages_are_stepped_over() {
    struct BadDisk(Vec<u8>, std::ops::Range<u64>);
    impl ReadAt for BadDisk {
        fn size(&self) -> io::Result<u64> {
            self.0.as_slice().size()
        }
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let len = self.0.as_slice().read_at(buffer, offset)?;
            let is_bad = offset < self.1.end && self.1.start < offset + len as u64;
            if is_bad { Err(io::Error::from_raw_os_error(5)) } else { Ok(len) }
        }
        fn next_data(&self, offset: u64) -> Option<u64> {
            self.0.as_slice().next_data(offset)
        }
    }
    let many = vec![vec![0xA5; 30_000]; 40];
    let (file, extents) = segment(&many, false);
    let bad = extents[20].offset;
    let scan = scan(&BadDisk(file, bad..bad + 100), false).unwrap();
    let expected: Vec<_> = extents.iter().filter(|one| one.offset != bad).copied().collect();
    assert_eq!(scan.extents, expected);
    assert!(matches!(&scan.gaps[..], [Gap { kind: GapKind::Unreadable(_), .. }, ..]));
}

proptest! {
    #[test]
    fn damage_never_makes_extents_up(
        compressed: bool,
        sizes in prop::collection::vec(0_usize..20_000, 0..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let payloads: Vec<_> = sizes.iter().map(|len| vec![0x5A; *len]).collect();
        let (mut file, extents) = segment(&payloads, compressed);
        for (at, value) in damage {
            let at = at.index(file.len());
            file[at] = value;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let scan = scan(&file[..], compressed).unwrap();
        prop_assert!(scan.extents.iter().all(|one| extents.contains(one)));
        // Extents and gaps follow each other, inside of the file.
        let mut ranges: Vec<_> = scan.gaps.iter().map(|gap| (gap.offset, gap.offset + gap.len)).collect();
        ranges.extend(scan.extents.iter().map(|one| {
            let end = one.offset + one.header.extent_len(compressed) as u64;
            (one.offset, end.min(scan.size))
        }));
        ranges.sort_unstable();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", ranges);
        prop_assert!(ranges.last().is_none_or(|last| last.1 <= scan.size));
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..5_000), compressed: bool) {
        let scan = scan(&bytes[..], compressed).unwrap();
        prop_assert!(scan.extents.is_empty());
    }
}
