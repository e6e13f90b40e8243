//! The encoding of a set of extents: the shortest of a list, runs, and a bitmap.
//!
//! Numbers are LEB128: 7 bits a byte, the least significant first, the most significant bit set in
//! all bytes but the last. A set starts with a number `h`; `h % 4` is the form, `h / 4` a count:
//!
//! | form | count | what follows |
//! |---|---|---|
//! | 0 | of extents | for each its distance from the one before, less 1 (the first: itself) |
//! | 1 | of runs | for each: its distance from the end of the one before (the first: from 0), its length less 1 |
//! | 2 | of bytes | a bitmap: extent `e` is bit `e % 8` of byte `e / 8` |

use crate::extent_set::ExtentSet;

const LIST: u64 = 0;
const RUNS: u64 = 1;
const BITMAP: u64 = 2;

/// Appends a set of extents, given in their order.
pub(super) fn encode(extents: &[u32], out: &mut Vec<u8>) {
    let bitmap_len = extents.last().map_or(0, |last| *last as usize / 8 + 1);
    let breaks = extents.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
    let runs = breaks + usize::from(!extents.is_empty());
    let start = out.len();
    // A run takes at least two bytes, an extent in a list one.
    if (runs * 2).min(extents.len()) >= bitmap_len {
        encode_bitmap(extents, bitmap_len, out);
    } else if runs * 2 < extents.len() {
        number((runs as u64) << 2 | RUNS, out);
        let mut end = 0;
        for run in extents.chunk_by(|one, next| one + 1 == *next) {
            number((run[0] - end).into(), out);
            number(run.len() as u64 - 1, out);
            end = run[0] + run.len() as u32;
        }
    } else {
        number((extents.len() as u64) << 2 | LIST, out);
        let mut next = 0;
        for extent in extents {
            number((extent - next).into(), out);
            next = extent + 1;
        }
    }
    if out.len() - start > bitmap_len + 2 {
        out.truncate(start);
        encode_bitmap(extents, bitmap_len, out);
    }
}

fn encode_bitmap(extents: &[u32], len: usize, out: &mut Vec<u8>) {
    number((len as u64) << 2 | BITMAP, out);
    let start = out.len();
    out.resize(start + len, 0);
    let bits = &mut out[start..];
    extents.iter().for_each(|extent| bits[*extent as usize / 8] |= 1 << (extent % 8));
}

/// Decodes a set at the front of `bytes`, and adds it to `set` if there is one; `None` if it is not
/// a valid set of the segment's extents.
pub(super) fn decode(bytes: &mut &[u8], len: usize, set: Option<&mut ExtentSet>) -> Option<()> {
    let head = take_number(bytes)?;
    let count = usize::try_from(head >> 2).ok()?;
    let mut none = ExtentSet::none(0);
    let set = set.unwrap_or(&mut none);
    match head & 3 {
        LIST => {
            let mut next = 0_u64;
            for _ in 0..count {
                let extent = next.checked_add(take_number(bytes)?)?;
                insert(set, extent, 1, len)?;
                next = extent + 1;
            }
        }
        RUNS => {
            let mut end = 0_u64;
            for _ in 0..count {
                let first = end.checked_add(take_number(bytes)?)?;
                let run = take_number(bytes)?.checked_add(1)?;
                insert(set, first, run, len)?;
                end = first + run;
            }
        }
        BITMAP => {
            let (bits, rest) = bytes.split_at_checked(count)?;
            *bytes = rest;
            if count > len / 8 {
                // The last byte may have bits beyond the last extent.
                let last = bits.get(len / 8).copied().unwrap_or(0);
                let is_possible = count == len / 8 + 1 && last >> (len % 8) == 0;
                is_possible.then_some(())?;
            }
            if set.universe() > 0 {
                set.insert_bitmap(bits);
            }
        }
        _ => return None,
    }
    Some(())
}

fn insert(set: &mut ExtentSet, first: u64, count: u64, len: usize) -> Option<()> {
    let end = first.checked_add(count).filter(|end| *end <= len as u64)?;
    if set.universe() > 0 {
        (first..end).for_each(|extent| set.insert(extent as usize));
    }
    Some(())
}

/// Appends a number.
pub(super) fn number(number: u64, out: &mut Vec<u8>) {
    wide_number(number.into(), out);
}

/// Appends a number of up to 128 bits.
pub(super) fn wide_number(mut number: u128, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes a number at the front of `bytes`.
#[inline]
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    u64::try_from(take_wide_number(bytes)?).ok()
}

/// Like [`take_number`], up to 128 bits.
#[inline]
pub(super) fn take_wide_number(bytes: &mut &[u8]) -> Option<u128> {
    // Most numbers are short, and fast in 64 bits.
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(number.into());
        }
    }
    take_long_number(bytes)
}

fn take_long_number(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0_u128;
    for shift in (0..128).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u128::from(byte & 0x7F);
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return (number >> shift == bits).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn survives(extents: &[u32], universe: usize) -> usize {
        let mut bytes = Vec::new();
        encode(extents, &mut bytes);
        let mut set = ExtentSet::none(universe);
        let mut rest = &bytes[..];
        decode(&mut rest, universe, Some(&mut set)).expect("a set");
        assert!(rest.is_empty());
        assert_eq!(set.iter().map(|it| it as u32).collect::<Vec<_>>(), extents);
        // Skipping it reads the same bytes, and detects extents that are too large.
        let mut rest = &bytes[..];
        assert!(decode(&mut rest, universe, None).is_some() && rest.is_empty());
        if let Some(last) = extents.last() {
            assert!(decode(&mut &bytes[..], *last as usize, None).is_none());
        }
        bytes.len()
    }

    #[test]
    fn the_shortest_form_is_taken() {
        assert_eq!(survives(&[], 0), 1);
        assert_eq!(survives(&[5], 256), 2);
        assert_eq!(survives(&(0..256).collect::<Vec<_>>(), 256), 4);
        assert_eq!(survives(&(0..256).step_by(3).collect::<Vec<_>>(), 256), 34);
        assert_eq!(survives(&[0, 70_000], 70_001), 5);
    }

    #[test]
    fn numbers_survive() {
        for value in [0, 127, 128, u128::from(u64::MAX), u128::MAX] {
            let mut bytes = Vec::new();
            wide_number(value, &mut bytes);
            assert_eq!(take_wide_number(&mut &bytes[..]), Some(value));
            assert_eq!(
                take_number(&mut &bytes[..]).map(u128::from),
                Some(value).filter(|it| *it <= u64::MAX.into())
            );
            bytes.pop();
            assert_eq!(take_wide_number(&mut &bytes[..]), None);
        }
    }

    proptest! {
        #[test]
        fn any_set_survives(extents in proptest::collection::btree_set(0..500_u32, 0..300)) {
            let extents: Vec<u32> = extents.into_iter().collect();
            survives(&extents, 500);
        }

        #[test]
        fn no_bytes_are_trusted(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut set = ExtentSet::none(100);
            let _ = decode(&mut &bytes[..], 100, Some(&mut set));
        }
    }
}
