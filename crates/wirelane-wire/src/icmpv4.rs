//! ICMP over IPv4 (RFC 792): echo and errors.

use core::net::Ipv4Addr;

use crate::checksum::{Sum, update_sum};
use crate::error::WireError;
use crate::field::{be16, put, split, split_mut};
use crate::header::{accessors, header};

/// Length of the header in bytes.
pub const LEN: usize = 8;
/// Offset of the checksum in the header, for offloads.
pub const CHECKSUM_OFFSET: usize = 2;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

header! {
    /// A checked view of an ICMP message.
    view Icmpv4View(LEN) {
        /// The data of an echo, or the start of the packet that an error quotes.
        pub payload,
    }
}

impl<'a> Icmpv4View<'a> {
    /// Takes the payload of an IPv4 packet.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, payload) = split(bytes)?;
        Ok(Self { header, payload })
    }

    accessors! { LEN {
        /// The type of the message.
        message_type: u8 = 0,
        /// The subtype of the message.
        code: u8 = 1,
        /// The stored checksum.
        checksum: u16 = 2,
        /// The four bytes after the checksum, whose meaning depends on the type.
        rest: [u8; 4] = 4,
    } }

    /// Whether the checksum is valid. The view must contain the whole message.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        Sum::of(self.header).plus(Sum::of(self.payload)).is_valid()
    }
}

/// The fields that identify an echo request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Echo {
    /// Equal for all requests of one program.
    pub identifier: u16,
    /// Incremented for each request.
    pub sequence: u16,
}

impl Echo {
    #[inline]
    pub(crate) fn parse([a, b, c, d]: [u8; 4]) -> Self {
        Self { identifier: u16::from_be_bytes([a, b]), sequence: u16::from_be_bytes([c, d]) }
    }

    #[inline]
    pub(crate) fn bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.identifier.to_be_bytes(), self.sequence.to_be_bytes());
        [a, b, c, d]
    }
}

/// The value of an ICMP header. The checksum is computed when it is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Icmpv4 {
    /// Requests a reply with the same payload.
    EchoRequest(Echo),
    /// The reply.
    EchoReply(Echo),
    /// The packet cannot be delivered.
    Unreachable {
        /// The reason: 1 host, 3 port, 4 fragmentation needed, 13 prohibited …
        code: u8,
        /// With code 4, the longest packet that can pass (RFC 1191); otherwise 0.
        next_hop_mtu: u16,
    },
    /// There is a shorter route.
    Redirect {
        /// The scope: 0 a network, 1 a host.
        code: u8,
        /// The better router.
        gateway: Ipv4Addr,
    },
    /// The TTL expired (code 0) or the packet was not reassembled in time (code 1).
    TimeExceeded {
        /// The reason.
        code: u8,
    },
    /// A field of the packet's header is invalid.
    ParameterProblem {
        /// 0: `pointer` is valid.
        code: u8,
        /// The offset of the field in the packet.
        pointer: u8,
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

impl Icmpv4 {
    /// Reads the fields of a view.
    #[inline]
    pub fn parse(view: &Icmpv4View<'_>) -> Self {
        let (code, rest) = (view.code(), view.rest());
        let [a, b, c, d] = rest;
        match view.message_type() {
            ECHO_REQUEST if code == 0 => Self::EchoRequest(Echo::parse(rest)),
            ECHO_REPLY if code == 0 => Self::EchoReply(Echo::parse(rest)),
            UNREACHABLE if [a, b] == [0, 0] => {
                Self::Unreachable { code, next_hop_mtu: u16::from_be_bytes([c, d]) }
            }
            REDIRECT => Self::Redirect { code, gateway: rest.into() },
            TIME_EXCEEDED if rest == [0; 4] => Self::TimeExceeded { code },
            PARAMETER_PROBLEM if [b, c, d] == [0; 3] => Self::ParameterProblem { code, pointer: a },
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
    /// payload behind the header and ends with it. Returns the length of the header.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `message` is shorter than [`LEN`].
    #[inline]
    pub fn emit(&self, message: &mut [u8]) -> Result<usize, WireError> {
        let (header, payload) = split_mut::<LEN>(message)?;
        *header = self.header();
        let checksum = Sum::of(header).plus(Sum::of(payload)).checksum();
        put::<2, 2, LEN>(header, checksum.to_be_bytes());
        Ok(LEN)
    }

    /// The header with a checksum of 0.
    #[inline]
    fn header(&self) -> [u8; LEN] {
        let (message_type, code, [a, b, c, d]) = match *self {
            Self::EchoRequest(echo) => (ECHO_REQUEST, 0, echo.bytes()),
            Self::EchoReply(echo) => (ECHO_REPLY, 0, echo.bytes()),
            Self::Unreachable { code, next_hop_mtu } => {
                let [c, d] = next_hop_mtu.to_be_bytes();
                (UNREACHABLE, code, [0, 0, c, d])
            }
            Self::Redirect { code, gateway } => (REDIRECT, code, gateway.octets()),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => {
                (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0])
            }
            Self::Other { message_type, code, rest } => (message_type, code, rest),
        };
        [message_type, code, 0, 0, a, b, c, d]
    }
}

/// A checked view of an ICMP message that can be changed.
#[derive(Debug)]
pub struct Icmpv4Mut<'a> {
    header: &'a mut [u8; LEN],
    payload: &'a mut [u8],
}

impl<'a> Icmpv4Mut<'a> {
    /// Takes the payload of an IPv4 packet.
    ///
    /// # Errors
    /// As [`Icmpv4View::new`].
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, WireError> {
        let (header, payload) = split_mut(bytes)?;
        Ok(Self { header, payload })
    }

    /// The read-only view.
    #[inline]
    pub fn as_view(&self) -> Icmpv4View<'_> {
        Icmpv4View { header: self.header, payload: self.payload }
    }

    /// Replaces the header and updates the checksum, without reading the payload; a wrong checksum
    /// stays wrong.
    #[inline]
    pub fn set_message(&mut self, message: Icmpv4) {
        let checksum = be16::<2, LEN>(self.header);
        put::<2, 2, LEN>(self.header, [0, 0]);
        let new = message.header();
        let checksum = match update_sum(checksum, Sum::of(self.header), Sum::of(&new)) {
            // Equivalent, and the only valid checksum for a message of zeros: RFC 1624 cannot
            // distinguish them.
            0 => 0xffff,
            checksum => checksum,
        };
        *self.header = new;
        put::<2, 2, LEN>(self.header, checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 11] = [0x08, 0x00, 0x21, 0x68, 0x12, 0x34, 0x00, 0x01, b'a', b'b', b'c'];
    const VALUE: Icmpv4 = Icmpv4::EchoRequest(Echo { identifier: 0x1234, sequence: 1 });

    /// One message of each kind.
    const ALL: [Icmpv4; 7] = [
        VALUE,
        Icmpv4::EchoReply(Echo { identifier: 1, sequence: 2 }),
        Icmpv4::Unreachable { code: 4, next_hop_mtu: 1400 },
        Icmpv4::Redirect { code: 1, gateway: Ipv4Addr::new(192, 0, 2, 1) },
        Icmpv4::TimeExceeded { code: 1 },
        Icmpv4::ParameterProblem { code: 0, pointer: 8 },
        Icmpv4::Other { message_type: 13, code: 0, rest: [1, 2, 3, 4] },
    ];

    #[test]
    fn deconstruct() {
        let view = Icmpv4View::new(&BYTES).unwrap();
        assert_eq!((view.message_type(), view.code()), (8, 0));
        assert_eq!(view.checksum(), 0x2168);
        assert!(view.checksum_is_valid());
        assert_eq!(view.rest(), [0x12, 0x34, 0, 1]);
        assert_eq!(view.payload(), b"abc");
    }

    #[test]
    fn construct() {
        let mut message = [0xa5; 11];
        message[LEN..].copy_from_slice(b"abc");
        assert_eq!(VALUE.emit(&mut message), Ok(VALUE.header_len()));
        assert_eq!(message, BYTES);
    }

    #[test]
    fn parse() {
        let value = Icmpv4::parse(&Icmpv4View::new(&BYTES).unwrap());
        assert_eq!(value, VALUE);
        assert_eq!(value.echo(), Some(Echo { identifier: 0x1234, sequence: 1 }));
        assert_eq!(ALL[2].echo(), None);
    }

    #[test]
    fn emit() {
        for value in ALL {
            let mut message = BYTES;
            assert_eq!(value.emit(&mut message), Ok(LEN));
            let view = Icmpv4View::new(&message).unwrap();
            assert!(view.checksum_is_valid(), "{value:?}");
            assert_eq!(Icmpv4::parse(&view), value);
        }
    }

    #[test]
    fn impossible_len() {
        for have in 0..LEN {
            let error = WireError::Truncated { needed: LEN, have };
            assert_eq!(Icmpv4View::new(&BYTES[..have]).unwrap_err(), error);
            assert_eq!(VALUE.emit(&mut [0; LEN][..have]), Err(error));
            assert_eq!(Icmpv4Mut::new(&mut [0; LEN][..have]).unwrap_err(), error);
        }
    }

    #[test]
    fn change() {
        for value in ALL {
            let mut message = BYTES;
            let mut view = Icmpv4Mut::new(&mut message).unwrap();
            view.set_message(value);
            assert_eq!(Icmpv4::parse(&view.as_view()), value);
            assert!(view.as_view().checksum_is_valid(), "{value:?}");
        }
        let mut wrong = BYTES;
        wrong[9] ^= 1;
        let mut view = Icmpv4Mut::new(&mut wrong).unwrap();
        view.set_message(ALL[1]);
        assert!(!view.as_view().checksum_is_valid());
    }

    #[test]
    fn a_reply_of_zeros() {
        let mut message = [0; 12];
        Icmpv4::EchoRequest(Echo::default()).emit(&mut message).unwrap();
        let mut view = Icmpv4Mut::new(&mut message).unwrap();
        view.set_message(Icmpv4::EchoReply(Echo::default()));
        assert!(view.as_view().checksum_is_valid());
    }

    #[test]
    fn reserved_bytes_are_kept() {
        // RFC 4884 has a length in the unused bytes of errors.
        for message_type in [UNREACHABLE, TIME_EXCEEDED, PARAMETER_PROBLEM] {
            let message = [message_type, 1, 0, 0, 9, 9, 9, 9];
            let value = Icmpv4::parse(&Icmpv4View::new(&message).unwrap());
            assert_eq!(value, Icmpv4::Other { message_type, code: 1, rest: [9; 4] });
        }
    }
}
