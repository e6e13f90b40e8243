//! UDP headers (RFC 768).

use crate::checksum::{ChecksumState, Sum};
use crate::error::WireError;
use crate::field::{be16, put, split, split_mut};
use crate::header::{accessors, header};

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// Offset of the checksum in the header, for offloads.
pub const CHECKSUM_OFFSET: usize = 6;

header! {
    /// A checked view of a UDP header and its payload.
    view UdpView(LEN) {
        /// The datagram's data.
        pub payload,
    }

    /// The value of a UDP header.
    value Udp {
        /// The port of the sender.
        source_port: u16 = 0,
        /// The port of the receiver.
        destination_port: u16 = 2,
        /// Bytes after the header. The view has checked that the stated length includes the header.
        payload_len: u16 => |view| view.length().saturating_sub(LEN as u16),
        /// The checksum; 0 for none, or until [`fill_checksum`] has run.
        checksum: u16 = 6,
    }
}

impl<'a> UdpView<'a> {
    /// Takes the payload of an IP packet. Bytes after the stated length are left out.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the stated length;
    /// [`WireError::Malformed`] for a stated length below [`LEN`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = split::<LEN>(bytes)?;
        let length = usize::from(be16::<4, LEN>(header));
        let Some(stated) = length.checked_sub(LEN) else {
            return Err(WireError::Malformed("UDP length below 8"));
        };
        let payload =
            rest.get(..stated).ok_or(WireError::Truncated { needed: length, have: bytes.len() })?;
        Ok(Self { header, payload })
    }

    accessors! { LEN {
        /// The stated length of header and payload in bytes.
        length: u16 = 4,
    } }

    /// Whether the checksum is valid or, over IPv4 only, absent. `pseudo` is the pseudo-header's
    /// sum ([`crate::checksum::pseudo_v4`]) for [`length`](Self::length) bytes.
    #[inline]
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        self.checksum() == 0
            || pseudo.plus(Sum::of(self.header)).plus(Sum::of(self.payload)).is_valid()
    }
}

impl Udp {
    /// Writes the header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`]; [`WireError::Malformed`]
    /// when header and payload are above 65535 bytes.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let length = (LEN as u16)
            .checked_add(self.payload_len)
            .ok_or(WireError::Malformed("UDP length above 65535"))?;
        let (header, _) = split_mut::<LEN>(buffer)?;
        self.put_fields(header);
        put::<4, 2, LEN>(header, length.to_be_bytes());
        Ok(LEN)
    }
}

/// A checked view of a UDP header that can be changed. Every change updates the checksum, without
/// reading the payload; a wrong checksum stays wrong, and 0, which means no checksum, stays 0.
#[derive(Debug)]
pub struct UdpMut<'a> {
    header: &'a mut [u8; LEN],
    payload: &'a mut [u8],
    state: ChecksumState,
}

impl<'a> UdpMut<'a> {
    /// Takes the payload of an IP packet, and the state of its checksum field.
    ///
    /// # Errors
    /// As [`UdpView::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8], state: ChecksumState) -> Result<Self, WireError> {
        let payload_len = UdpView::new(bytes)?.payload.len();
        let (header, rest) = split_mut(bytes)?;
        Ok(Self { header, payload: &mut rest[..payload_len], state })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> UdpView<'_> {
        UdpView { header: self.header, payload: self.payload }
    }

    /// Replaces the port of the sender.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        self.set::<0>(port);
    }

    /// Replaces the port of the receiver.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        self.set::<2>(port);
    }

    /// Updates the checksum after a part of the pseudo-header changed, given the part's sum before
    /// and after.
    #[inline]
    pub fn pseudo_changed(&mut self, old: Sum, new: Sum) {
        let field = be16::<6, LEN>(self.header);
        self.put_checksum(self.state.pseudo_changed(field, old, new));
    }

    #[inline]
    fn set<const AT: usize>(&mut self, value: u16) {
        let (old, new) = (Sum::of_field(be16::<AT, LEN>(self.header)), Sum::of_field(value));
        put::<AT, 2, LEN>(self.header, value.to_be_bytes());
        let field = be16::<6, LEN>(self.header);
        self.put_checksum(self.state.packet_changed(field, old, new));
    }

    #[inline]
    fn put_checksum(&mut self, checksum: u16) {
        if be16::<6, LEN>(self.header) != 0 {
            let checksum = if checksum == 0 { 0xffff } else { checksum };
            put::<6, 2, LEN>(self.header, checksum.to_be_bytes());
        }
    }
}

/// Computes and writes the checksum of `datagram` (header and payload, exactly) in place. `pseudo`
/// is the pseudo-header's sum for `datagram.len()` bytes.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
#[inline]
pub fn fill_checksum(datagram: &mut [u8], pseudo: Sum) -> Result<(), WireError> {
    let (header, payload) = split_mut::<LEN>(datagram)?;
    put::<6, 2, LEN>(header, [0, 0]);
    let checksum = pseudo.plus(Sum::of(header)).plus(Sum::of(payload)).checksum_nonzero();
    put::<6, 2, LEN>(header, checksum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::checksum::pseudo_v4;
    use crate::header::tests;
    use crate::protocol::Protocol;

    const BYTES: [u8; 13] = [0x30, 0x39, 0x00, 0x35, 0, 11, 0xf7, 0x04, b'a', b'b', b'c', 0, 0];
    const VALUE: Udp =
        Udp { source_port: 12345, destination_port: 53, payload_len: 3, checksum: 0xf704 };

    fn pseudo() -> Sum {
        pseudo_v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Protocol::UDP, 11)
    }

    #[test]
    fn deconstruct() {
        let view = UdpView::new(&BYTES).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (12345, 53));
        assert_eq!(view.length(), 11);
        assert_eq!(view.checksum(), 0xf704);
        assert_eq!(view.payload(), b"abc");
    }

    tests! { Udp, UdpView, LEN, LEN, 11 }

    #[test]
    fn checksum() {
        let mut datagram = BYTES;
        datagram[6..8].fill(0xff);
        fill_checksum(&mut datagram[..11], pseudo()).unwrap();
        assert!(UdpView::new(&datagram).unwrap().checksum_is_valid(pseudo()));
        assert_eq!(datagram, BYTES);
        for have in 0..LEN {
            let error = WireError::Truncated { needed: LEN, have };
            assert_eq!(fill_checksum(&mut [0; LEN][..have], Sum::ZERO), Err(error));
        }
    }

    #[test]
    fn out_of_range() {
        assert!(Udp { payload_len: 65528, ..VALUE }.emit(&mut [0; LEN]).is_err());
        let mut datagram = BYTES;
        datagram[5] = 7;
        assert!(matches!(UdpView::new(&datagram), Err(WireError::Malformed(_))));
    }

    #[test]
    fn change() {
        let mut datagram = BYTES;
        let mut view = UdpMut::new(&mut datagram, ChecksumState::Complete).unwrap();
        view.set_source_port(1);
        view.set_destination_port(2);
        let (old, new) = (Sum::of_field(0x0a00), Sum::of_field(0x0b00));
        view.pseudo_changed(old, new);
        let pseudo = pseudo().minus(old).plus(new);
        assert!(view.as_view().checksum_is_valid(pseudo) && view.as_view().checksum() != 0);
        assert_eq!((view.as_view().source_port(), view.as_view().destination_port()), (1, 2));

        // A missing checksum stays missing; a partial one depends only on the pseudo-header.
        datagram[6..8].fill(0);
        let mut view = UdpMut::new(&mut datagram, ChecksumState::Complete).unwrap();
        view.set_source_port(3);
        assert_eq!(view.as_view().checksum(), 0);
        datagram[6..8].copy_from_slice(&pseudo.partial().to_be_bytes());
        let mut view = UdpMut::new(&mut datagram, ChecksumState::Partial).unwrap();
        view.set_source_port(4);
        view.pseudo_changed(new, old);
        assert_eq!(view.as_view().checksum(), pseudo.minus(new).plus(old).partial());
        assert!(UdpMut::new(&mut datagram[..10], ChecksumState::Complete).is_err());
    }

    #[test]
    fn checksum_never_becomes_none() {
        // A port that makes the sum 0xffff, whose complement would mean no checksum.
        let mut datagram = BYTES;
        let mut view = UdpMut::new(&mut datagram, ChecksumState::Complete).unwrap();
        view.set_source_port(10046);
        assert!(view.as_view().checksum_is_valid(pseudo()));
        assert_eq!(view.as_view().checksum(), 0xffff);
    }

    #[test]
    fn checksum_faults() {
        let mut datagram = BYTES;
        datagram[8] ^= 1;
        assert!(!UdpView::new(&datagram).unwrap().checksum_is_valid(pseudo()));
        datagram[6..8].copy_from_slice(&[0, 0]);
        assert!(UdpView::new(&datagram).unwrap().checksum_is_valid(pseudo()));
    }
}
