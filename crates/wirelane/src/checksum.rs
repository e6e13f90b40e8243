//! The internet checksum with the widest vectors of the CPU.
//!
//! [`wirelane_wire::checksum`] is plain Rust, compiled for the vectors that every CPU of the
//! architecture has: 16 bytes on x86-64. This module checks the CPU's features at every call, which
//! costs a load.
#![allow(unsafe_code)]

use wirelane_wire::WireError;
use wirelane_wire::checksum::{self, Sum};

pub use self::vectors::Vectors;

mod vectors;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

/// As [`Sum::of`].
#[inline]
pub fn sum(bytes: &[u8]) -> Sum {
    run::<false>(&mut [], bytes)
}

/// As [`Sum::copy`].
///
/// # Errors
/// [`WireError::Truncated`] when `target` is shorter than `source`; then nothing is copied.
#[inline]
pub fn copy(target: &mut [u8], source: &[u8]) -> Result<Sum, WireError> {
    let error = WireError::Truncated { needed: source.len(), have: target.len() };
    let target = target.get_mut(..source.len()).ok_or(error)?;
    Ok(run::<true>(target, source))
}

/// The sums of the pieces of `unit` bytes in `bytes`, up to the length of `sums`.
#[inline]
pub(crate) fn sums(bytes: &[u8], unit: usize, sums: &mut [Sum]) {
    let unit = unit.max(1);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    match Vectors::used() {
        // SAFETY: the CPU has what the function is compiled for.
        Vectors::Avx512 => return unsafe { x86::vnni_sums(bytes, unit, sums) },
        // SAFETY: the CPU has what the function is compiled for.
        Vectors::Avx2 => return unsafe { x86::avx2_sums(bytes, unit, sums) },
        Vectors::Portable => {}
    }
    for (piece, sum) in bytes.chunks_exact(unit).zip(sums) {
        *sum = checksum::sum(piece);
    }
}

/// Sums `source`. If `COPY`, also copies it to `target`, which must have the same length.
#[inline(always)]
fn run<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    match Vectors::used() {
        // SAFETY: the CPU has what the function is compiled for.
        Vectors::Avx512 => return unsafe { x86::vnni::<COPY>(target, source) },
        // SAFETY: the CPU has what the function is compiled for.
        Vectors::Avx2 => return unsafe { x86::avx2::<COPY>(target, source) },
        Vectors::Portable => {}
    }
    portable::<COPY>(target, source)
}

fn portable<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    if !COPY {
        return checksum::sum(source);
    }
    // The lengths are equal, so this cannot fail.
    checksum::copy(target, source).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the portable sum: all lengths up to a few iterations of every loop, at several
    /// alignments of source and target, and lengths of packets. Bytes around the target must not
    /// change.
    fn check(run: impl Fn(bool, &mut [u8], &[u8]) -> Sum) {
        const AROUND: usize = 64;
        let hash = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
        let (mixed, ones) = ((0..3000).map(hash).collect::<Vec<u8>>(), vec![0xff; 3000]);
        let mut room = vec![0; 3000 + 2 * AROUND];
        for bytes in [mixed, ones, vec![0; 3000]] {
            for length in (0..300).chain([512, 639, 1024, 1440, 1460, 1461, 1500, 2900]) {
                // Odd factors, so that all alignments of both occur over the lengths.
                let starts = [(0, 0), (1, 2), (3, 1), (length * 7 % 64, length * 5 % 32)];
                for (start, target_start) in starts {
                    let source = &bytes[start..start + length];
                    let about = format!("{length} bytes at {start} to {target_start}");
                    assert_eq!(run(false, &mut [], source), Sum::of(source), "{about}");
                    let room = &mut room[target_start..target_start + length + AROUND];
                    room.fill(0xa5);
                    let target = &mut room[AROUND / 2..AROUND / 2 + length];
                    assert_eq!(run(true, target, source), Sum::of(source), "{about}");
                    assert_eq!(target, source, "{about}");
                    let (before, rest) = room.split_at(AROUND / 2);
                    let around = before.iter().chain(&rest[length..]);
                    assert!(around.copied().all(|byte| byte == 0xa5), "{about}");
                }
            }
        }
    }

    #[test]
    fn every_loop_gives_the_same() {
        check(|copying, target, source| match copying {
            true => copy(target, source).unwrap(),
            false => sum(source),
        });
        check(|copying, target, source| match copying {
            true => portable::<true>(target, source),
            false => portable::<false>(target, source),
        });
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::arch::is_x86_feature_detected!("avx2") {
            check(|copying, target, source| match copying {
                // SAFETY: the CPU has AVX2.
                true => unsafe { x86::avx2::<true>(target, source) },
                // SAFETY: the CPU has AVX2.
                false => unsafe { x86::avx2::<false>(target, source) },
            });
        }
    }

    fn check_pieces(run: impl Fn(&[u8], usize, &mut [Sum])) {
        let bytes: Vec<u8> =
            (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for unit in [1, 2, 63, 64, 65, 255, 256, 1459, 1460, 9000, 65_535, 65_536, 66_000] {
            for (start, count) in [(0, 1), (1, 2), (2, 3), (54, 4), (7, 5), (64, 11)] {
                let most = (bytes.len() - start) / unit;
                let pieces = &bytes[start..start + unit * count.min(most)];
                let mut found = vec![Sum::of_field(0xabcd); count];
                run(pieces, unit, &mut found);
                for (piece, sum) in pieces.chunks_exact(unit).zip(&found) {
                    assert_eq!(*sum, Sum::of(piece), "{count} of {unit} bytes at {start}");
                }
            }
        }
    }

    #[test]
    fn pieces_are_summed_as_if_alone() {
        check_pieces(sums);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            check_pieces(|bytes, unit, sums| unsafe { x86::avx2_sums(bytes, unit, sums) });
        }
    }

    #[test]
    fn a_target_too_short_is_left_alone() {
        let mut target = [7; 3];
        assert!(copy(&mut target, &[0; 4]).is_err());
        assert_eq!(target, [7; 3]);
    }

    #[test]
    fn long_data_do_not_overflow() {
        let bytes = vec![0xff; (1 << 24) + 4097];
        for length in [65_535, 65_536, 65_537, 131_072, bytes.len()] {
            let bytes = &bytes[..length];
            assert_eq!(sum(bytes), Sum::of(bytes), "{length}");
            let mut target = vec![0; length];
            assert_eq!(copy(&mut target, bytes).unwrap(), Sum::of(bytes), "{length}");
            assert_eq!(target, bytes, "{length}");
        }
    }

    #[test]
    fn a_limit_is_kept_and_changes_no_sum() {
        let bytes: Vec<u8> = (0..1460_u32).map(|i| (i * 7) as u8).collect();
        let mut target = vec![0; bytes.len()];
        for most in Vectors::ALL {
            let used = Vectors::limit(most);
            assert!(used <= most && used <= Vectors::of_cpu());
            assert_eq!(used, most.min(Vectors::of_cpu()));
            assert_eq!(sum(&bytes), checksum::sum(&bytes), "{used:?}");
            assert_eq!(copy(&mut target, &bytes).unwrap(), checksum::sum(&bytes), "{used:?}");
        }
    }
}
