//! The loops for AVX-512 with VNNI, and in a submodule for AVX2.
//!
//! VNNI multiplies signed 16-bit words and adds two products to a 32-bit lane in one instruction.
//! With factors of 1 it sums words, which are made signed by subtracting 2^15 from each; this is
//! added back at the end.

use std::arch::x86_64::*;
use wirelane_wire::checksum::Sum;

pub(super) use self::avx2::{avx2, avx2_sums};

mod avx2;

/// Bytes to sum without checking carries: 2^15 words, whose sum fits in 32 bits.
const VNNI_PART: usize = 1 << 16;

/// Bytes of a vector.
const VECTOR: usize = 64;

/// As [`avx2_sums`].
///
/// Reads whole vectors from the start of each piece: the same number for every piece, so that the
/// CPU predicts all jumps. Pieces of a long frame come from the second-level cache, where loads
/// that cross cache lines cost no more.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
pub(super) fn vnni_sums(bytes: &[u8], unit: usize, sums: &mut [Sum]) {
    if unit > VNNI_PART {
        for (piece, sum) in bytes.chunks_exact(unit).zip(sums) {
            *sum = vnni_long::<false>(&mut [], piece);
        }
        return;
    }
    let vectors = unit / VECTOR;
    let in_rest = !(u64::MAX << (unit % VECTOR));
    for (piece, sum) in bytes.chunks_exact(unit).zip(sums) {
        let mut from = piece.as_ptr();
        let mut lanes = lanes_for(vectors + 1);
        // Counts down: from a loop that counts up, LLVM makes code that took one and a half times
        // as long.
        let mut left = vectors;
        while left >= lanes.len() {
            for lane in &mut lanes {
                // SAFETY: the whole vector is in the piece.
                add(lane, unsafe { _mm512_loadu_si512(from.cast()) });
                from = from.wrapping_add(VECTOR);
            }
            left -= lanes.len();
        }
        while left > 0 {
            // SAFETY: as above.
            add(&mut lanes[1], unsafe { _mm512_loadu_si512(from.cast()) });
            from = from.wrapping_add(VECTOR);
            left -= 1;
        }
        // SAFETY: the mask leaves bytes of the piece; others are not touched.
        add(&mut lanes[2], unsafe { _mm512_maskz_loadu_epi8(in_rest, from.cast()) });
        *sum = total(lanes, false);
    }
}

/// As [`avx2`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
pub(super) fn vnni<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    if source.len() > VNNI_PART {
        return vnni_long::<COPY>(target, source);
    }
    vnni_part::<COPY>(target, source)
}

/// Sums in parts.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[cold]
#[inline(never)]
fn vnni_long<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    let mut sum = Sum::ZERO;
    let mut targets = target.chunks_mut(VNNI_PART);
    for part in source.chunks(VNNI_PART) {
        sum = sum.plus(vnni::<COPY>(targets.next().unwrap_or_default(), part));
    }
    sum
}

/// Reads aligned vectors, from the one with the first byte of the source to the one with the last,
/// and masks bytes outside the source: a load that crosses cache lines takes twice as long. A copy
/// uses the aligned vectors of its target.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn vnni_part<const COPY: bool>(target: &mut [u8], source: &[u8]) -> Sum {
    if source.is_empty() || (COPY && target.len() != source.len()) {
        return Sum::ZERO;
    }
    let before = if COPY { target.as_ptr().addr() } else { source.as_ptr().addr() } % VECTOR;
    let end = before + source.len();
    // The index of the vector with the last byte; the first vector has index 0.
    let last = (end - 1) / VECTOR;
    let in_first = u64::MAX << before;
    let in_last = u64::MAX >> (last * VECTOR + VECTOR - end);

    // The start of the first vector: bytes before source and target are masked.
    let mut from = source.as_ptr().wrapping_sub(before);
    let mut to = target.as_mut_ptr().wrapping_sub(if COPY { before } else { 0 });
    let mut lanes = lanes_for(last + 1);

    let in_only = if last == 0 { in_last } else { u64::MAX };
    // SAFETY: the mask leaves bytes of the source, and so of the target.
    add(&mut lanes[0], unsafe { masked::<COPY>(to, from, in_first & in_only) });
    // The vectors between the first and the last one. Counts down: from a loop that counts up, LLVM
    // makes code that took one and a half times as long.
    let mut between = last.saturating_sub(1);
    while between >= lanes.len() {
        for lane in &mut lanes {
            (from, to) = (from.wrapping_add(VECTOR), to.wrapping_add(VECTOR));
            // SAFETY: the whole vector is in the source, and so in the target.
            add(lane, unsafe { whole::<COPY>(to, from) });
        }
        between -= lanes.len();
    }
    while between > 0 {
        (from, to) = (from.wrapping_add(VECTOR), to.wrapping_add(VECTOR));
        // SAFETY: as above.
        add(&mut lanes[2], unsafe { whole::<COPY>(to, from) });
        between -= 1;
    }
    if last > 0 {
        (from, to) = (from.wrapping_add(VECTOR), to.wrapping_add(VECTOR));
        // SAFETY: the mask leaves bytes of the source, and so of the target.
        add(&mut lanes[3], unsafe { masked::<COPY>(to, from, in_last) });
    }
    total(lanes, !before.is_multiple_of(2))
}

/// Lanes for the sums of `vectors` vectors. The first lane starts with the amount that [`add`]
/// subtracts, which is 2^16 per vector and lane.
#[target_feature(enable = "avx512f")]
#[inline]
fn lanes_for(vectors: usize) -> [__m512i; 4] {
    let zero = _mm512_setzero_si512();
    [_mm512_set1_epi32((vectors as i32) << 16), zero, zero, zero]
}

/// Adds the words of a vector, made signed.
#[target_feature(enable = "avx512f,avx512vnni")]
#[inline]
fn add(lane: &mut __m512i, words: __m512i) {
    let signed = _mm512_xor_si512(words, _mm512_set1_epi16(i16::MIN));
    *lane = _mm512_dpwssd_epi32(*lane, signed, _mm512_set1_epi16(1));
}

/// The sum of lanes in native byte order. If `odd`, the words of the lanes are shifted by a byte
/// against the words of the data, which swaps the bytes of the sum (RFC 1071 section 2 (B)).
#[target_feature(enable = "avx512f")]
#[inline]
fn total([a, b, c, d]: [__m512i; 4], odd: bool) -> Sum {
    let all = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
    let half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
    let quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    // All lanes together fit in 32 bits, so pairs of them fit in 64 bits.
    let (low, high) = (_mm_cvtsi128_si64(quarter), _mm_extract_epi64::<1>(quarter));
    let sum = Sum::of_number(low as u64 + high as u64).partial();
    Sum::of_field(if odd { u16::from_le(sum) } else { u16::from_be(sum) })
}

/// Reads a vector, and copies it if `COPY`.
///
/// # Safety
/// `from` has the bytes of a vector, and if `COPY`, `to` has room for them.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn whole<const COPY: bool>(to: *mut u8, from: *const u8) -> __m512i {
    // SAFETY: promised by the caller.
    let bytes = unsafe { _mm512_loadu_si512(from.cast()) };
    if COPY {
        // Prefetches the next bytes of the target for writing. Without this the compiler would also
        // replace the loop by a call of `memcpy`.
        _mm_prefetch::<_MM_HINT_ET0>(to.wrapping_add(8 * VECTOR).cast());
        // SAFETY: promised by the caller.
        unsafe { _mm512_storeu_si512(to.cast(), bytes) };
    }
    bytes
}

/// As [`whole`], for the bytes in `mask` only; the others are zero.
///
/// # Safety
/// `from` has these bytes, and if `COPY`, `to` has room for them.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn masked<const COPY: bool>(to: *mut u8, from: *const u8, mask: u64) -> __m512i {
    // SAFETY: masked bytes are not touched; the others are promised by the caller.
    let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) };
    if COPY {
        // SAFETY: promised by the caller.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask, bytes) };
    }
    bytes
}
