//! Reads arbitrary bytes as the index of a segment; fuzzing skips the checksums. Every answer is
//! about its extents, and a wider term finds at least the same extents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirelane_store::{Field, Index, Term};

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = Index::from_bytes(bytes.to_vec(), "fuzz") else { return };
    assert!(index.extents().len() < bytes.len());
    for field in Field::ALL {
        let every = index.lookup(&Term { field, first: 0, last: u128::MAX });
        for value in [0_u128, 1, 53, 0x800, 0x0A00_0001, 1 << 100] {
            let Ok(one) = index.lookup(&Term::equal(field, value)) else { continue };
            assert_eq!(one.universe(), index.extents().len());
            if let Ok(every) = &every {
                let mut both = every.clone();
                both.unite(&one);
                assert_eq!(both, *every);
            }
        }
        let many: Vec<u128> = (0..100).map(|value| value * 7).collect();
        if let (Ok(many), Ok(every)) = (index.lookup_any(field, &many), every) {
            assert!(many.count() <= every.count());
        }
    }
});
