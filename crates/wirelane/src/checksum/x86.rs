//! The loops for AVX2 and for AVX-512 with VNNI.
//!
//! AVX2 widens 32-bit words to 64-bit lanes, as the portable loop does (RFC 1071 section 2 (B)): the
//! compiler finds these instructions by itself, but not in every version and shape of the loop.
//! VNNI multiplies bytes and adds four products to a 32-bit lane in one instruction: with factors 1
//! and 0 it sums the bytes at even places, and with 0 and 1 those at odd ones.

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

/// Bytes that are summed without a look at carries: at 510 per turn of 64 bytes, 1024 turns leave
/// sixteen lanes whose sum, 256 times as much, fits 32 bits.
const VNNI_PART: usize = 1 << 16;

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
    let mut sum = Sum::ZERO;
    let mut targets = target.chunks_mut(VNNI_PART);
    for part in source.chunks(VNNI_PART) {
        sum = sum.plus(vnni_part::<COPY>(targets.next().unwrap_or_default(), part));
    }
    sum
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn vnni_part<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    let (even, odd) = (_mm512_set1_epi16(0x0001), _mm512_set1_epi16(0x0100));
    // The instruction takes five cycles, so eight of them must be under way at a time.
    let (mut evens, mut odds) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
    let (blocks, rest) = source.as_chunks::<256>();
    let (targets, target_rest) = target.as_chunks_mut::<256>();
    let mut targets = targets.iter_mut();
    for block in blocks {
        let (quarters, _) = block.as_chunks::<64>();
        for ((quarter, evens), odds) in quarters.iter().zip(&mut evens).zip(&mut odds) {
            // SAFETY: a quarter has the 64 bytes that are read.
            let bytes = unsafe { _mm512_loadu_si512(quarter.as_ptr().cast()) };
            *evens = _mm512_dpbusd_epi32(*evens, bytes, even);
            *odds = _mm512_dpbusd_epi32(*odds, bytes, odd);
        }
        if COPY && let Some(target) = targets.next() {
            *target = *block;
        }
    }
    let mut to = target_rest;
    for ((from, evens), odds) in rest.chunks(64).zip(&mut evens).zip(&mut odds) {
        let len = from.len();
        let mask = u64::MAX >> (64 - len);
        // SAFETY: only the first `len` bytes are read, which there are.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast()) };
        *evens = _mm512_dpbusd_epi32(*evens, bytes, even);
        *odds = _mm512_dpbusd_epi32(*odds, bytes, odd);
        if COPY && to.len() >= len {
            // SAFETY: only the first `len` bytes are written, which there are.
            unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, bytes) };
            to = to.split_at_mut(len).1;
        }
    }
    let all = |it: [__m512i; 4]| {
        _mm512_add_epi32(_mm512_add_epi32(it[0], it[1]), _mm512_add_epi32(it[2], it[3]))
    };
    let words = _mm512_add_epi32(_mm512_slli_epi32::<8>(all(evens)), all(odds));
    Sum::of_number(u64::from(_mm512_reduce_add_epi32(words) as u32))
}
