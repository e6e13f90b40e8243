//! IPv6 headers (RFC 8200) and iteration over extension headers.

use core::net::Ipv6Addr;

use crate::error::WireError;
use crate::field::{be16, be32, put, split, split_mut, take};
use crate::header::header;
use crate::protocol::Protocol;

mod extension;

pub use extension::{
    Extension, Extensions, FRAGMENT_LEN, Fragment, FragmentView, Upper, extensions,
    final_destination, walk,
};

/// Length of the fixed header in bytes.
pub const LEN: usize = 40;

header! {
    /// A checked view of an IPv6 header and its payload.
    view Ipv6View(LEN) {
        /// Extension headers and payload, without Ethernet padding.
        pub payload,
    }

    /// The value of an IPv6 header.
    value Ipv6 {
        /// The address of the sender.
        source: Ipv6Addr = 8,
        /// The address of the receiver; with a routing header, of the next router on the way.
        destination: Ipv6Addr = 24,
        /// The next header: an extension header or the upper layer.
        next_header: Protocol = 6,
        /// The hop limit.
        hop_limit: u8 = 7,
        /// The differentiated-services code point, 0 to 63.
        dscp: u8,
        /// The congestion-notification bits, 0 to 3.
        ecn: u8,
        /// The flow label, 20 bits.
        flow_label: u32,
        /// The stated length of extension headers and payload in bytes, also of a packet that was
        /// cut.
        payload_len: u16 = 4,
    }
}

impl<'a> Ipv6View<'a> {
    /// Takes a whole packet. Bytes after the stated length are Ethernet padding and left out. A
    /// stated length of 0 before a hop-by-hop header announces a jumbogram (RFC 2675), whose
    /// payload is the rest of the bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the header or the stated length;
    /// [`WireError::Malformed`] for another version.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (view, rest) = Self::header(bytes)?;
        if view.payload_len() == 0 && view.next_header() == Protocol::HOP_BY_HOP {
            return Ok(Self { payload: rest, ..view });
        }
        let stated = usize::from(view.payload_len());
        let payload = take(rest, stated)
            .map_err(|_| WireError::Truncated { needed: LEN + stated, have: bytes.len() })?;
        Ok(Self { payload, ..view })
    }

    /// Takes a packet that may have been cut by a snap length: the payload is its captured part. A
    /// stated length of 0 before anything but [`Protocol::NO_NEXT_HEADER`] means all bytes that
    /// follow, as in segments above 64 KiB that were captured before segmentation (BIG TCP).
    ///
    /// # Errors
    /// As [`new`](Self::new), but only for the header.
    #[inline]
    pub fn new_snapped(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (view, rest) = Self::header(bytes)?;
        let payload = match usize::from(view.payload_len()) {
            0 if view.next_header() != Protocol::NO_NEXT_HEADER => rest,
            stated => rest.get(..stated).unwrap_or(rest),
        };
        Ok(Self { payload, ..view })
    }

    /// Checks only the header; the payload is still empty.
    #[inline]
    fn header(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (header, rest) = split::<LEN>(bytes)?;
        if header[0] >> 4 != 6 {
            return Err(WireError::Malformed("IPv6 version"));
        }
        Ok((Self { header, payload: &[] }, rest))
    }

    #[inline]
    fn traffic_class(&self) -> u8 {
        (be16::<0, LEN>(self.header) >> 4) as u8
    }

    /// The differentiated-services code point, 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// The congestion-notification bits, 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 0x03
    }

    /// The flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32::<0, LEN>(self.header) & 0x000f_ffff
    }

    /// The upper-layer packet behind the extension headers; its offset counts from the payload.
    ///
    /// # Errors
    /// As [`walk`].
    #[inline]
    pub fn upper(&self) -> Result<Upper<'a>, WireError> {
        walk(self.next_header(), self.payload)
    }
}

impl Ipv6 {
    /// Writes the fixed header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`]; [`WireError::Malformed`] for
    /// a field outside its range.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        if self.dscp > 63 || self.ecn > 3 {
            return Err(WireError::Malformed("IPv6 DSCP above 63 or ECN above 3"));
        }
        if self.flow_label > 0x000f_ffff {
            return Err(WireError::Malformed("IPv6 flow label above 20 bits"));
        }
        let (header, _) = split_mut::<LEN>(buffer)?;
        let class = u32::from(self.dscp << 2 | self.ecn);
        put::<0, 4, LEN>(header, (6 << 28 | class << 20 | self.flow_label).to_be_bytes());
        self.put_fields(header);
        Ok(LEN)
    }
}

/// A checked view of an IPv6 header that can be changed.
///
/// Checksums of the payload that cover the addresses are not updated: see
/// [`PacketMut`](crate::PacketMut).
#[derive(Debug)]
pub struct Ipv6Mut<'a> {
    header: &'a mut [u8; LEN],
    payload: &'a mut [u8],
}

impl<'a> Ipv6Mut<'a> {
    /// Takes a packet, which may have been cut: the payload is its captured part.
    ///
    /// # Errors
    /// As [`Ipv6View::new_snapped`].
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, WireError> {
        let payload_len = Ipv6View::new_snapped(bytes)?.payload.len();
        let (header, rest) = split_mut(bytes)?;
        Ok(Self { header, payload: &mut rest[..payload_len] })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> Ipv6View<'_> {
        Ipv6View { header: self.header, payload: self.payload }
    }

    /// Replaces the address of the sender.
    #[inline]
    pub fn set_source(&mut self, source: Ipv6Addr) {
        put::<8, 16, LEN>(self.header, source.octets());
    }

    /// Replaces the address of the receiver; with a routing header, of the next router on the way.
    #[inline]
    pub fn set_destination(&mut self, destination: Ipv6Addr) {
        put::<24, 16, LEN>(self.header, destination.octets());
    }

    /// Replaces the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.header[7] = hop_limit;
    }

    /// Replaces the differentiated-services code point.
    ///
    /// # Errors
    /// [`WireError::Malformed`] above 63; then the packet is unchanged.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) -> Result<(), WireError> {
        if dscp > 63 {
            return Err(WireError::Malformed("IPv6 DSCP above 63"));
        }
        self.set_traffic_class(dscp << 2 | self.as_view().ecn());
        Ok(())
    }

    /// Replaces the congestion-notification bits.
    ///
    /// # Errors
    /// [`WireError::Malformed`] above 3; then the packet is unchanged.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) -> Result<(), WireError> {
        if ecn > 3 {
            return Err(WireError::Malformed("IPv6 ECN above 3"));
        }
        self.set_traffic_class(self.as_view().dscp() << 2 | ecn);
        Ok(())
    }

    /// Extension headers and payload, without Ethernet padding.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.payload
    }

    #[inline]
    fn set_traffic_class(&mut self, class: u8) {
        let word = be16::<0, LEN>(self.header) & 0xf00f | u16::from(class) << 4;
        put::<0, 2, LEN>(self.header, word.to_be_bytes());
    }
}

/// Decrements the hop limit in place. Returns the new hop limit; a packet with hop limit 0 is not
/// changed.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
#[inline]
pub fn decrement_hop_limit(packet: &mut [u8]) -> Result<u8, WireError> {
    let (header, _) = split_mut::<LEN>(packet)?;
    header[7] = header[7].saturating_sub(1);
    Ok(header[7])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    /// 2001:db8::1 > 2001:db8::2, UDP, 3 bytes of payload and 1 of padding.
    const BYTES: [u8; 44] = [
        0x6b, 0x9a, 0xbc, 0xde, 0x00, 0x03, 0x11, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b',
        b'c', 0,
    ];
    const VALUE: Ipv6 = Ipv6 {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        next_header: Protocol::UDP,
        hop_limit: 64,
        dscp: 46,
        ecn: 1,
        flow_label: 0xabcde,
        payload_len: 3,
    };

    #[test]
    fn deconstruct() {
        let view = Ipv6View::new(&BYTES).unwrap();
        assert_eq!((view.dscp(), view.ecn()), (46, 1));
        assert_eq!(view.flow_label(), 0xabcde);
        assert_eq!(view.payload_len(), 3);
        assert_eq!((view.next_header(), view.hop_limit()), (Protocol::UDP, 64));
        assert_eq!(view.source(), VALUE.source);
        assert_eq!(view.destination(), VALUE.destination);
        assert_eq!(view.payload(), b"abc");
        assert_eq!(view.upper().unwrap().payload, b"abc");
    }

    tests! { Ipv6, Ipv6View, LEN, LEN, 43 }

    #[test]
    fn out_of_range() {
        let wrong = [
            Ipv6 { dscp: 64, ..VALUE },
            Ipv6 { ecn: 4, ..VALUE },
            Ipv6 { flow_label: 1 << 20, ..VALUE },
        ];
        for value in wrong {
            assert!(matches!(value.emit(&mut [0; LEN]), Err(WireError::Malformed(_))), "{value:?}");
        }
        let mut packet = BYTES;
        packet[0] = 0x45;
        assert!(matches!(Ipv6View::new(&packet), Err(WireError::Malformed(_))));
    }

    #[test]
    fn snapped_and_jumbo() {
        assert_eq!(Ipv6View::new_snapped(&BYTES[..41]).unwrap().payload(), b"a");
        assert_eq!(Ipv6View::new_snapped(&BYTES).unwrap().payload(), b"abc");
        let mut packet = BYTES;
        packet[5] = 0;
        assert_eq!(Ipv6View::new_snapped(&packet).unwrap().payload().len(), 4);
        assert_eq!(Ipv6View::new(&packet).unwrap().payload().len(), 0);
        packet[6] = Protocol::HOP_BY_HOP.0;
        assert_eq!(Ipv6View::new(&packet).unwrap().payload().len(), 4);
        packet[6] = Protocol::NO_NEXT_HEADER.0;
        assert_eq!(Ipv6View::new_snapped(&packet).unwrap().payload().len(), 0);
    }

    #[test]
    fn change() {
        let mut packet = BYTES;
        let mut view = Ipv6Mut::new(&mut packet).unwrap();
        view.set_source(Ipv6Addr::LOCALHOST);
        view.set_destination(Ipv6Addr::UNSPECIFIED);
        view.set_hop_limit(1);
        view.set_dscp(63).unwrap();
        view.set_ecn(2).unwrap();
        assert!(view.set_dscp(64).is_err() && view.set_ecn(4).is_err());
        view.payload_mut()[0] = b'x';
        let changed = Ipv6 {
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::UNSPECIFIED,
            hop_limit: 1,
            dscp: 63,
            ecn: 2,
            ..VALUE
        };
        assert_eq!(Ipv6::parse(&view.as_view()), changed);
        assert_eq!(packet[LEN..], *b"xbc\0");
        assert_eq!(Ipv6Mut::new(&mut packet[..41]).unwrap().payload_mut().len(), 1);
        assert!(Ipv6Mut::new(&mut packet[..39]).is_err());
    }

    #[test]
    fn hops() {
        let mut packet = BYTES;
        packet[7] = 1;
        assert_eq!(decrement_hop_limit(&mut packet), Ok(0));
        assert_eq!(decrement_hop_limit(&mut packet), Ok(0));
        assert!(decrement_hop_limit(&mut packet[..39]).is_err());
    }
}
