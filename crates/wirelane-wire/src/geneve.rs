//! Geneve headers (RFC 8926): a frame or packet in a UDP datagram, with options.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::field::{be32, put, put_options, split};
use crate::header::header;

/// Length of a header without options in bytes.
pub const MIN_LEN: usize = 8;
/// Length of the longest header in bytes.
pub const MAX_LEN: usize = MIN_LEN + 63 * 4;
/// The UDP port of the receiver (RFC 8926 section 3.3).
pub const PORT: u16 = 6081;

header! {
    /// A checked view of a Geneve header, its options and its payload.
    view GeneveView(MIN_LEN + options) {
        /// The options, at most 252 bytes.
        pub options,
        /// The encapsulated packet.
        pub payload,
    }

    /// The value of a Geneve header. Reserved bits are not kept.
    value Geneve<'a> {
        /// The type of the payload; [`EtherType::BRIDGED`] for an Ethernet frame.
        protocol: EtherType = 2,
        /// Whether this is a control packet, which carries no traffic.
        control: bool => |view| view.is_control(),
        /// Whether the receiver must understand some option.
        critical_options: bool => |view| view.has_critical_options(),
        /// The network identifier, 24 bits.
        id: u32,
        /// The options: a multiple of 4 bytes, at most 252.
        options: &'a [u8],
    }
}

impl<'a> GeneveView<'a> {
    /// Takes the payload of a UDP datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before header and options;
    /// [`WireError::Malformed`] for a version other than 0.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = split::<MIN_LEN>(bytes)?;
        if header[0] >> 6 != 0 {
            return Err(WireError::Malformed("Geneve version"));
        }
        let options_len = usize::from(header[0] & 0x3f) * 4;
        let needed = MIN_LEN + options_len;
        let (options, payload) = rest
            .split_at_checked(options_len)
            .ok_or(WireError::Truncated { needed, have: bytes.len() })?;
        Ok(Self { header, options, payload })
    }

    /// Whether this is a control packet, which carries no traffic.
    #[inline]
    pub fn is_control(&self) -> bool {
        self.header[1] & 0x80 != 0
    }

    /// Whether the receiver must understand some option.
    #[inline]
    pub fn has_critical_options(&self) -> bool {
        self.header[1] & 0x40 != 0
    }

    /// The network identifier, 24 bits.
    #[inline]
    pub fn id(&self) -> u32 {
        be32::<4, MIN_LEN>(self.header) >> 8
    }
}

impl<'a> Geneve<'a> {
    /// Writes header and options to the front of `buffer` and returns their length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short; [`WireError::Malformed`] for options
    /// that are too long or not a multiple of 4 bytes, or an identifier above 24 bits.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header_len = self.header_len();
        if header_len > MAX_LEN || !header_len.is_multiple_of(4) {
            return Err(WireError::Malformed("Geneve options length"));
        }
        if self.id > 0x00ff_ffff {
            return Err(WireError::Malformed("Geneve network identifier above 24 bits"));
        }
        let header = put_options::<MIN_LEN>(buffer, self.options)?;
        self.put_fields(header);
        header[0] = (self.options.len() / 4) as u8;
        header[1] = u8::from(self.control) << 7 | u8::from(self.critical_options) << 6;
        put::<4, 4, MIN_LEN>(header, (self.id << 8).to_be_bytes());
        Ok(header_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 14] = [1, 0x40, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4, 0xaa, 0xbb];
    const VALUE: Geneve<'_> = Geneve {
        protocol: EtherType::BRIDGED,
        control: false,
        critical_options: true,
        id: 7,
        options: &[1, 2, 3, 4],
    };

    #[test]
    fn deconstruct() {
        let view = GeneveView::new(&BYTES).unwrap();
        assert_eq!((view.header_len(), view.protocol()), (12, EtherType::BRIDGED));
        assert!(!view.is_control() && view.has_critical_options());
        assert_eq!(view.id(), 7);
        assert_eq!((view.options(), view.payload()), (&[1, 2, 3, 4][..], &[0xaa, 0xbb][..]));
    }

    tests! { Geneve, GeneveView, 12, MIN_LEN, 12 }

    #[test]
    fn out_of_range() {
        for wrong in [
            Geneve { id: 1 << 24, ..VALUE },
            Geneve { options: &[0; 3], ..VALUE },
            Geneve { options: &[0; 256], ..VALUE },
        ] {
            assert!(matches!(wrong.emit(&mut [0; 300]), Err(WireError::Malformed(_))));
        }
        assert!(matches!(GeneveView::new(&[0x40; MIN_LEN]), Err(WireError::Malformed(_))));
    }
}
