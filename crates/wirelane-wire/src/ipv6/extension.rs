//! IPv6 extension headers (RFC 8200 section 4, RFC 4302 for AH).

use crate::error::WireError;
use crate::field::{be16, put, split, split_mut, take};
use crate::header::header;
use crate::protocol::Protocol;

/// Length of a fragment header in bytes.
pub const FRAGMENT_LEN: usize = 8;

/// Steps over extension headers to the upper-layer packet. `next_header` is the type of the first
/// header in `payload`. An order that RFC 8200 advises against is accepted.
///
/// # Errors
/// [`WireError::Truncated`] when the bytes end within an extension header.
#[inline]
pub fn walk(next_header: Protocol, payload: &[u8]) -> Result<Upper<'_>, WireError> {
    let mut walker = extensions(next_header, payload);
    let mut fragment = None;
    for extension in &mut walker {
        let extension = extension?;
        if extension.kind == Protocol::FRAGMENT {
            fragment = Some(Fragment::parse(&FragmentView::new(extension.bytes)?));
        }
    }
    Ok(Upper { protocol: walker.next, offset: walker.offset, payload: walker.rest, fragment })
}

/// Iterates over the extension headers only. `next_header` is the type of the first header in
/// `payload`.
#[inline]
pub fn extensions(next_header: Protocol, payload: &[u8]) -> Extensions<'_> {
    Extensions { next: next_header, rest: payload, offset: 0, finished: false }
}

/// The packet after the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper<'a> {
    /// The upper layer. For a later fragment, the protocol that the fragment header states; the
    /// payload then begins in the middle of that packet.
    pub protocol: Protocol,
    /// Bytes of extension headers before the payload.
    pub offset: usize,
    /// The upper-layer packet.
    pub payload: &'a [u8],
    /// The last fragment header, if any.
    pub fragment: Option<Fragment>,
}

impl Upper<'_> {
    /// Whether this is a fragment. A fragment header around a whole packet (an atomic fragment, RFC
    /// 6946) does not make it one.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.more_fragments || fragment.offset != 0)
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type, for which [`Protocol::is_extension`] holds.
    pub kind: Protocol,
    /// The type of the next header.
    pub next_header: Protocol,
    /// Its offset, in bytes after the fixed header.
    pub offset: usize,
    /// The whole header.
    pub bytes: &'a [u8],
}

/// An iterator over extension headers. It ends after an error, and after the header of a later
/// fragment, because no header follows that.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    next: Protocol,
    rest: &'a [u8],
    offset: usize,
    finished: bool,
}

impl<'a> Extensions<'a> {
    /// The extension header at the start of the rest.
    #[inline]
    fn take_header(&self) -> Result<(Extension<'a>, &'a [u8]), WireError> {
        // Every header except the fragment header states its length in its second byte.
        let (&[next_header, length], _) = split::<2>(self.rest)?;
        let len = match self.next {
            Protocol::FRAGMENT => FRAGMENT_LEN,
            Protocol::AH => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        let bytes = take(self.rest, len)?;
        let rest = self.rest.get(len..).unwrap_or_default();
        let next_header = Protocol(next_header);
        Ok((Extension { kind: self.next, next_header, offset: self.offset, bytes }, rest))
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.finished || !self.next.is_extension() {
            return None;
        }
        let (extension, rest) = match self.take_header() {
            Ok(taken) => taken,
            Err(error) => {
                self.finished = true;
                return Some(Err(error));
            }
        };
        self.next = extension.next_header;
        self.offset += extension.bytes.len();
        self.rest = rest;
        self.finished = extension.kind == Protocol::FRAGMENT
            && FragmentView::new(extension.bytes).is_ok_and(|view| view.offset() != 0);
        Some(Ok(extension))
    }
}

impl core::iter::FusedIterator for Extensions<'_> {}

/// Offset of the final destination in a routing header, which the pseudo-header contains (RFC 8200
/// section 8.1); `None` if no segments are left.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than 8 bytes; [`WireError::Malformed`] for a type of routing
/// without such an address, and for a header that is too short for it.
pub fn final_destination(routing: &[u8]) -> Result<Option<usize>, WireError> {
    const ADDRESS: usize = 16;
    let (&[_, _, kind, segments_left, ..], _) = split::<8>(routing)?;
    let begin = match kind {
        _ if segments_left == 0 => return Ok(None),
        // RFC 5095 and RFC 6275: the last address is the final one.
        0 | 2 => routing.len().checked_sub(ADDRESS),
        // RFC 8754 section 2: the first address is the final one.
        4 => Some(8),
        _ => None,
    };
    begin
        .filter(|begin| *begin >= 8 && begin + ADDRESS <= routing.len())
        .map(Some)
        .ok_or(WireError::Malformed("IPv6 routing header without a final address"))
}

header! {
    /// A checked view of a fragment header and its payload.
    view FragmentView(FRAGMENT_LEN) {
        /// The fragment's bytes.
        pub payload,
    }

    /// The value of a fragment header.
    value Fragment {
        /// The type of the first header in the fragmentable part.
        next_header: Protocol = 0,
        /// Offset of the payload in the fragmentable part, in bytes; a multiple of 8.
        offset: u16,
        /// Whether this is a fragment other than the last one.
        more_fragments: bool,
        /// The identification that all fragments of one packet share.
        identification: u32 = 4,
    }
}

impl<'a> FragmentView<'a> {
    /// Takes the bytes from the fragment header on.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`FRAGMENT_LEN`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split(bytes)?;
        Ok(Self { header, payload })
    }

    /// Offset of the payload in the fragmentable part, in bytes; a multiple of 8.
    #[inline]
    pub fn offset(&self) -> u16 {
        be16::<2, FRAGMENT_LEN>(self.header) & 0xfff8
    }

    /// Whether this is a fragment other than the last one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.header[3] & 0x01 != 0
    }
}

impl Fragment {
    /// Writes the header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`FRAGMENT_LEN`];
    /// [`WireError::Malformed`] for an offset that is not a multiple of 8.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if !self.offset.is_multiple_of(8) {
            return Err(WireError::Malformed("IPv6 fragment offset not a multiple of 8"));
        }
        let (header, _) = split_mut::<FRAGMENT_LEN>(buffer)?;
        self.put_fields(header);
        header[1] = 0;
        let offset = self.offset | u16::from(self.more_fragments);
        put::<2, 2, FRAGMENT_LEN>(header, offset.to_be_bytes());
        Ok(FRAGMENT_LEN)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 10] = [0x11, 0, 0x05, 0xa9, 0xde, 0xad, 0xbe, 0xef, 1, 2];
    const VALUE: Fragment = Fragment {
        next_header: Protocol::UDP,
        offset: 1448,
        more_fragments: true,
        identification: 0xdead_beef,
    };

    #[test]
    fn deconstruct() {
        let view = FragmentView::new(&BYTES).unwrap();
        assert_eq!((view.next_header(), view.offset()), (Protocol::UDP, 1448));
        assert!(view.more_fragments());
        assert_eq!(view.identification(), 0xdead_beef);
        assert_eq!(view.payload(), [1, 2]);
    }

    tests! { Fragment, FragmentView, FRAGMENT_LEN }

    #[test]
    fn out_of_range() {
        assert!(Fragment { offset: 4, ..VALUE }.emit(&mut [0; FRAGMENT_LEN]).is_err());
    }

    /// Hop-by-hop (8), routing (24), an atomic fragment (8), AH (24), destination options (16),
    /// then two bytes of TCP.
    fn chain() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut push = |next: Protocol, length: u8, total: usize| {
            bytes.extend([next.0, length]);
            bytes.resize(bytes.len() + total - 2, 0);
        };
        push(Protocol::ROUTING, 0, 8);
        push(Protocol::FRAGMENT, 2, 24);
        push(Protocol::AH, 0, 8);
        push(Protocol::DESTINATION_OPTIONS, 4, 24);
        push(Protocol::TCP, 1, 16);
        bytes.extend([0xab, 0xcd]);
        bytes
    }

    #[test]
    fn walks_every_kind() {
        let bytes = chain();
        let upper = walk(Protocol::HOP_BY_HOP, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::TCP, 80));
        assert_eq!(upper.payload, [0xab, 0xcd]);
        assert!(upper.fragment.is_some() && !upper.is_fragment());

        let seen: Vec<_> = extensions(Protocol::HOP_BY_HOP, &bytes)
            .map(|extension| extension.map(|it| (it.kind, it.offset, it.bytes.len())).unwrap())
            .collect();
        let expected = [
            (Protocol::HOP_BY_HOP, 0, 8),
            (Protocol::ROUTING, 8, 24),
            (Protocol::FRAGMENT, 32, 8),
            (Protocol::AH, 40, 24),
            (Protocol::DESTINATION_OPTIONS, 64, 16),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn ends_within_a_header() {
        let bytes = chain();
        for have in 0..80 {
            assert!(walk(Protocol::HOP_BY_HOP, &bytes[..have]).is_err(), "{have}");
            let mut walker = extensions(Protocol::HOP_BY_HOP, &bytes[..have]);
            assert!(walker.by_ref().any(|extension| extension.is_err()));
            assert!(walker.next().is_none());
        }
        assert!(walk(Protocol::HOP_BY_HOP, &bytes[..80]).is_ok());
    }

    #[test]
    fn stops_at_a_later_fragment() {
        // The 60 after this header is payload that resembles destination options.
        let mut bytes = [0; 10];
        Fragment { next_header: Protocol::DESTINATION_OPTIONS, ..VALUE }.emit(&mut bytes).unwrap();
        bytes[8..].copy_from_slice(&[60, 255]);
        let upper = walk(Protocol::FRAGMENT, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::DESTINATION_OPTIONS, 8));
        assert!(upper.is_fragment());
    }

    #[test]
    fn finds_the_final_destination() {
        let routing = |kind: u8, left: u8, len: usize| {
            let mut bytes = std::vec![0; len];
            bytes[..4].copy_from_slice(&[6, (len / 8 - 1) as u8, kind, left]);
            final_destination(&bytes)
        };
        for kind in [0, 2] {
            assert_eq!(routing(kind, 2, 40), Ok(Some(24)), "the last address");
            assert!(routing(kind, 1, 16).is_err(), "no address fits");
        }
        assert_eq!(routing(4, 1, 40), Ok(Some(8)), "the first segment");
        assert_eq!(routing(4, 0, 40), Ok(None), "at the end of its way");
        assert_eq!(routing(255, 0, 8), Ok(None));
        assert!(routing(255, 1, 24).is_err(), "an unknown type on its way");
        assert_eq!(
            final_destination(&[6, 0, 0, 1]),
            Err(WireError::Truncated { needed: 8, have: 4 })
        );
    }

    #[test]
    fn encrypted_and_empty() {
        for last in [Protocol::ESP, Protocol::NO_NEXT_HEADER] {
            let upper = walk(last, &[1, 2]).unwrap();
            assert_eq!((upper.protocol, upper.offset, upper.fragment), (last, 0, None));
        }
    }
}
