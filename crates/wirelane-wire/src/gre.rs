//! GRE headers (RFC 2784), with the key and sequence number of RFC 2890.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::field::{put, split, split_mut};
use crate::header::header;

/// Length of a header without optional fields in bytes.
pub const MIN_LEN: usize = 4;
/// Length of the longest header in bytes.
pub const MAX_LEN: usize = 16;
/// Offset of the checksum in a header that has one.
pub const CHECKSUM_OFFSET: usize = 4;

const CHECKSUM: u8 = 0x80;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;
/// The bits of the first byte that must be 0: routing and strict source route of RFC 1701.
const RESERVED: u8 = 0x4f;

header! {
    /// A checked view of a GRE header and its payload.
    view GreView(MIN_LEN + ..) {
        /// The optional fields.
        fields,
        /// The encapsulated packet.
        pub payload,
    }

    /// The value of a GRE header.
    value Gre {
        /// The type of the payload; [`EtherType::BRIDGED`] for an Ethernet frame.
        protocol: EtherType = 2,
        /// The checksum of header and payload, if there is one.
        checksum: Option<u16>,
        /// The key, if there is one.
        key: Option<u32>,
        /// The sequence number, if there is one.
        sequence: Option<u32>,
    }
}

impl<'a> GreView<'a> {
    /// Takes the payload of an IP packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the optional fields;
    /// [`WireError::Malformed`] for a version other than 0 or the source routes of RFC 1701.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = split::<MIN_LEN>(bytes)?;
        if header[0] & RESERVED != 0 || header[1] & 0x07 != 0 {
            return Err(WireError::Malformed("GRE version or source route"));
        }
        let len = fields_len(header[0]);
        let (fields, payload) = rest
            .split_at_checked(len)
            .ok_or(WireError::Truncated { needed: MIN_LEN + len, have: bytes.len() })?;
        Ok(Self { header, fields, payload })
    }

    /// Bytes of the header, including its optional fields.
    #[inline]
    pub fn header_len(&self) -> usize {
        MIN_LEN + self.fields().len()
    }

    /// The checksum of header and payload, if there is one.
    #[inline]
    pub fn checksum(&self) -> Option<u16> {
        self.optional(CHECKSUM).map(|field| (field >> 16) as u16)
    }

    /// The key, if there is one.
    #[inline]
    pub fn key(&self) -> Option<u32> {
        self.optional(KEY)
    }

    /// The sequence number, if there is one.
    #[inline]
    pub fn sequence(&self) -> Option<u32> {
        self.optional(SEQUENCE)
    }

    /// The optional fields are in the order of their flags, from the highest bit on.
    #[inline]
    fn optional(&self, flag: u8) -> Option<u32> {
        let flags = self.header[0];
        if flags & flag == 0 {
            return None;
        }
        let before = fields_len(flags & !(flag | (flag - 1)));
        self.fields().get(before..)?.first_chunk().map(|field| u32::from_be_bytes(*field))
    }
}

impl Gre {
    /// Bytes that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        MIN_LEN + fields_len(self.flags())
    }

    /// Writes the header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header_len = self.header_len();
        let have = buffer.len();
        let short = WireError::Truncated { needed: header_len, have };
        let buffer = buffer.get_mut(..header_len).ok_or(short)?;
        let (header, fields) = split_mut::<MIN_LEN>(buffer)?;
        put::<0, 2, MIN_LEN>(header, [self.flags(), 0]);
        self.put_fields(header);
        let checksum = self.checksum.map(|checksum| u32::from(checksum) << 16);
        let present = [checksum, self.key, self.sequence].into_iter().flatten();
        for (field, value) in fields.as_chunks_mut::<4>().0.iter_mut().zip(present) {
            *field = value.to_be_bytes();
        }
        Ok(header_len)
    }

    const fn flags(&self) -> u8 {
        let mut flags = 0;
        if self.checksum.is_some() {
            flags |= CHECKSUM;
        }
        if self.key.is_some() {
            flags |= KEY;
        }
        if self.sequence.is_some() {
            flags |= SEQUENCE;
        }
        flags
    }
}

/// Each optional field has 4 bytes.
const fn fields_len(flags: u8) -> usize {
    (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 18] =
        [0xb0, 0, 0x08, 0x00, 0x12, 0x34, 0, 0, 0, 0, 0, 9, 0, 0, 1, 0, 0xaa, 0xbb];
    const VALUE: Gre = Gre {
        protocol: EtherType::IPV4,
        checksum: Some(0x1234),
        key: Some(9),
        sequence: Some(256),
    };

    #[test]
    fn deconstruct() {
        let view = GreView::new(&BYTES).unwrap();
        assert_eq!((view.header_len(), view.protocol()), (16, EtherType::IPV4));
        assert_eq!(view.checksum(), Some(0x1234));
        assert_eq!((view.key(), view.sequence()), (Some(9), Some(256)));
        assert_eq!(view.payload(), [0xaa, 0xbb]);
        let plain = GreView::new(&[0, 0, 0x86, 0xdd, 1]).unwrap();
        assert_eq!((plain.checksum(), plain.key(), plain.sequence()), (None, None, None));
        assert_eq!((plain.protocol(), plain.payload()), (EtherType::IPV6, &[1][..]));
    }

    tests! { Gre, GreView, 16, MIN_LEN, 16 }

    #[test]
    fn optional_fields() {
        for value in [
            VALUE,
            Gre { checksum: None, ..VALUE },
            Gre { key: None, ..VALUE },
            Gre { checksum: None, key: None, ..VALUE },
            Gre { checksum: None, key: None, sequence: None, ..VALUE },
        ] {
            let mut bytes = [0; MAX_LEN];
            let len = value.emit(&mut bytes).unwrap();
            assert_eq!(Gre::parse(&GreView::new(&bytes[..len]).unwrap()), value);
        }
    }

    #[test]
    fn malformed() {
        for first in [[0x40, 0], [0x01, 0], [0, 1]] {
            let bytes = [first[0], first[1], 8, 0];
            assert!(matches!(GreView::new(&bytes), Err(WireError::Malformed(_))));
        }
    }
}
