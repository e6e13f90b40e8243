//! The loops for AVX2 and for AVX-512 with VNNI.
//!
//! AVX2 widens 32-bit words to 64-bit lanes, as the portable loop does (RFC 1071 section 2 (B)): the
//! compiler finds these instructions by itself, but not in every version and shape of the loop.
//! VNNI multiplies signed 16-bit words and adds two products to a 32-bit lane in one instruction: with
//! factors 1 it sums words that were made signed by taking 2^15 from each, which is put back at the end.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, Ordering};

use wirelane_wire::checksum::Sum;

/// What the CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// AVX-512 with VNNI.
    Vnni,
    /// AVX2.
    Avx2,
    /// Neither.
    Baseline,
}

/// What the CPU has: one load, once it was asked.
#[inline]
pub(super) fn level() -> Level {
    static FOUND: AtomicU8 = AtomicU8::new(0);
    match FOUND.load(Ordering::Relaxed) {
        1 => Level::Vnni,
        2 => Level::Avx2,
        3 => Level::Baseline,
        _ => detect(&FOUND),
    }
}

#[cold]
fn detect(found: &AtomicU8) -> Level {
    use std::arch::is_x86_feature_detected as has;
    let (level, number) = if has!("avx512f") && has!("avx512bw") && has!("avx512vnni") {
        (Level::Vnni, 1)
    } else if has!("avx2") {
        (Level::Avx2, 2)
    } else {
        (Level::Baseline, 3)
    };
    found.store(number, Ordering::Relaxed);
    level
}

/// Bytes that are summed without a look at carries: 2^15 words, the sum of which fits 32 bits.
const VNNI_PART: usize = 1 << 16;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// Sums `source`, and copies it to `target` if `COPY`: of the same length then.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn avx2<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    let mut lanes = [_mm256_setzero_si256(); 4];
    let (blocks, rest) = source.as_chunks::<64>();
    let (targets, target_rest) = target.as_chunks_mut::<64>();
    let mut targets = targets.iter_mut();
    for block in blocks {
        let (quarters, _) = block.as_chunks::<16>();
        for (lane, quarter) in lanes.iter_mut().zip(quarters) {
            // SAFETY: a quarter has the 16 bytes that are read.
            let words = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            *lane = _mm256_add_epi64(*lane, _mm256_cvtepu32_epi64(words));
        }
        if COPY && let Some(target) = targets.next() {
            *target = *block;
        }
    }
    let both = |a, b| _mm256_add_epi64(a, b);
    let total = both(both(lanes[0], lanes[1]), both(lanes[2], lanes[3]));
    let halves = _mm_add_epi64(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
    let sum = _mm_extract_epi64::<0>(halves) as u64 + _mm_extract_epi64::<1>(halves) as u64;
    if COPY && target_rest.len() == rest.len() {
        target_rest.copy_from_slice(rest);
    }
    // The lanes are in native byte order.
    let sum = u16::from_be(Sum::of_number(sum).partial());
    Sum::of_field(sum).plus(Sum::of(rest))
}

/// As [`avx2`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
pub(super) fn vnni<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    if source.len() <= VNNI_PART {
        return vnni_part::<COPY>(target, source);
    }
    let mut sum = Sum::ZERO;
    let mut targets = target.chunks_mut(VNNI_PART);
    for part in source.chunks(VNNI_PART) {
        sum = sum.plus(vnni_part::<COPY>(targets.next().unwrap_or_default(), part));
    }
    sum
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn vnni_part<const COPY: bool>(mut target: &mut [u8], mut source: &[u8]) -> Sum {
    let (bias, one) = (_mm512_set1_epi16(i16::MIN), _mm512_set1_epi16(1));
    let add = |lane, words| _mm512_dpwssd_epi32(lane, _mm512_xor_si512(words, bias), one);
    let mut lanes = [_mm512_setzero_si512(); 4];
    let mut turns = 0;
    // A load that crosses cache lines takes twice as long. Words must stay words.
    let unaligned = source.as_ptr().align_offset(VECTOR);
    if source.len() >= 4 * VECTOR && unaligned > 0 && unaligned.is_multiple_of(2) {
        let (head, rest) = source.split_at(unaligned);
        let (to, target_rest) = target.split_at_mut(if COPY { unaligned } else { 0 });
        // SAFETY: the head is shorter than a vector.
        lanes[1] = add(lanes[1], unsafe { part::<COPY>(to, head) });
        turns += 1;
        (source, target) = (rest, target_rest);
    }
    let (blocks, rest) = source.as_chunks::<{ 4 * VECTOR }>();
    let (targets, target_rest) = target.as_chunks_mut::<{ 4 * VECTOR }>();
    let mut targets = targets.iter_mut();
    for block in blocks {
        let (vectors, _) = block.as_chunks::<VECTOR>();
        for (lane, vector) in lanes.iter_mut().zip(vectors) {
            // SAFETY: a vector has the 64 bytes that are read.
            *lane = add(*lane, unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) });
        }
        if COPY && let Some(target) = targets.next() {
            *target = *block;
        }
    }
    let mut to = target_rest;
    for (from, lane) in rest.chunks(VECTOR).zip(&mut lanes) {
        let (front, behind) = to.split_at_mut(if COPY { from.len() } else { 0 });
        // SAFETY: no chunk is longer than a vector.
        *lane = add(*lane, unsafe { part::<COPY>(front, from) });
        to = behind;
    }
    let both = |a, b| _mm512_add_epi32(a, b);
    let all = both(both(lanes[0], lanes[1]), both(lanes[2], lanes[3]));
    // Each turn took 2 * 2^15 too little per lane.
    turns += source.len().div_ceil(VECTOR) as i32;
    let all = both(all, _mm512_set1_epi32(turns << 16));
    let halves = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
    let quarters =
        _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
    // All lanes together fit 32 bits, so two of them at once fit 64.
    let sum = (_mm_cvtsi128_si64(quarters) as u64) + (_mm_extract_epi64::<1>(quarters) as u64);
    // The lanes are in native byte order.
    Sum::of_field(u16::from_be(Sum::of_number(sum).partial()))
}

/// The bytes of `source` in front of zeros; copies them to `target`, of the same length, if `COPY`.
///
/// # Safety
/// `source` is at most as long as a vector, and not empty.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn part<const COPY: bool>(target: &mut [u8], source: &[u8]) -> __m512i {
    let mask = u64::MAX >> (VECTOR - source.len());
    // SAFETY: only bytes of `source` are read.
    let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, source.as_ptr().cast()) };
    if COPY && target.len() >= source.len() {
        // SAFETY: only as many bytes are written, which `target` has.
        unsafe { _mm512_mask_storeu_epi8(target.as_mut_ptr().cast(), mask, bytes) };
    }
    bytes
}
