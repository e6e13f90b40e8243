//! VXLAN headers (RFC 7348): an Ethernet frame in a UDP datagram.

use crate::error::WireError;
use crate::field::{be32, put, split, split_mut};
use crate::header::header;

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// The UDP port of the receiver (RFC 7348 section 5).
pub const PORT: u16 = 4789;

header! {
    /// A checked view of a VXLAN header and the frame in it.
    view VxlanView(LEN) {
        /// The inner frame, from its Ethernet header on.
        pub payload,
    }
}

impl<'a> VxlanView<'a> {
    /// Takes the payload of a UDP datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes; [`WireError::Malformed`] without the
    /// flag of a valid network identifier.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split::<LEN>(bytes)?;
        if header[0] & 0x08 == 0 {
            return Err(WireError::Malformed("VXLAN without a network identifier"));
        }
        Ok(Self { header, payload })
    }

    /// The network identifier, 24 bits.
    #[inline]
    pub fn id(&self) -> u32 {
        be32::<4, LEN>(self.header) >> 8
    }
}

/// The value of a VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vxlan {
    /// The network identifier, 24 bits.
    pub id: u32,
}

impl Vxlan {
    /// Reads the fields of a view. Ignores reserved bits.
    #[inline]
    pub fn parse(view: &VxlanView<'_>) -> Self {
        Self { id: view.id() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        LEN
    }

    /// Writes the header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`]; [`WireError::Malformed`] for
    /// an identifier above 24 bits.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if self.id > 0x00ff_ffff {
            return Err(WireError::Malformed("VXLAN network identifier above 24 bits"));
        }
        let (header, _) = split_mut::<LEN>(buffer)?;
        put::<0, 4, LEN>(header, [0x08, 0, 0, 0]);
        put::<4, 4, LEN>(header, (self.id << 8).to_be_bytes());
        Ok(LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 10] = [0x08, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0xaa, 0xbb];
    const VALUE: Vxlan = Vxlan { id: 0x0012_3456 };

    #[test]
    fn deconstruct() {
        let view = VxlanView::new(&BYTES).unwrap();
        assert_eq!((view.id(), view.payload()), (0x0012_3456, &[0xaa, 0xbb][..]));
    }

    tests! { Vxlan, VxlanView, LEN }

    #[test]
    fn malformed() {
        assert!(Vxlan { id: 1 << 24 }.emit(&mut [0; LEN]).is_err());
        assert!(matches!(VxlanView::new(&[0; LEN]), Err(WireError::Malformed(_))));
    }
}
