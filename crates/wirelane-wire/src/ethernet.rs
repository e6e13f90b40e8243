//! Ethernet II frames, without preamble and frame check sequence (IEEE 802.3 section 3).

use core::{fmt, net::Ipv6Addr, str::FromStr};

use crate::error::WireError;
use crate::field::{array, fields, put, split, split_mut};
use crate::header::header;

/// Length of the header in bytes.
pub const LEN: usize = 14;

header! {
    /// A checked view of an Ethernet header and its payload.
    view EthernetView(LEN) {
        /// The bytes after the header, with any padding of a short frame.
        pub payload,
    }

    /// The value of an Ethernet header.
    value Ethernet {
        /// The address of the receiver.
        destination: MacAddr = 0,
        /// The address of the sender.
        source: MacAddr = 6,
        /// The type of the payload; in a tagged frame, the kind of tag.
        ethertype: EtherType = 12,
    }
}

impl<'a> EthernetView<'a> {
    /// Takes the bytes of a frame.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split(bytes)?;
        Ok(Self { header, payload })
    }
}

impl Ethernet {
    /// Writes the header to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let (header, _) = split_mut::<LEN>(buffer)?;
        self.put_fields(header);
        Ok(LEN)
    }
}

/// A checked view of an Ethernet header that can be changed.
#[derive(Debug)]
pub struct EthernetMut<'a> {
    header: &'a mut [u8; LEN],
    payload: &'a mut [u8],
}

impl<'a> EthernetMut<'a> {
    /// Takes the bytes of a frame.
    ///
    /// # Errors
    /// As [`EthernetView::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, WireError> {
        let (header, payload) = split_mut(bytes)?;
        Ok(Self { header, payload })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> EthernetView<'_> {
        EthernetView { header: self.header, payload: self.payload }
    }

    /// Replaces the address of the receiver.
    #[inline]
    pub fn set_destination(&mut self, destination: MacAddr) {
        put::<0, 6, LEN>(self.header, destination.0);
    }

    /// Replaces the address of the sender.
    #[inline]
    pub fn set_source(&mut self, source: MacAddr) {
        put::<6, 6, LEN>(self.header, source.0);
    }

    /// The bytes after the header, with any padding of a short frame.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.payload
    }
}

/// Swaps the two addresses of a frame in place, as a single-port reflector needs.
///
/// # Errors
/// [`WireError::Truncated`] for fewer than 12 bytes; the bytes are then untouched.
#[inline]
pub fn swap_addresses(frame: &mut [u8]) -> Result<(), WireError> {
    let (addresses, _) = split_mut::<12>(frame)?;
    let destination = array::<0, 6, 12>(addresses);
    let source = array::<6, 6, 12>(addresses);
    put::<0, 6, 12>(addresses, source);
    put::<6, 6, 12>(addresses, destination);
    Ok(())
}

/// A 48-bit IEEE 802 address. Written `02:00:00:00:00:01`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones: every station.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros, as on loopback.
    pub const ZERO: Self = Self([0; 6]);

    /// The Ethernet address of an IPv6 group (RFC 2464 section 7).
    #[inline]
    pub const fn of_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self([0x33, 0x33, a, b, c, d])
    }

    /// Whether this is the broadcast address.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        *self == Self::BROADCAST
    }

    /// Whether this is a group address; the broadcast address is one.
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Whether this address was assigned locally instead of by a manufacturer.
    #[inline]
    pub const fn is_local(&self) -> bool {
        self.0[0] & 0x02 != 0
    }
}

fields! {
    MacAddr: 6, MacAddr, |it: MacAddr| it.0;
    EtherType: 2, |it| EtherType(u16::from_be_bytes(it)), |it: EtherType| it.0.to_be_bytes();
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for MacAddr {
    type Err = WireError;

    /// Parses six two-digit hexadecimal numbers, separated by colons.
    fn from_str(text: &str) -> Result<Self, WireError> {
        const ERROR: WireError = WireError::Malformed("MAC address");
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(ERROR)?;
            // `from_str_radix` alone would also accept a sign.
            if part.len() != 2 || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(ERROR);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| ERROR)?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(ERROR),
        }
    }
}

/// The type of an Ethernet payload (the IEEE registry), or its length when below 1536.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// An Ethernet frame in a tunnel (transparent Ethernet bridging, RFC 1701).
    pub const BRIDGED: Self = Self(0x6558);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// An IEEE 802.1Q tag (C-tag) follows.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// An IEEE 802.1ad service tag (S-tag) follows.
    pub const QINQ: Self = Self(0x88a8);
    /// The service tag before IEEE 802.1ad.
    pub const QINQ_OLD: Self = Self(0x9100);

    /// Whether a [`crate::vlan`] tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }

    /// Whether this is an IEEE 802.3 length instead of a type.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;
    use std::string::ToString;

    const BYTES: [u8; 18] =
        [0x02, 0, 0, 0, 0, 0x0b, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 0x08, 0x00, 0x45, 1, 2, 3];
    const VALUE: Ethernet = Ethernet {
        destination: MacAddr([0x02, 0, 0, 0, 0, 0x0b]),
        source: MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]),
        ethertype: EtherType::IPV4,
    };

    #[test]
    fn deconstruct() {
        let view = EthernetView::new(&BYTES).unwrap();
        assert_eq!(view.destination(), MacAddr([0x02, 0, 0, 0, 0, 0x0b]));
        assert_eq!(view.source(), MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!(view.ethertype(), EtherType::IPV4);
        assert_eq!(view.payload(), [0x45, 1, 2, 3]);
    }

    tests! { Ethernet, EthernetView, LEN }

    #[test]
    fn change() {
        let mut frame = BYTES;
        let mut view = EthernetMut::new(&mut frame).unwrap();
        view.set_destination(VALUE.source);
        view.set_source(VALUE.destination);
        view.payload_mut()[0] = 0x46;
        assert_eq!(view.as_view().source(), VALUE.destination);
        swap_addresses(&mut frame).unwrap();
        assert_eq!((frame[14], &frame[..14]), (0x46, &BYTES[..14]));
        assert!(EthernetMut::new(&mut frame[..LEN - 1]).is_err());
    }

    #[test]
    fn swap() {
        let mut frame = BYTES;
        swap_addresses(&mut frame).unwrap();
        let view = EthernetView::new(&frame).unwrap();
        assert_eq!((view.destination(), view.source()), (VALUE.source, VALUE.destination));
        assert_eq!(frame[12..], BYTES[12..]);
        swap_addresses(&mut frame).unwrap();
        assert_eq!(frame, BYTES);
        assert!(swap_addresses(&mut frame[..11]).is_err());
    }

    #[test]
    fn mac_address_text() {
        assert_eq!(VALUE.source.to_string(), "52:54:00:12:34:56");
        assert_eq!("52:54:00:12:34:56".parse(), Ok(VALUE.source));
        for wrong in
            ["", "52", "52:54:00:12:34", "52:54:00:12:34:56:78", "52:54:00:12:34:+6", "é:é"]
        {
            assert!(wrong.parse::<MacAddr>().is_err(), "{wrong}");
        }
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(VALUE.source.is_local() && !VALUE.source.is_multicast());
        let group = MacAddr::of_group("ff02::1:ff00:1".parse().unwrap());
        assert_eq!(group.to_string(), "33:33:ff:00:00:01");
    }

    #[test]
    fn ethertype_kinds() {
        assert!(EtherType::QINQ.is_vlan() && !EtherType::ARP.is_vlan());
        assert!(EtherType(1500).is_length() && !EtherType::IPV4.is_length());
    }
}
