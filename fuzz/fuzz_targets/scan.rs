//! Scans arbitrary bytes as a segment: the scan ends, and its extents and gaps are in the file, in
//! order, without overlaps.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_store::{ExtentHeader, scan};

fuzz_target!(|bytes: &[u8]| {
    for compressed in [false, true] {
        let Ok(found) = scan(bytes, compressed) else { panic!("bytes can be read") };
        let size = bytes.len() as u64;
        assert_eq!(found.size, size);
        let mut ranges: Vec<_> =
            found.gaps.iter().map(|gap| (gap.offset, gap.offset + gap.len)).collect();
        let mut number = None;
        for extent in &found.extents {
            let header = &extent.header;
            assert_eq!(Some(header.segment), found.segment);
            assert!(number < Some(header.number));
            number = Some(header.number);
            let used = ExtentHeader::disk_len(compressed) as u64 + u64::from(header.payload);
            assert!(extent.offset + used <= size);
            let end = extent.offset + header.extent_len(compressed) as u64;
            ranges.push((extent.offset, end.min(size)));
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        assert!(found.end <= size && ranges.iter().all(|range| range.1 <= size));
    }
});
