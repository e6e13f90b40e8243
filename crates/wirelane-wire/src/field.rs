//! Fields at fixed offsets of fixed-size headers. The compiler checks every bound.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::error::WireError;

/// The first `N` bytes and the rest.
#[inline]
pub(crate) fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), WireError> {
    bytes.split_first_chunk().ok_or(WireError::Truncated { needed: N, have: bytes.len() })
}

/// The first `N` bytes and the rest, mutable.
#[inline]
pub(crate) fn split_mut<const N: usize>(
    bytes: &mut [u8],
) -> Result<(&mut [u8; N], &mut [u8]), WireError> {
    let have = bytes.len();
    bytes.split_first_chunk_mut().ok_or(WireError::Truncated { needed: N, have })
}

/// The first `len` bytes.
#[inline]
pub(crate) fn take(bytes: &[u8], len: usize) -> Result<&[u8], WireError> {
    bytes.get(..len).ok_or(WireError::Truncated { needed: len, have: bytes.len() })
}

/// The `M` bytes at `AT`.
#[inline]
pub(crate) fn array<const AT: usize, const M: usize, const N: usize>(header: &[u8; N]) -> [u8; M] {
    const { assert!(AT + M <= N) };
    // As a whole array: without inlining, which does not happen across codegen units,
    // `copy_from_slice` becomes two calls, of itself and of memcpy.
    header[AT..].first_chunk().copied().unwrap_or([0; M])
}

/// The big-endian 16-bit field at `AT`.
#[inline]
pub(crate) fn be16<const AT: usize, const N: usize>(header: &[u8; N]) -> u16 {
    u16::from_be_bytes(array::<AT, 2, N>(header))
}

/// The big-endian 32-bit field at `AT`.
#[inline]
pub(crate) fn be32<const AT: usize, const N: usize>(header: &[u8; N]) -> u32 {
    u32::from_be_bytes(array::<AT, 4, N>(header))
}

/// A type of fields at a fixed offset in a header.
pub(crate) trait HeaderField {
    fn get<const AT: usize, const N: usize>(header: &[u8; N]) -> Self;
    fn put<const AT: usize, const N: usize>(self, header: &mut [u8; N]);
}

/// Implements `HeaderField` for types: their length, and their conversion from and to bytes.
macro_rules! fields {
    ($( $kind:ty: $len:literal, $get:expr, $put:expr; )*) => { $(
        impl crate::field::HeaderField for $kind {
            #[inline]
            fn get<const AT: usize, const N: usize>(header: &[u8; N]) -> Self {
                $get(crate::field::array::<AT, $len, N>(header))
            }

            #[inline]
            fn put<const AT: usize, const N: usize>(self, header: &mut [u8; N]) {
                crate::field::put::<AT, $len, N>(header, $put(self));
            }
        }
    )* };
}

pub(crate) use fields;

fields! {
    u8: 1, |[byte]: [u8; 1]| byte, |byte| [byte];
    u16: 2, u16::from_be_bytes, u16::to_be_bytes;
    u32: 4, u32::from_be_bytes, u32::to_be_bytes;
    [u8; 4]: 4, core::convert::identity, core::convert::identity;
    Ipv4Addr: 4, Ipv4Addr::from, |it: Ipv4Addr| it.octets();
    Ipv6Addr: 16, Ipv6Addr::from, |it: Ipv6Addr| it.octets();
}

/// Writes `options` behind the `N` bytes of a header, and returns the header.
#[inline]
pub(crate) fn put_options<'a, const N: usize>(
    buffer: &'a mut [u8],
    options: &[u8],
) -> Result<&'a mut [u8; N], WireError> {
    let short = WireError::Truncated { needed: N + options.len(), have: buffer.len() };
    let (header, rest) = split_mut::<N>(buffer).map_err(|_| short)?;
    rest.get_mut(..options.len()).ok_or(short)?.copy_from_slice(options);
    Ok(header)
}

/// Writes the `M` bytes at `AT`.
#[inline]
pub(crate) fn put<const AT: usize, const M: usize, const N: usize>(
    header: &mut [u8; N],
    value: [u8; M],
) {
    const { assert!(AT + M <= N) };
    // As a whole array, as above. There is always room.
    if let Some(place) = header[AT..].first_chunk_mut() {
        *place = value;
    }
}
