//! IPv4 headers (RFC 791), with the differentiated-services and congestion fields of RFC 2474 and
//! 3168.

use core::net::Ipv4Addr;

use crate::checksum::{Sum, update, update_sum};
use crate::error::WireError;
use crate::field::{array, be16, put, put_options, split, split_mut, take};
use crate::header::{accessors, header};
use crate::protocol::Protocol;

/// Length of a header without options in bytes.
pub const MIN_LEN: usize = 20;
/// Length of the longest header in bytes.
pub const MAX_LEN: usize = 60;

header! {
    /// A checked view of an IPv4 header, its options and its payload.
    view Ipv4View(MIN_LEN + options) {
        /// The options with their padding, at most 40 bytes.
        pub options,
        /// The payload, without Ethernet padding.
        pub payload,
    }

    /// The value of an IPv4 header. The checksum is computed when it is emitted.
    value Ipv4<'a> {
        /// The address of the sender.
        source: Ipv4Addr = 12,
        /// The address of the receiver.
        destination: Ipv4Addr = 16,
        /// The protocol of the payload.
        protocol: Protocol = 9,
        /// The TTL.
        ttl: u8 = 8,
        /// The differentiated-services code point, 0 to 63.
        dscp: u8,
        /// The congestion-notification bits, 0 to 3.
        ecn: u8,
        /// The identification that all fragments of one packet share.
        identification: u16 = 4,
        /// Whether routers must not fragment the packet.
        dont_fragment: bool,
        /// Whether this is a fragment other than the last one.
        more_fragments: bool,
        /// Offset of the payload in the whole packet's payload, in bytes; a multiple of 8.
        fragment_offset: u16,
        /// The stated bytes after header and options, also of a packet that was cut.
        payload_len: u16 => |view| {
            // A header is at most 60 bytes long, so the cast keeps its value.
            view.total_len().saturating_sub(view.header_len() as u16)
        },
        /// The options with their padding: a multiple of 4 bytes, at most 40.
        options: &'a [u8],
    }
}

impl<'a> Ipv4View<'a> {
    /// Takes a whole packet. Bytes after the stated length are Ethernet padding and left out.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the header or the stated length;
    /// [`WireError::Malformed`] for another version or impossible lengths.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (view, rest) = Self::header(bytes)?;
        let payload = take(rest, view.stated_payload()?).map_err(|_| WireError::Truncated {
            needed: view.total_len().into(),
            have: bytes.len(),
        })?;
        Ok(Self { payload, ..view })
    }

    /// Takes a packet that may have been cut by a snap length: the payload is its captured part. A
    /// stated length of 0 means all bytes that follow, as in segments above 64 KiB that were
    /// captured before segmentation (BIG TCP).
    ///
    /// # Errors
    /// As [`new`](Self::new), but only for the header.
    #[inline]
    pub fn new_snapped(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (view, rest) = Self::header(bytes)?;
        if view.total_len() == 0 {
            return Ok(Self { payload: rest, ..view });
        }
        let stated = view.stated_payload()?;
        Ok(Self { payload: rest.get(..stated).unwrap_or(rest), ..view })
    }

    /// Checks only the header; the payload is still empty.
    #[inline]
    fn header(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (header, rest) = split::<MIN_LEN>(bytes)?;
        if header[0] >> 4 != 4 {
            return Err(WireError::Malformed("IPv4 version"));
        }
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let Some(options_len) = header_len.checked_sub(MIN_LEN) else {
            return Err(WireError::Malformed("IPv4 header length below 20"));
        };
        let (options, rest) = rest
            .split_at_checked(options_len)
            .ok_or(WireError::Truncated { needed: header_len, have: bytes.len() })?;
        Ok((Self { header, options, payload: &[] }, rest))
    }

    #[inline]
    fn stated_payload(&self) -> Result<usize, WireError> {
        usize::from(self.total_len())
            .checked_sub(self.header_len())
            .ok_or(WireError::Malformed("IPv4 total length below its header length"))
    }

    /// The differentiated-services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.header[1] >> 2
    }

    /// The congestion-notification bits, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.header[1] & 0x03
    }

    accessors! { MIN_LEN {
        /// The stated length of header, options and payload in bytes.
        total_len: u16 = 2,
        /// The stored header checksum.
        checksum: u16 = 10,
    } }

    /// Whether routers must not fragment the packet.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    /// Whether this is a fragment other than the last one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// Offset of the payload in the whole packet's payload, in bytes; a multiple of 8.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        be16::<6, MIN_LEN>(self.header) << 3
    }

    /// Whether this is a fragment: only the first fragment contains a transport header.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    /// Whether the header checksum is valid.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        // The fixed part has an even length, so the options begin at an even offset.
        Sum::of(self.header).plus(Sum::of(self.options)).is_valid()
    }
}

impl<'a> Ipv4<'a> {
    /// Writes header and options with a correct checksum to the front of `buffer`, and returns
    /// their length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short; [`WireError::Malformed`] for a field
    /// outside its range.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if self.dscp > 63 || self.ecn > 3 {
            return Err(WireError::Malformed("IPv4 DSCP above 63 or ECN above 3"));
        }
        if !self.fragment_offset.is_multiple_of(8) {
            return Err(WireError::Malformed("IPv4 fragment offset not a multiple of 8"));
        }
        let header_len = self.header_len();
        if header_len > MAX_LEN || !header_len.is_multiple_of(4) {
            return Err(WireError::Malformed("IPv4 options length"));
        }
        let total_len = (header_len as u16)
            .checked_add(self.payload_len)
            .ok_or(WireError::Malformed("IPv4 total length above 65535"))?;
        let header = put_options::<MIN_LEN>(buffer, self.options)?;
        self.put_fields(header);
        header[0] = 0x40 | (header_len / 4) as u8;
        header[1] = self.dscp << 2 | self.ecn;
        put::<2, 2, MIN_LEN>(header, total_len.to_be_bytes());
        let fragment = u16::from(self.dont_fragment) << 14
            | u16::from(self.more_fragments) << 13
            | self.fragment_offset >> 3;
        put::<6, 2, MIN_LEN>(header, fragment.to_be_bytes());
        put::<10, 2, MIN_LEN>(header, [0, 0]);
        let checksum = Sum::of(header).plus(Sum::of(self.options)).checksum();
        put::<10, 2, MIN_LEN>(header, checksum.to_be_bytes());
        Ok(header_len)
    }
}

/// A checked view of an IPv4 header that can be changed. Every change updates the header checksum;
/// a wrong checksum stays wrong.
///
/// Checksums of the payload that cover the addresses are not updated: see
/// [`PacketMut`](crate::PacketMut).
#[derive(Debug)]
pub struct Ipv4Mut<'a> {
    header: &'a mut [u8; MIN_LEN],
    options: &'a mut [u8],
    payload: &'a mut [u8],
}

impl<'a> Ipv4Mut<'a> {
    /// Takes a packet, which may have been cut: the payload is its captured part.
    ///
    /// # Errors
    /// As [`Ipv4View::new_snapped`].
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, WireError> {
        let view = Ipv4View::new_snapped(bytes)?;
        let (options_len, payload_len) = (view.options.len(), view.payload.len());
        let (header, rest) = split_mut(bytes)?;
        let (options, rest) = rest.split_at_mut(options_len);
        Ok(Self { header, options, payload: &mut rest[..payload_len] })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> Ipv4View<'_> {
        Ipv4View { header: self.header, options: self.options, payload: self.payload }
    }

    /// Replaces the address of the sender.
    #[inline]
    pub fn set_source(&mut self, source: Ipv4Addr) {
        self.set::<12, 4>(source.octets());
    }

    /// Replaces the address of the receiver.
    #[inline]
    pub fn set_destination(&mut self, destination: Ipv4Addr) {
        self.set::<16, 4>(destination.octets());
    }

    /// Replaces the TTL.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set::<8, 2>([ttl, self.header[9]]);
    }

    /// Replaces the differentiated-services code point.
    ///
    /// # Errors
    /// [`WireError::Malformed`] above 63; then the packet is unchanged.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) -> Result<(), WireError> {
        if dscp > 63 {
            return Err(WireError::Malformed("IPv4 DSCP above 63"));
        }
        self.set::<0, 2>([self.header[0], dscp << 2 | self.header[1] & 0x03]);
        Ok(())
    }

    /// Replaces the congestion-notification bits.
    ///
    /// # Errors
    /// [`WireError::Malformed`] above 3; then the packet is unchanged.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) -> Result<(), WireError> {
        if ecn > 3 {
            return Err(WireError::Malformed("IPv4 ECN above 3"));
        }
        self.set::<0, 2>([self.header[0], self.header[1] & 0xfc | ecn]);
        Ok(())
    }

    /// The payload, without Ethernet padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.payload
    }

    /// Writes whole 16-bit words at `AT`, and updates the checksum.
    #[inline]
    fn set<const AT: usize, const M: usize>(&mut self, value: [u8; M]) {
        let old = Sum::of(&array::<AT, M, MIN_LEN>(self.header));
        put::<AT, M, MIN_LEN>(self.header, value);
        let checksum = update_sum(be16::<10, MIN_LEN>(self.header), old, Sum::of(&value));
        put::<10, 2, MIN_LEN>(self.header, checksum.to_be_bytes());
    }
}

/// Decrements the TTL in place and updates the header checksum. Returns the new TTL; a packet with
/// TTL 0 is not changed.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than [`MIN_LEN`] bytes.
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) -> Result<u8, WireError> {
    let (header, _) = split_mut::<MIN_LEN>(packet)?;
    let old = be16::<8, MIN_LEN>(header);
    let Some(ttl) = header[8].checked_sub(1) else { return Ok(0) };
    header[8] = ttl;
    let new = be16::<8, MIN_LEN>(header);
    let checksum = update(be16::<10, MIN_LEN>(header), old, new);
    put::<10, 2, MIN_LEN>(header, checksum.to_be_bytes());
    Ok(ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 192.0.2.1 > 198.51.100.7, UDP, with a router-alert option, 4 bytes of payload and 2 of
    /// padding.
    const BYTES: [u8; 30] = [
        0x46, 0xb9, 0x00, 0x1c, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0xa6, 0xa3, 192, 0, 2, 1, 198,
        51, 100, 7, 0x94, 0x04, 0x00, 0x00, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x00,
    ];
    const VALUE: Ipv4<'_> = Ipv4 {
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(198, 51, 100, 7),
        protocol: Protocol::UDP,
        ttl: 64,
        dscp: 46,
        ecn: 1,
        identification: 0x1234,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: 4,
        options: &[0x94, 0x04, 0x00, 0x00],
    };

    #[test]
    fn deconstruct() {
        let view = Ipv4View::new(&BYTES).unwrap();
        assert_eq!(view.header_len(), 24);
        assert_eq!((view.dscp(), view.ecn()), (46, 1));
        assert_eq!(view.total_len(), 28);
        assert_eq!(view.identification(), 0x1234);
        assert!(view.dont_fragment() && !view.more_fragments() && !view.is_fragment());
        assert_eq!(view.fragment_offset(), 0);
        assert_eq!((view.ttl(), view.protocol()), (64, Protocol::UDP));
        assert!(view.checksum_is_valid());
        assert_eq!(view.source(), Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(view.destination(), Ipv4Addr::new(198, 51, 100, 7));
        assert_eq!(view.options(), [0x94, 0x04, 0x00, 0x00]);
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
    }

    #[test]
    fn construct() {
        let mut packet = [0xa5; 30];
        assert_eq!(VALUE.emit(&mut packet), Ok(VALUE.header_len()));
        packet[24..].copy_from_slice(&BYTES[24..]);
        assert_eq!(packet, BYTES);
    }

    #[test]
    fn parse() {
        assert_eq!(Ipv4::parse(&Ipv4View::new(&BYTES).unwrap()), VALUE);
    }

    #[test]
    fn emit() {
        let mut header = [0; 24];
        assert_eq!(VALUE.emit(&mut header), Ok(24));
        assert_eq!(header, BYTES[..24]);
        let wrong = [
            Ipv4 { dscp: 64, ..VALUE },
            Ipv4 { ecn: 4, ..VALUE },
            Ipv4 { fragment_offset: 4, ..VALUE },
            Ipv4 { payload_len: u16::MAX, ..VALUE },
            Ipv4 { options: &[0; 3], ..VALUE },
            Ipv4 { options: &[0; 44], ..VALUE },
        ];
        for value in wrong {
            assert!(matches!(value.emit(&mut [0; 80]), Err(WireError::Malformed(_))), "{value:?}");
        }
    }

    #[test]
    fn impossible_len() {
        for have in 0..28 {
            let needed = match have {
                0..20 => 20,
                20..24 => 24,
                _ => 28,
            };
            let error = WireError::Truncated { needed, have };
            assert_eq!(Ipv4View::new(&BYTES[..have]).unwrap_err(), error);
        }
        for have in 0..24 {
            let error = WireError::Truncated { needed: 24, have };
            assert_eq!(VALUE.emit(&mut [0; 24][..have]), Err(error));
        }
        for (at, byte) in [(0, 0x66), (0, 0x44), (3, 23)] {
            let mut packet = BYTES;
            packet[at] = byte;
            assert!(matches!(Ipv4View::new(&packet), Err(WireError::Malformed(_))));
        }
    }

    #[test]
    fn snapped() {
        assert_eq!(Ipv4View::new_snapped(&BYTES[..26]).unwrap().payload(), [0xde, 0xad]);
        assert_eq!(Ipv4View::new_snapped(&BYTES).unwrap().payload(), [0xde, 0xad, 0xbe, 0xef]);
        let mut packet = BYTES;
        packet[2..4].copy_from_slice(&[0, 0]);
        assert_eq!(Ipv4View::new_snapped(&packet).unwrap().payload().len(), 6);
        assert!(Ipv4View::new(&packet).is_err());
    }

    #[test]
    fn fragments() {
        let value = Ipv4 { more_fragments: true, fragment_offset: 65528, ..VALUE };
        let mut packet = BYTES;
        value.emit(&mut packet).unwrap();
        let view = Ipv4View::new(&packet).unwrap();
        assert!(view.is_fragment());
        assert_eq!(Ipv4::parse(&view), value);
    }

    #[test]
    fn change() {
        let mut packet = BYTES;
        let mut view = Ipv4Mut::new(&mut packet).unwrap();
        view.set_source(Ipv4Addr::new(10, 0, 0, 1));
        view.set_destination(Ipv4Addr::BROADCAST);
        view.set_ttl(1);
        view.set_dscp(63).unwrap();
        view.set_ecn(3).unwrap();
        assert!(view.set_dscp(64).is_err() && view.set_ecn(4).is_err());
        view.payload_mut()[0] = 1;
        assert!(view.as_view().checksum_is_valid());
        let changed = Ipv4 {
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::BROADCAST,
            ttl: 1,
            dscp: 63,
            ecn: 3,
            ..VALUE
        };
        assert_eq!(Ipv4::parse(&view.as_view()), changed);
        assert_eq!(packet[24..], [1, 0xad, 0xbe, 0xef, 0, 0]);
        assert_eq!(Ipv4Mut::new(&mut packet[..26]).unwrap().payload_mut().len(), 2);
        assert!(Ipv4Mut::new(&mut packet[..23]).is_err());
    }

    #[test]
    fn hops() {
        let mut packet = BYTES;
        for left in (0..64).rev() {
            assert_eq!(decrement_ttl(&mut packet), Ok(left));
            assert!(Ipv4View::new(&packet).unwrap().checksum_is_valid());
        }
        let spent = packet;
        assert_eq!(decrement_ttl(&mut packet), Ok(0));
        assert_eq!(packet, spent);
    }
}
