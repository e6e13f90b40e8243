//! Header fields, and the values of fields that differ from piece to piece.

use std::ops::Range;

use wirelane_wire::TcpFlags;
use wirelane_wire::checksum::Sum;

use super::parts::Piece;

/// The flags of a piece (RFC 9293 section 3.10.7, RFC 3168 section 6.1.2, RFC 9768 section
/// 3.2.2.1).
#[inline]
pub(super) fn flags_of(flags: TcpFlags, first: bool, last: bool, accurate_ecn: bool) -> TcpFlags {
    let flags = if last { flags } else { flags.without(TcpFlags::FIN.with(TcpFlags::PSH)) };
    if first || accurate_ecn { flags } else { flags.without(TcpFlags::CWR) }
}

/// The IPv4 field with the offset, in units of 8 bytes, and "more fragments" as bit 13.
#[inline]
pub(super) fn fragment_offset(piece: &Piece) -> u16 {
    (piece.offset >> 3) as u16 | u16::from(!piece.last) << 13
}

/// The field with the length of a TCP header, and its flags.
#[inline]
pub(super) fn control(header_len: u16, flags: TcpFlags) -> u16 {
    (header_len / 4) << 12 | flags.bits()
}

/// The big-endian field at `at`, which is within the headers.
#[inline]
pub(super) fn field(headers: &[u8], at: usize) -> u16 {
    let bytes = headers.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

#[inline]
pub(super) fn put<const N: usize>(headers: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = headers.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *field = value;
    }
}

/// The `N` bytes at `at`, which are within the headers.
#[inline]
pub(super) fn at_mut<const N: usize>(headers: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    headers.get_mut(at..)?.first_chunk_mut()
}

#[inline]
pub(super) fn sum_of(headers: &[u8], from: usize, to: usize) -> Sum {
    Sum::of(headers.get(from..to).unwrap_or_default())
}

/// The sum of a header, which consists of 32-bit words, without its fields at `fields`.
#[inline]
pub(super) fn sum_but<const N: usize>(
    headers: &[u8],
    header: Range<usize>,
    fields: [usize; N],
) -> Sum {
    let header = headers.get(header).unwrap_or_default();
    let add = |sum, word: &[u8; 4]| sum + u64::from(u32::from_be_bytes(*word));
    // Headers of IPv4 and TCP without options have this length. Because it is constant, the
    // compiler makes no loop.
    let (fixed, options) = header.split_first_chunk::<20>().unwrap_or((&[0; 20], header));
    let all = fixed.as_chunks::<4>().0.iter().fold(0, add);
    let all = options.as_chunks::<4>().0.iter().fold(all, add);
    // Adding the complement subtracts a field (RFC 1624).
    let without: u64 = fields.into_iter().map(|at| u64::from(!field(header, at))).sum();
    Sum::of_number(all + without)
}
