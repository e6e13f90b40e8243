//! ICMPv6 (RFC 4443): echo and errors. Neighbour discovery is in [`crate::ndp`].

use crate::checksum::{ChecksumState, Sum};
use crate::error::WireError;
use crate::field::{be16, put, split, split_mut};
use crate::header::{accessors, header};
use crate::icmpv4::Echo;

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// Offset of the checksum in the header, for offloads.
pub const CHECKSUM_OFFSET: usize = 2;

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

header! {
    /// A checked view of an ICMPv6 message.
    view Icmpv6View(LEN) {
        /// The data of an echo, or the start of the packet that an error quotes.
        pub payload,
    }
}

impl<'a> Icmpv6View<'a> {
    /// Takes the upper-layer packet of an IPv6 packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split(bytes)?;
        Ok(Self { header, payload })
    }

    accessors! { LEN {
        /// The type of the message; below 128 for errors.
        message_type: u8 = 0,
        /// The subtype of the message.
        code: u8 = 1,
        /// The stored checksum.
        checksum: u16 = 2,
        /// The four bytes after the checksum, whose meaning depends on the type.
        rest: [u8; 4] = 4,
    } }

    /// Whether the checksum is valid. `pseudo` is the pseudo-header's sum
    /// ([`crate::checksum::pseudo_v6`]) for the length of the view's bytes.
    #[inline]
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        pseudo.plus(Sum::of(self.header)).plus(Sum::of(self.payload)).is_valid()
    }
}

/// The value of an ICMPv6 header. The checksum is computed when it is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Icmpv6 {
    /// Requests a reply with the same payload.
    EchoRequest(Echo),
    /// The reply.
    EchoReply(Echo),
    /// The packet cannot be delivered.
    Unreachable {
        /// The reason: 0 no route, 1 prohibited, 3 address, 4 port …
        code: u8,
    },
    /// The packet is longer than the next link supports.
    PacketTooBig {
        /// The longest packet that can pass.
        mtu: u32,
    },
    /// The hop limit expired (code 0) or the packet was not reassembled in time (code 1).
    TimeExceeded {
        /// The reason.
        code: u8,
    },
    /// A field of the packet is invalid.
    ParameterProblem {
        /// The kind of field: 0 a header field, 1 the next header, 2 an option …
        code: u8,
        /// The offset of the field in the packet.
        pointer: u32,
    },
    /// Any other message.
    Other {
        /// The type of the message.
        message_type: u8,
        /// The subtype of the message.
        code: u8,
        /// The four bytes after the checksum.
        rest: [u8; 4],
    },
}

impl Icmpv6 {
    /// Reads the fields of a view.
    #[inline]
    pub fn parse(view: &Icmpv6View<'_>) -> Self {
        let (code, rest) = (view.code(), view.rest());
        let number = u32::from_be_bytes(rest);
        match view.message_type() {
            ECHO_REQUEST if code == 0 => Self::EchoRequest(Echo::parse(rest)),
            ECHO_REPLY if code == 0 => Self::EchoReply(Echo::parse(rest)),
            UNREACHABLE if number == 0 => Self::Unreachable { code },
            PACKET_TOO_BIG if code == 0 => Self::PacketTooBig { mtu: number },
            TIME_EXCEEDED if number == 0 => Self::TimeExceeded { code },
            PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: number },
            message_type => Self::Other { message_type, code, rest },
        }
    }

    /// Bytes of the header that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn header_len(&self) -> usize {
        LEN
    }

    /// The identifier and sequence number of an echo request or reply.
    #[inline]
    pub fn echo(&self) -> Option<Echo> {
        match self {
            Self::EchoRequest(echo) | Self::EchoReply(echo) => Some(*echo),
            _ => None,
        }
    }

    /// As [`echo`](Self::echo), mutable.
    #[inline]
    pub fn echo_mut(&mut self) -> Option<&mut Echo> {
        match self {
            Self::EchoRequest(echo) | Self::EchoReply(echo) => Some(echo),
            _ => None,
        }
    }

    /// Writes the header to the front of `message`, with a correct checksum. `message` contains the
    /// payload behind the header and ends with it. `pseudo` is the pseudo-header's sum for
    /// `message.len()` bytes. Returns the length of the header.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `message` is shorter than [`LEN`].
    #[inline]
    pub fn emit(&self, message: &mut [u8], pseudo: Sum) -> Result<usize, WireError> {
        let (header, payload) = split_mut::<LEN>(message)?;
        *header = self.header();
        let checksum = pseudo.plus(Sum::of(header)).plus(Sum::of(payload)).checksum();
        put::<2, 2, LEN>(header, checksum.to_be_bytes());
        Ok(LEN)
    }

    /// The header with a checksum of 0.
    #[inline]
    fn header(&self) -> [u8; LEN] {
        let (message_type, code, [a, b, c, d]) = match *self {
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo.bytes()),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo.bytes()),
            Self::Unreachable { code } => (UNREACHABLE, code, [0; 4]),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, pointer.to_be_bytes())
            }
            Self::Other { message_type, code, rest } => (message_type, code, rest),
        };
        [message_type, code, 0, 0, a, b, c, d]
    }
}

/// A checked view of an ICMPv6 message that can be changed.
#[derive(Debug)]
pub struct Icmpv6Mut<'a> {
    header: &'a mut [u8; LEN],
    payload: &'a mut [u8],
    state: ChecksumState,
}

impl<'a> Icmpv6Mut<'a> {
    /// Takes the upper-layer packet of an IPv6 packet, and the state of its checksum field.
    ///
    /// # Errors
    /// As [`Icmpv6View::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8], state: ChecksumState) -> Result<Self, WireError> {
        let (header, payload) = split_mut(bytes)?;
        Ok(Self { header, payload, state })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> Icmpv6View<'_> {
        Icmpv6View { header: self.header, payload: self.payload }
    }

    /// Replaces the header and updates the checksum, without reading the payload; a wrong checksum
    /// stays wrong.
    #[inline]
    pub fn set_message(&mut self, message: Icmpv6) {
        let checksum = be16::<2, LEN>(self.header);
        put::<2, 2, LEN>(self.header, [0, 0]);
        let new = message.header();
        let checksum = self.state.packet_changed(checksum, Sum::of(self.header), Sum::of(&new));
        *self.header = new;
        put::<2, 2, LEN>(self.header, checksum.to_be_bytes());
    }

    /// Updates the checksum after a part of the pseudo-header changed, given the part's sum before
    /// and after.
    #[inline]
    pub fn pseudo_changed(&mut self, old: Sum, new: Sum) {
        let checksum = self.state.pseudo_changed(be16::<2, LEN>(self.header), old, new);
        put::<2, 2, LEN>(self.header, checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv6Addr;

    use super::*;
    use crate::checksum::pseudo_v6;
    use crate::protocol::Protocol;

    const BYTES: [u8; 11] = [0x80, 0x00, 0xa9, 0x20, 0x12, 0x34, 0x00, 0x01, b'a', b'b', b'c'];
    const VALUE: Icmpv6 = Icmpv6::EchoRequest(Echo { identifier: 0x1234, sequence: 1 });

    /// One message of each kind.
    const ALL: [Icmpv6; 7] = [
        VALUE,
        Icmpv6::EchoReply(Echo { identifier: 1, sequence: 2 }),
        Icmpv6::Unreachable { code: 4 },
        Icmpv6::PacketTooBig { mtu: 1400 },
        Icmpv6::TimeExceeded { code: 1 },
        Icmpv6::ParameterProblem { code: 1, pointer: 40 },
        Icmpv6::Other { message_type: 143, code: 0, rest: [1, 2, 3, 4] },
    ];

    fn pseudo() -> Sum {
        pseudo_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol::ICMPV6, 11)
    }

    #[test]
    fn deconstruct() {
        let view = Icmpv6View::new(&BYTES).unwrap();
        assert_eq!((view.message_type(), view.code()), (128, 0));
        assert_eq!(view.checksum(), 0xa920);
        assert_eq!(view.rest(), [0x12, 0x34, 0, 1]);
        assert_eq!(view.payload(), b"abc");
    }

    #[test]
    fn construct() {
        let mut message = [0xa5; 11];
        message[LEN..].copy_from_slice(b"abc");
        assert_eq!(VALUE.emit(&mut message, pseudo()), Ok(VALUE.header_len()));
        assert!(Icmpv6View::new(&message).unwrap().checksum_is_valid(pseudo()));
        assert_eq!(message, BYTES);
    }

    #[test]
    fn parse() {
        let value = Icmpv6::parse(&Icmpv6View::new(&BYTES).unwrap());
        assert_eq!(value, VALUE);
        assert_eq!(value.echo(), Some(Echo { identifier: 0x1234, sequence: 1 }));
        assert_eq!(ALL[2].echo(), None);
    }

    #[test]
    fn emit() {
        for value in ALL {
            let mut message = BYTES;
            assert_eq!(value.emit(&mut message, pseudo()), Ok(LEN));
            let view = Icmpv6View::new(&message).unwrap();
            assert!(view.checksum_is_valid(pseudo()), "{value:?}");
            assert_eq!(Icmpv6::parse(&view), value);
        }
    }

    #[test]
    fn impossible_len() {
        for have in 0..LEN {
            let error = WireError::Truncated { needed: LEN, have };
            assert_eq!(Icmpv6View::new(&BYTES[..have]).unwrap_err(), error);
            assert_eq!(VALUE.emit(&mut [0; LEN][..have], Sum::ZERO), Err(error));
            let changed = Icmpv6Mut::new(&mut [0; LEN][..have], ChecksumState::Complete).err();
            assert_eq!(changed, Some(error));
        }
    }

    #[test]
    fn change() {
        for value in ALL {
            let mut message = BYTES;
            VALUE.emit(&mut message, pseudo()).unwrap();
            let mut view = Icmpv6Mut::new(&mut message, ChecksumState::Complete).unwrap();
            view.set_message(value);
            assert_eq!(Icmpv6::parse(&view.as_view()), value);
            assert!(view.as_view().checksum_is_valid(pseudo()), "{value:?}");
            let (old, new) = (Sum::of_field(1), Sum::of_field(0x2001));
            view.pseudo_changed(old, new);
            let pseudo = pseudo().minus(old).plus(new);
            assert!(view.as_view().checksum_is_valid(pseudo), "{value:?}");
        }
    }
}
