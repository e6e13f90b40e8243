//! ARP (RFC 826) for IPv4 over Ethernet.

use core::net::Ipv4Addr;

use crate::error::WireError;
use crate::ethernet::{EtherType, MacAddr};
use crate::field::{be16, fields, put, split, split_mut};
use crate::header::header;

/// Length of a message in bytes.
pub const LEN: usize = 28;

/// Hardware type of Ethernet (the IANA "ARP Parameters" registry).
const ETHERNET: u16 = 1;

header! {
    /// A checked view of an ARP message.
    view ArpView(LEN) {}

    /// The value of an ARP message.
    value Arp {
        /// The purpose of the message.
        operation: ArpOperation = 6,
        /// The hardware address of the sender.
        sender_mac: MacAddr = 8,
        /// The IP address of the sender; 0.0.0.0 in a probe (RFC 5227).
        sender: Ipv4Addr = 14,
        /// The hardware address of the target; undefined in a request.
        target_mac: MacAddr = 18,
        /// The IP address of the target: in a request, the requested address.
        target: Ipv4Addr = 24,
    }
}

impl<'a> ArpView<'a> {
    /// Takes the payload of an Ethernet frame. Bytes after the message are Ethernet padding.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for fewer than [`LEN`] bytes; [`WireError::Malformed`] for anything
    /// but IPv4 over Ethernet.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        let (header, _) = split::<LEN>(bytes)?;
        let kinds = (be16::<0, LEN>(header), EtherType(be16::<2, LEN>(header)));
        if kinds != (ETHERNET, EtherType::IPV4) || header[4..6] != [6, 4] {
            return Err(WireError::Malformed("ARP: not IPv4 over Ethernet"));
        }
        Ok(Self { header })
    }
}

impl Arp {
    /// Requests the hardware address of `target`. The request goes to [`MacAddr::BROADCAST`].
    pub const fn request(sender_mac: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let operation = ArpOperation::REQUEST;
        Self { operation, sender_mac, sender, target_mac: MacAddr::ZERO, target }
    }

    /// Answers this request: the requested address is at `mac`. The reply goes to the request's
    /// sender.
    #[must_use]
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self {
            operation: ArpOperation::REPLY,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }

    /// Writes the message to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is shorter than [`LEN`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let (message, _) = split_mut::<LEN>(buffer)?;
        put::<0, 2, LEN>(message, ETHERNET.to_be_bytes());
        put::<2, 2, LEN>(message, EtherType::IPV4.0.to_be_bytes());
        put::<4, 2, LEN>(message, [6, 4]);
        self.put_fields(message);
        Ok(LEN)
    }
}

/// The purpose of an ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArpOperation(pub u16);

fields! {
    ArpOperation: 2,
        |it| ArpOperation(u16::from_be_bytes(it)),
        |it: ArpOperation| it.0.to_be_bytes();
}

impl ArpOperation {
    /// Requests the hardware address of the target.
    pub const REQUEST: Self = Self(1);
    /// Announces the sender's address.
    pub const REPLY: Self = Self(2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests;

    const BYTES: [u8; 30] = [
        0, 1, 0x08, 0x00, 6, 4, 0, 1, 0x02, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0,
        2, 2, 0, 0,
    ];
    const VALUE: Arp = Arp::request(
        MacAddr([2, 0, 0, 0, 0, 1]),
        Ipv4Addr::new(192, 0, 2, 1),
        Ipv4Addr::new(192, 0, 2, 2),
    );

    #[test]
    fn deconstruct() {
        let view = ArpView::new(&BYTES).unwrap();
        assert_eq!(view.operation(), ArpOperation::REQUEST);
        assert_eq!((view.sender_mac(), view.sender()), (VALUE.sender_mac, VALUE.sender));
        assert_eq!((view.target_mac(), view.target()), (MacAddr::ZERO, VALUE.target));
    }

    tests! { Arp, ArpView, LEN }

    #[test]
    fn malformed() {
        for at in 0..6 {
            let mut message = BYTES;
            message[at] ^= 0x10;
            assert!(matches!(ArpView::new(&message), Err(WireError::Malformed(_))), "{at}");
        }
    }

    #[test]
    fn replies() {
        let mac = MacAddr([2, 0, 0, 0, 0, 2]);
        let reply = VALUE.reply(mac);
        assert_eq!((reply.sender, reply.sender_mac), (VALUE.target, mac));
        assert_eq!((reply.target, reply.target_mac), (VALUE.sender, VALUE.sender_mac));
        assert_eq!(reply.operation, ArpOperation::REPLY);
    }
}
