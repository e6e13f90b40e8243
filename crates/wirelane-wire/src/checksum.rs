//! The internet checksum (RFC 1071), its pseudo-headers (RFC 9293 section 3.1, RFC 8200 section
//! 8.1) and its incremental update (RFC 1624).
//!
//! A [`Sum`] is a partial result. Sums of parts combine into the sum of the whole, so that a
//! payload is read only once, whatever headers precede it:
//!
//! ```
//! use core::net::Ipv4Addr;
//! use wirelane_wire::{Protocol, checksum::{Sum, pseudo_v4}};
//!
//! let segment = [0x12, 0x34, 0, 53, 0, 9, 0, 0, b'x'];
//! let pseudo = pseudo_v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, Protocol::UDP, 9);
//! let checksum = pseudo.plus(Sum::of(&segment)).checksum_nonzero();
//! assert_eq!(checksum, 0x7770);
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::error::WireError;
use crate::protocol::Protocol;

/// A partial internet checksum: a one's complement sum of big-endian 16-bit words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u16);

impl Sum {
    /// The sum of no data.
    pub const ZERO: Self = Self(0);

    /// Sums bytes that begin at an even offset of the covered data. A last odd byte is padded with
    /// a zero byte.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        sum(bytes)
    }

    /// Copies `source` to the front of `target` and sums it in the same pass over memory.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `target` is shorter than `source`; nothing is copied then.
    #[inline]
    pub fn copy(target: &mut [u8], source: &[u8]) -> Result<Self, WireError> {
        copy(target, source)
    }

    /// The sum of one big-endian 16-bit field.
    #[inline]
    pub const fn of_field(field: u16) -> Self {
        Self(field)
    }

    /// The sum of the four 16-bit words of `number`, for example of fields that were added without
    /// carry.
    #[inline]
    pub const fn of_number(number: u64) -> Self {
        Self(fold(number))
    }

    /// The sum of both parts, each at an even offset of the covered data.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + carry as u16)
    }

    /// Subtracts `other`: the inverse of [`plus`](Self::plus), except that the result for a sum of
    /// non-zero data is `0xffff` instead of 0.
    #[inline]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        self.plus(Self(!other.0))
    }

    /// The sum of `len` bytes (`self`) followed by the bytes of `next`. For an odd `len`, `next` is
    /// byte-swapped (RFC 1071 section 2 (B)).
    #[inline]
    #[must_use]
    pub const fn followed_by(self, len: usize, next: Self) -> Self {
        if len.is_multiple_of(2) { self.plus(next) } else { self.plus(Self(next.0.swap_bytes())) }
    }

    /// The sum without complement: the value of a checksum field whose completion is left to an
    /// offload (`CHECKSUM_PARTIAL`).
    #[inline]
    pub const fn partial(self) -> u16 {
        self.0
    }

    /// The value for a checksum field that was zero while it was summed.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.0
    }

    /// As [`checksum`](Self::checksum), with 0 replaced by the equivalent `0xffff`, as UDP requires
    /// (RFC 768: zero means no checksum).
    #[inline]
    pub const fn checksum_nonzero(self) -> u16 {
        match !self.0 {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Whether a sum that includes the checksum field proves that the data are intact.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.0 == 0xffff
    }
}

/// Bytes per iteration of the vectorised loops: LLVM does not vectorise longer iterations well.
const BLOCK: usize = 32;

/// As [`Sum::of`], always inlined: a caller that is compiled for wider vectors
/// (`#[target_feature]`) gets a loop with those vectors.
#[inline(always)]
pub fn sum(bytes: &[u8]) -> Sum {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut lanes = [0; BLOCK / 4];
    for block in blocks {
        add_block(&mut lanes, block);
    }
    Sum(u16::from_be(fold(lanes.iter().sum::<u64>() + short(rest))))
}

/// As [`Sum::copy`], always inlined like [`sum`].
///
/// # Errors
/// As there.
#[inline(always)]
pub fn copy(target: &mut [u8], source: &[u8]) -> Result<Sum, WireError> {
    let have = target.len();
    let needed = source.len();
    let target = target.get_mut(..needed).ok_or(WireError::Truncated { needed, have })?;
    let (blocks, rest) = source.as_chunks::<BLOCK>();
    let (target_blocks, target_rest) = target.as_chunks_mut::<BLOCK>();
    let mut lanes = [0; BLOCK / 4];
    for (target, block) in target_blocks.iter_mut().zip(blocks) {
        *target = *block;
        add_block(&mut lanes, block);
    }
    // Both have the same length, as their slices have.
    target_rest.copy_from_slice(rest);
    Ok(Sum(u16::from_be(fold(lanes.iter().sum::<u64>() + short(rest)))))
}

/// RFC 1071 section 2 (B): the sum may be computed in native byte order and swapped once; and as
/// 2^16 = 1 modulo 0xffff, in wider words. Independent lanes let the compiler use vectors. A lane
/// cannot overflow below 128 GiB.
#[inline(always)]
fn add_block(lanes: &mut [u64; BLOCK / 4], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<4>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane += u64::from(u32::from_ne_bytes(*word));
    }
}

/// The sum of the bytes after the blocks, in native byte order.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = 0;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let last = match *rest {
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => [0; 4],
    };
    sum + u64::from(u32::from_ne_bytes(last))
}

/// The checksum of one contiguous piece, for example of an IPv4 header with a zeroed checksum
/// field.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// The pseudo-header of a transport segment over IPv4; `length` is the length of the segment in
/// bytes.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: Protocol, length: u32) -> Sum {
    let addresses = u64::from(source.to_bits()) + u64::from(destination.to_bits());
    Sum(fold(addresses + u64::from(protocol.0) + u64::from(length)))
}

/// The pseudo-header of an upper-layer packet over IPv6; `length` is the length of the packet in
/// bytes, and `protocol` the upper layer's, whatever extension headers precede it.
#[inline]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: Protocol, length: u32) -> Sum {
    Sum::of(&source.octets())
        .plus(Sum::of(&destination.octets()))
        .plus(Sum(fold(u64::from(protocol.0) + u64::from(length))))
}

/// The checksum after one covered 16-bit field changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    update_sum(checksum, Sum(old), Sum(new))
}

/// The checksum after a covered part changed, given the part's sum before and after.
#[inline]
pub const fn update_sum(checksum: u16, old: Sum, new: Sum) -> u16 {
    Sum(!checksum).minus(old).plus(new).checksum()
}

/// The kind of value in a transport checksum field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumState {
    /// The checksum of the whole packet. A UDP field of 0 means no checksum.
    #[default]
    Complete,
    /// The sum of the pseudo-header, without complement. A device or a segmenter completes it
    /// (`CHECKSUM_PARTIAL` in the kernel).
    Partial,
}

impl ChecksumState {
    /// The field after a covered part of the transport packet changed, given the part's sum before
    /// and after. A partial checksum does not cover the packet itself.
    #[inline]
    pub const fn packet_changed(self, field: u16, old: Sum, new: Sum) -> u16 {
        match self {
            Self::Complete => update_sum(field, old, new),
            Self::Partial => field,
        }
    }

    /// The field after a part of the pseudo-header changed, given the part's sum before and after.
    #[inline]
    pub const fn pseudo_changed(self, field: u16, old: Sum, new: Sum) -> u16 {
        match self {
            Self::Complete => update_sum(field, old, new),
            Self::Partial => Sum(field).minus(old).plus(new).partial(),
        }
    }
}

/// Adds the four 16-bit words of `sum` with end-around carry.
#[inline]
const fn fold(sum: u64) -> u16 {
    // The upper half of the sum of a number and the same number with swapped halves is the
    // end-around-carry sum of the halves.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071 section 3.
    const RFC_1071: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

    #[test]
    fn rfc_1071_example() {
        assert_eq!(Sum::of(&RFC_1071).partial(), 0xddf2);
        assert_eq!(checksum(&RFC_1071), 0x220d);
    }

    #[test]
    fn nothing_and_odd_lengths() {
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(Sum::of(&[0xab]).partial(), 0xab00);
        assert_eq!(Sum::of(&[0, 0, 0, 0xab, 0xcd]).partial(), 0xcdab);
    }

    #[test]
    fn copying_sums_the_same() {
        let source: [u8; 200] = core::array::from_fn(|i| (i * 37 + 11) as u8);
        for length in 0..=source.len() {
            let (source, mut target) = (&source[..length], [0xa5; 201]);
            assert_eq!(Sum::copy(&mut target, source), Ok(Sum::of(source)), "{length}");
            assert_eq!((&target[..length], target[length]), (source, 0xa5));
            if length > 0 {
                let error = WireError::Truncated { needed: length, have: length - 1 };
                assert_eq!(Sum::copy(&mut target[..length - 1], source), Err(error));
            }
        }
    }

    #[test]
    fn rfc_1624_example() {
        // Section 4: a header whose checksum is 0xdd2f, and a field that goes from 0x5555 to
        // 0x3285.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn parts_combine() {
        for cut in 0..=RFC_1071.len() {
            let (head, tail) = RFC_1071.split_at(cut);
            assert_eq!(Sum::of(head).followed_by(cut, Sum::of(tail)), Sum::of(&RFC_1071));
        }
    }

    #[test]
    fn partial_sums_follow_the_pseudo_header_only() {
        let (old, new) = (Sum::of_field(0x5555), Sum::of_field(0x3285));
        assert_eq!(ChecksumState::Complete.packet_changed(0xdd2f, old, new), 0);
        assert_eq!(ChecksumState::Complete.pseudo_changed(0xdd2f, old, new), 0);
        assert_eq!(ChecksumState::Partial.packet_changed(0xdd2f, old, new), 0xdd2f);
        let field = Sum::of_field(0x1234).plus(old).partial();
        let expected = Sum::of_field(0x1234).plus(new).partial();
        assert_eq!(ChecksumState::Partial.pseudo_changed(field, old, new), expected);
    }

    #[test]
    fn nonzero_for_udp() {
        let sum = Sum::of(&[0xff, 0xff]);
        assert_eq!((sum.checksum(), sum.checksum_nonzero()), (0, 0xffff));
    }

    #[test]
    fn folding_carries_to_the_end() {
        assert_eq!(Sum::of_number(0x1_ffff), Sum::of_field(1));
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0xffff_ffff_0000_0001), 1);
        assert_eq!(fold(0), 0);
    }

    #[test]
    fn pseudo_headers_equal_their_bytes() {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 7));
        let bytes = [192, 0, 2, 1, 198, 51, 100, 7, 0, 17, 0x12, 0x34];
        assert_eq!(pseudo_v4(a, b, Protocol::UDP, 0x1234), Sum::of(&bytes));

        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xffff));
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&a.octets());
        bytes[16..32].copy_from_slice(&b.octets());
        bytes[32..36].copy_from_slice(&0x0012_3456_u32.to_be_bytes());
        bytes[39] = 6;
        assert_eq!(pseudo_v6(a, b, Protocol::TCP, 0x0012_3456), Sum::of(&bytes));
    }
}
