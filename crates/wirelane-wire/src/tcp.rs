//! TCP headers (RFC 9293), with the congestion flags of RFC 3168 and RFC 9768.

use core::fmt;

use crate::checksum::{ChecksumState, Sum};
use crate::error::WireError;
use crate::field::{array, be16, put, put_options, split, split_mut};
use crate::header::header;

/// Length of a header without options in bytes.
pub const MIN_LEN: usize = 20;
/// Length of the longest header in bytes.
pub const MAX_LEN: usize = 60;
/// Offset of the checksum in the header, for offloads.
pub const CHECKSUM_OFFSET: usize = 16;

header! {
    /// A checked view of a TCP header, its options and its payload.
    view TcpView(MIN_LEN + options) {
        /// The options with their padding, at most 40 bytes.
        pub options,
        /// The segment's data.
        pub payload,
    }

    /// The value of a TCP header.
    value Tcp<'a> {
        /// The port of the sender.
        source_port: u16 = 0,
        /// The port of the receiver.
        destination_port: u16 = 2,
        /// The sequence number of the first payload byte.
        sequence: u32 = 4,
        /// The next sequence number expected; valid with [`TcpFlags::ACK`].
        acknowledgment: u32 = 8,
        /// The control bits, including the reserved ones.
        flags: TcpFlags,
        /// The unscaled receive window.
        window: u16 = 14,
        /// The checksum; undefined until [`fill_checksum`] has run.
        checksum: u16 = 16,
        /// The end of urgent data; valid with [`TcpFlags::URG`].
        urgent_pointer: u16 = 18,
        /// The options with their padding: a multiple of 4 bytes, at most 40.
        options: &'a [u8],
    }
}

impl<'a> TcpView<'a> {
    /// Takes the payload of an IP packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the header; [`WireError::Malformed`] for
    /// a data offset below [`MIN_LEN`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, rest) = split::<MIN_LEN>(bytes)?;
        let header_len = usize::from(header[12] >> 4) * 4;
        let Some(options_len) = header_len.checked_sub(MIN_LEN) else {
            return Err(WireError::Malformed("TCP data offset below 20"));
        };
        let (options, payload) = rest
            .split_at_checked(options_len)
            .ok_or(WireError::Truncated { needed: header_len, have: bytes.len() })?;
        Ok(Self { header, options, payload })
    }

    /// The control bits, including the reserved ones.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(be16::<12, MIN_LEN>(self.header))
    }

    /// Whether the checksum is valid. `pseudo` is the pseudo-header's sum
    /// ([`crate::checksum::pseudo_v4`]) for the length of the view's bytes.
    #[inline]
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        // Header and options have even lengths, so every part begins at an even offset.
        pseudo
            .plus(Sum::of(self.header))
            .plus(Sum::of(self.options))
            .plus(Sum::of(self.payload))
            .is_valid()
    }
}

impl<'a> Tcp<'a> {
    /// A header without flags or options, with a full window and all other numbers 0, for use in
    /// struct update syntax: `Tcp { flags: TcpFlags::SYN, ..Tcp::between(40_000, 443) }`.
    pub const fn between(source_port: u16, destination_port: u16) -> Self {
        Self {
            source_port,
            destination_port,
            sequence: 0,
            acknowledgment: 0,
            flags: TcpFlags(0),
            window: u16::MAX,
            checksum: 0,
            urgent_pointer: 0,
            options: &[],
        }
    }

    /// Writes header and options to the front of `buffer` and returns their length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short; [`WireError::Malformed`] for options
    /// that are too long or not a multiple of 4 bytes.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let header_len = self.header_len();
        if header_len > MAX_LEN || !header_len.is_multiple_of(4) {
            return Err(WireError::Malformed("TCP options length"));
        }
        let header = put_options::<MIN_LEN>(buffer, self.options)?;
        self.put_fields(header);
        let offset_and_flags = ((header_len / 4) as u16) << 12 | self.flags.bits();
        put::<12, 2, MIN_LEN>(header, offset_and_flags.to_be_bytes());
        Ok(header_len)
    }
}

/// A checked view of a TCP header that can be changed. Every change updates the checksum, without
/// reading the payload; a wrong checksum stays wrong.
#[derive(Debug)]
pub struct TcpMut<'a> {
    header: &'a mut [u8; MIN_LEN],
    options: &'a mut [u8],
    payload: &'a mut [u8],
    state: ChecksumState,
}

impl<'a> TcpMut<'a> {
    /// Takes the payload of an IP packet, and the state of its checksum field.
    ///
    /// # Errors
    /// As [`TcpView::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8], state: ChecksumState) -> Result<Self, WireError> {
        let options_len = TcpView::new(bytes)?.options.len();
        let (header, rest) = split_mut(bytes)?;
        let (options, payload) = rest.split_at_mut(options_len);
        Ok(Self { header, options, payload, state })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> TcpView<'_> {
        TcpView { header: self.header, options: self.options, payload: self.payload }
    }

    /// Replaces the port of the sender.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        self.set::<0, 2>(port.to_be_bytes());
    }

    /// Replaces the port of the receiver.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        self.set::<2, 2>(port.to_be_bytes());
    }

    /// Replaces the sequence number.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u32) {
        self.set::<4, 4>(sequence.to_be_bytes());
    }

    /// Replaces the next sequence number expected.
    #[inline]
    pub fn set_acknowledgment(&mut self, acknowledgment: u32) {
        self.set::<8, 4>(acknowledgment.to_be_bytes());
    }

    /// Replaces the control bits, including the reserved ones.
    #[inline]
    pub fn set_flags(&mut self, flags: TcpFlags) {
        let word = be16::<12, MIN_LEN>(self.header) & 0xf000 | flags.bits();
        self.set::<12, 2>(word.to_be_bytes());
    }

    /// Replaces the receive window.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        self.set::<14, 2>(window.to_be_bytes());
    }

    /// Updates the checksum after a part of the pseudo-header changed, given the part's sum before
    /// and after.
    #[inline]
    pub fn pseudo_changed(&mut self, old: Sum, new: Sum) {
        let checksum = self.state.pseudo_changed(be16::<16, MIN_LEN>(self.header), old, new);
        put::<16, 2, MIN_LEN>(self.header, checksum.to_be_bytes());
    }

    /// Writes whole 16-bit words at `AT`, and updates the checksum.
    #[inline]
    fn set<const AT: usize, const M: usize>(&mut self, value: [u8; M]) {
        let (old, new) = (Sum::of(&array::<AT, M, MIN_LEN>(self.header)), Sum::of(&value));
        put::<AT, M, MIN_LEN>(self.header, value);
        let checksum = self.state.packet_changed(be16::<16, MIN_LEN>(self.header), old, new);
        put::<16, 2, MIN_LEN>(self.header, checksum.to_be_bytes());
    }
}

/// Computes and writes the checksum of `segment` (header, options and payload, exactly) in place.
/// `pseudo` is the pseudo-header's sum for `segment.len()` bytes.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than [`MIN_LEN`] bytes.
#[inline]
pub fn fill_checksum(segment: &mut [u8], pseudo: Sum) -> Result<(), WireError> {
    let (header, rest) = split_mut::<MIN_LEN>(segment)?;
    put::<16, 2, MIN_LEN>(header, [0, 0]);
    let checksum = pseudo.plus(Sum::of(header)).plus(Sum::of(rest)).checksum();
    put::<16, 2, MIN_LEN>(header, checksum.to_be_bytes());
    Ok(())
}

/// The twelve bits after the data offset: three reserved bits and nine control bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset the connection.
    pub const RST: Self = Self(0x004);
    /// Push: deliver the data to the receiver at once.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x020);
    /// Congestion echo (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);
    /// Accurate congestion notification (RFC 9768); NS of RFC 3540 before.
    pub const AE: Self = Self(0x100);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::FIN, "FIN"),
        (Self::SYN, "SYN"),
        (Self::RST, "RST"),
        (Self::PSH, "PSH"),
        (Self::ACK, "ACK"),
        (Self::URG, "URG"),
        (Self::ECE, "ECE"),
        (Self::CWR, "CWR"),
        (Self::AE, "AE"),
    ];

    /// The low twelve bits of `bits`.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x0fff)
    }

    /// The bits in their order on the wire.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags and `flags`.
    #[inline]
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These flags without `flags`.
    #[inline]
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (flag, name) in Self::NAMES {
            if self.contains(flag) {
                set.entry(&format_args!("{name}"));
            }
        }
        if self.0 >> 9 != 0 {
            set.entry(&format_args!("reserved {:03b}", self.0 >> 9));
        }
        set.finish()
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;
    use std::format;

    use super::*;
    use crate::checksum::pseudo_v4;
    use crate::header::tests;
    use crate::protocol::Protocol;

    /// A data segment with a maximum-segment-size option and 3 bytes of payload.
    const BYTES: [u8; 27] = [
        0xc0, 0x00, 0x01, 0xbb, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x61, 0x98, 0x20,
        0x00, 0xcc, 0x58, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, b'a', b'b', b'c',
    ];
    const VALUE: Tcp<'_> = Tcp {
        source_port: 49152,
        destination_port: 443,
        sequence: 0x0102_0304,
        acknowledgment: 0x0506_0708,
        flags: TcpFlags::AE.with(TcpFlags::CWR).with(TcpFlags::ACK).with(TcpFlags::PSH),
        window: 0x2000,
        checksum: 0xcc58,
        urgent_pointer: 0,
        options: &[0x02, 0x04, 0x05, 0xb4],
    };

    fn pseudo() -> Sum {
        pseudo_v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), Protocol::TCP, 27)
    }

    #[test]
    fn deconstruct() {
        let view = TcpView::new(&BYTES).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (49152, 443));
        assert_eq!((view.sequence(), view.acknowledgment()), (0x0102_0304, 0x0506_0708));
        assert_eq!(view.header_len(), 24);
        assert_eq!(format!("{:?}", view.flags()), "{PSH, ACK, CWR, AE}");
        assert_eq!(view.window(), 0x2000);
        assert_eq!(view.checksum(), 0xcc58);
        assert_eq!(view.urgent_pointer(), 0);
        assert_eq!(view.options(), [0x02, 0x04, 0x05, 0xb4]);
        assert_eq!(view.payload(), b"abc");
    }

    tests! { Tcp, TcpView, 24, MIN_LEN, 24 }

    #[test]
    fn checksum() {
        let mut segment = BYTES;
        segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].fill(0xa5);
        fill_checksum(&mut segment, pseudo()).unwrap();
        assert!(TcpView::new(&segment).unwrap().checksum_is_valid(pseudo()));
        assert_eq!(segment, BYTES);
        segment[26] ^= 1;
        assert!(!TcpView::new(&segment).unwrap().checksum_is_valid(pseudo()));
        assert!(fill_checksum(&mut segment[..19], Sum::ZERO).is_err());
    }

    #[test]
    fn out_of_range() {
        for options in [&[1; 3][..], &[1; 44]] {
            let error = Tcp { options, ..VALUE }.emit(&mut [0; 80]).unwrap_err();
            assert_eq!(error, WireError::Malformed("TCP options length"));
        }
        let mut segment = BYTES;
        segment[12] = 0x41;
        assert!(matches!(TcpView::new(&segment), Err(WireError::Malformed(_))));
    }

    #[test]
    fn change() {
        let mut segment = BYTES;
        let mut view = TcpMut::new(&mut segment, ChecksumState::Complete).unwrap();
        view.set_source_port(1);
        view.set_destination_port(2);
        view.set_sequence(3);
        view.set_acknowledgment(4);
        view.set_flags(TcpFlags::SYN);
        view.set_window(5);
        let (old, new) = (Sum::of_field(0x0a00), Sum::of_field(0x0b00));
        view.pseudo_changed(old, new);
        let view = view.as_view();
        assert!(view.checksum_is_valid(pseudo().minus(old).plus(new)));
        let changed = Tcp {
            source_port: 1,
            destination_port: 2,
            sequence: 3,
            acknowledgment: 4,
            flags: TcpFlags::SYN,
            window: 5,
            checksum: view.checksum(),
            ..VALUE
        };
        assert_eq!(Tcp::parse(&view), changed);
        assert_eq!(view.payload(), b"abc");

        let partial = pseudo().partial();
        segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&partial.to_be_bytes());
        let mut view = TcpMut::new(&mut segment, ChecksumState::Partial).unwrap();
        view.set_source_port(9);
        assert_eq!(view.as_view().checksum(), partial);
        view.pseudo_changed(old, new);
        assert_eq!(view.as_view().checksum(), pseudo().minus(old).plus(new).partial());
        assert!(TcpMut::new(&mut segment[..23], ChecksumState::Complete).is_err());
    }

    #[test]
    fn flags() {
        let flags = TcpFlags::from_bits(0xf202);
        assert_eq!(flags.bits(), 0x202);
        assert!(flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK));
        assert_eq!(format!("{flags:?}"), "{SYN, reserved 001}");
        assert_eq!(flags.without(TcpFlags::SYN).bits(), 0x200);
    }
}
