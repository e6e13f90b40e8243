//! Neighbour discovery (RFC 4861): solicitations and advertisements with their options. Names are
//! spelled as in the RFC.

use core::net::Ipv6Addr;

use crate::checksum::Sum;
use crate::error::WireError;
use crate::ethernet::MacAddr;
use crate::field::{array, put, split, split_mut, take};

/// Length of a message without options in bytes.
pub const MIN_LEN: usize = 24;
/// The hop limit of a valid message: no router has forwarded it (RFC 4861 section 7.1).
pub const HOP_LIMIT: u8 = 255;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Length of an option with the hardware address of an Ethernet station.
const LINK_ADDRESS_LEN: usize = 8;

/// The solicited-node group of `address` (RFC 4291 section 2.7.1): solicitations are sent to it,
/// and to its [`MacAddr::of_group`].
#[inline]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0x00ff, b)
}

/// A checked view of a neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug)]
pub struct NeighborView<'a> {
    message: &'a [u8; MIN_LEN],
    options: &'a [u8],
}

impl<'a> NeighborView<'a> {
    /// Takes an ICMPv6 message. The caller checks the checksum ([`crate::Icmpv6View`]) and
    /// [`HOP_LIMIT`].
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the message or an option;
    /// [`WireError::Malformed`] for another type or code, a group as the target, and an option of
    /// length 0 (RFC 4861 section 7.1).
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (message, options) = split::<MIN_LEN>(bytes)?;
        let view = Self { message, options };
        if !matches!(message[0], SOLICITATION | ADVERTISEMENT) || message[1] != 0 {
            return Err(WireError::Malformed("type of a neighbour message"));
        }
        if view.target().is_multicast() {
            return Err(WireError::Malformed("target of a neighbour message"));
        }
        view.options().try_for_each(|option| option.map(drop))?;
        Ok(view)
    }

    /// The kind of message and its flags.
    #[inline]
    pub fn message(&self) -> NeighborMessage {
        match self.message[0] {
            SOLICITATION => NeighborMessage::Solicitation,
            _ => NeighborMessage::Advertisement {
                router: self.message[4] & 0x80 != 0,
                solicited: self.message[4] & 0x40 != 0,
                overrides: self.message[4] & 0x20 != 0,
            },
        }
    }

    /// The requested or advertised address.
    #[inline]
    pub fn target(&self) -> Ipv6Addr {
        array::<8, 16, MIN_LEN>(self.message).into()
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> NdpOptions<'a> {
        NdpOptions { rest: self.options }
    }

    /// The hardware address of the sender of a solicitation, or of the target of an advertisement.
    #[inline]
    pub fn link_address(&self) -> Option<MacAddr> {
        let wanted = self.message().link_option();
        self.options().flatten().find(|option| option.kind == wanted)?.link_address()
    }
}

/// The two messages of neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NeighborMessage {
    /// Requests the hardware address of the target.
    Solicitation,
    /// Announces the target's address.
    Advertisement {
        /// The target is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces earlier information.
        overrides: bool,
    },
}

impl NeighborMessage {
    /// The option with the hardware address: of the sender in a solicitation, of the target in an
    /// advertisement.
    #[inline]
    const fn link_option(self) -> u8 {
        match self {
            Self::Solicitation => NdpOption::SOURCE_LINK_ADDRESS,
            Self::Advertisement { .. } => NdpOption::TARGET_LINK_ADDRESS,
        }
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpOption<'a> {
    /// Its type.
    pub kind: u8,
    /// The bytes after type and length.
    pub data: &'a [u8],
}

impl NdpOption<'_> {
    /// The hardware address of the sender.
    pub const SOURCE_LINK_ADDRESS: u8 = 1;
    /// The hardware address of the target.
    pub const TARGET_LINK_ADDRESS: u8 = 2;

    /// The hardware address in either option; `None` in other options.
    #[inline]
    pub fn link_address(&self) -> Option<MacAddr> {
        matches!(self.kind, Self::SOURCE_LINK_ADDRESS | Self::TARGET_LINK_ADDRESS)
            .then(|| self.data.first_chunk().copied().map(MacAddr))?
    }
}

/// An iterator over options. It ends after an error.
#[derive(Clone, Copy, Debug)]
pub struct NdpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for NdpOptions<'a> {
    type Item = Result<NdpOption<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let option = split::<2>(self.rest).and_then(|(&[kind, length], _)| {
            // The unit is eight bytes.
            let len = usize::from(length) * 8;
            if len == 0 {
                return Err(WireError::Malformed("neighbour discovery option of length 0"));
            }
            Ok((NdpOption { kind, data: &take(self.rest, len)?[2..] }, &self.rest[len..]))
        });
        self.rest = option.map_or(&[], |(_, rest)| rest);
        Some(option.map(|(option, _)| option))
    }
}

/// The value of a neighbour solicitation or advertisement. The checksum is computed when it is
/// emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbor {
    /// The kind of message.
    pub message: NeighborMessage,
    /// The requested or advertised address.
    pub target: Ipv6Addr,
    /// The hardware address of the sender of a solicitation, or of the target of an advertisement.
    pub link_address: Option<MacAddr>,
}

impl Neighbor {
    /// Requests the hardware address of `target`. The request goes to its [`solicited_node`].
    pub const fn solicitation(sender: MacAddr, target: Ipv6Addr) -> Self {
        Self { message: NeighborMessage::Solicitation, target, link_address: Some(sender) }
    }

    /// Answers this solicitation: the target is at `mac`. The answer goes to the sender.
    #[must_use]
    pub const fn advertisement(&self, mac: MacAddr) -> Self {
        let message =
            NeighborMessage::Advertisement { router: false, solicited: true, overrides: true };
        Self { message, target: self.target, link_address: Some(mac) }
    }

    /// Reads the fields of a view. Ignores options other than the hardware address.
    #[inline]
    pub fn parse(view: &NeighborView<'_>) -> Self {
        Self { message: view.message(), target: view.target(), link_address: view.link_address() }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        MIN_LEN + if self.link_address.is_some() { LINK_ADDRESS_LEN } else { 0 }
    }

    /// Writes the message, with its option and a correct checksum, to the front of `buffer` and
    /// returns its length. `pseudo` is the pseudo-header's sum for [`header_len`](Self::header_len)
    /// bytes. The packet's hop limit must be [`HOP_LIMIT`].
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short; [`WireError::Malformed`] for a group as
    /// the target.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Sum) -> Result<usize, WireError> {
        if self.target.is_multicast() {
            return Err(WireError::Malformed("target of a neighbour message"));
        }
        let (needed, have) = (self.header_len(), buffer.len());
        let buffer = buffer.get_mut(..needed).ok_or(WireError::Truncated { needed, have })?;
        let (message, option) = split_mut::<MIN_LEN>(buffer)?;
        let (message_type, flags) = match self.message {
            NeighborMessage::Solicitation => (SOLICITATION, 0),
            NeighborMessage::Advertisement { router, solicited, overrides } => {
                let flags =
                    u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(overrides) << 5;
                (ADVERTISEMENT, flags)
            }
        };
        put::<0, 8, MIN_LEN>(message, [message_type, 0, 0, 0, flags, 0, 0, 0]);
        put::<8, 16, MIN_LEN>(message, self.target.octets());
        if let (Some(MacAddr([a, b, c, d, e, f])), Some(option)) =
            (self.link_address, option.first_chunk_mut::<LINK_ADDRESS_LEN>())
        {
            *option = [self.message.link_option(), 1, a, b, c, d, e, f];
        }
        let checksum = pseudo.plus(Sum::of(message)).plus(Sum::of(option)).checksum();
        put::<2, 2, MIN_LEN>(message, checksum.to_be_bytes());
        Ok(needed)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::checksum::pseudo_v6;
    use crate::icmpv6::Icmpv6View;
    use crate::protocol::Protocol;

    const TARGET: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x0012, 0x3456);
    const SENDER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const VALUE: Neighbor = Neighbor::solicitation(MAC, TARGET);
    const BYTES: [u8; 32] = [
        135, 0, 0x11, 0xcb, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34,
        0x56, 1, 1, 2, 0, 0, 0, 0, 1,
    ];

    fn pseudo(len: usize) -> Sum {
        pseudo_v6(SENDER, solicited_node(TARGET), Protocol::ICMPV6, len as u32)
    }

    #[test]
    fn deconstruct() {
        let view = NeighborView::new(&BYTES).unwrap();
        assert_eq!(view.message(), NeighborMessage::Solicitation);
        assert_eq!((view.target(), view.link_address()), (TARGET, Some(MAC)));
        let options: Vec<_> = view.options().flatten().collect();
        assert_eq!(options, [NdpOption { kind: 1, data: &[2, 0, 0, 0, 0, 1] }]);
        assert!(Icmpv6View::new(&BYTES).unwrap().checksum_is_valid(pseudo(32)));
    }

    #[test]
    fn construct() {
        let mut message = [0xa5; 33];
        assert_eq!(VALUE.emit(&mut message, pseudo(32)), Ok(VALUE.header_len()));
        assert_eq!((&message[..32], message[32]), (&BYTES[..], 0xa5));
    }

    #[test]
    fn parse() {
        assert_eq!(Neighbor::parse(&NeighborView::new(&BYTES).unwrap()), VALUE);
    }

    #[test]
    fn emit() {
        for flags in 0..8 {
            let message = NeighborMessage::Advertisement {
                router: flags & 4 != 0,
                solicited: flags & 2 != 0,
                overrides: flags & 1 != 0,
            };
            for link_address in [None, Some(MAC)] {
                let value = Neighbor { message, target: TARGET, link_address };
                let mut bytes = [0xff; 32];
                let len = value.emit(&mut bytes, pseudo(value.header_len())).unwrap();
                let bytes = &bytes[..len];
                assert_eq!(bytes[4], flags << 5);
                assert!(Icmpv6View::new(bytes).unwrap().checksum_is_valid(pseudo(len)));
                assert_eq!(Neighbor::parse(&NeighborView::new(bytes).unwrap()), value);
            }
        }
        let group = Neighbor { target: solicited_node(TARGET), ..VALUE };
        assert!(matches!(group.emit(&mut [0; 32], Sum::ZERO), Err(WireError::Malformed(_))));
    }

    #[test]
    fn impossible_len() {
        for have in 0..32 {
            // Without its option the message is complete; with a part of an option it is not.
            let needed = match have {
                0..24 => 24,
                24 => continue,
                25 => 2,
                _ => 8,
            };
            let have_option = if have < 24 { have } else { have - 24 };
            let error = WireError::Truncated { needed, have: have_option };
            assert_eq!(NeighborView::new(&BYTES[..have]).unwrap_err(), error);
        }
        for have in 0..32 {
            let error = WireError::Truncated { needed: 32, have };
            assert_eq!(VALUE.emit(&mut [0; 32][..have], Sum::ZERO), Err(error));
        }
        for (at, value) in [(0, 134), (1, 1), (8, 0xff), (25, 0)] {
            let mut message = BYTES;
            message[at] = value;
            assert!(matches!(NeighborView::new(&message), Err(WireError::Malformed(_))), "{at}");
        }
    }

    #[test]
    fn unknown_options_are_passed_over() {
        let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
        let message = [&BYTES[..24], &nonce, &BYTES[24..]].concat();
        let view = NeighborView::new(&message).unwrap();
        assert_eq!((view.options().count(), view.link_address()), (2, Some(MAC)));
        assert_eq!(view.options().flatten().next().unwrap().link_address(), None);
    }

    #[test]
    fn groups() {
        assert_eq!(solicited_node(TARGET), "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
        let answer = VALUE.advertisement(MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(answer.target, TARGET);
        assert_eq!(answer.link_address, Some(MacAddr([2, 0, 0, 0, 0, 2])));
    }
}
