//! PPP (RFC 1661): alone, in HDLC-like frames (RFC 1662) and in PPPoE (RFC 2516); Cisco HDLC.

use super::inside::Inside;
use crate::ethernet::EtherType;

/// Bytes of a PPPoE header; the first one is version and type, the second one is 0 in sessions.
const PPPOE_LEN: usize = 6;
/// Bytes of the Cisco HDLC header.
const CISCO_LEN: usize = 4;
/// Address and control of PPP frames (RFC 1662 section 3.1).
const ADDRESS: u8 = 0xff;
const CONTROL: u8 = 0x03;

/// A PPP frame at offset `at`, with or without address and control.
pub(super) fn plain(data: &[u8], at: usize) -> Inside {
    let at = match data.get(at..).unwrap_or_default() {
        [ADDRESS, CONTROL, ..] => at + 2,
        [ADDRESS] => return Inside::Short,
        _ => at,
    };
    let (protocol, at) = match *data.get(at..).unwrap_or_default() {
        // RFC 1661 section 6.5: an odd byte is a compressed protocol.
        [low, ..] if low & 1 == 1 => (u16::from(low), at + 1),
        [high, low, ..] => (u16::from_be_bytes([high, low]), at + 2),
        _ => return Inside::Short,
    };
    // <https://www.iana.org/assignments/ppp-numbers>
    match protocol {
        0x0021 => Inside::Network(EtherType::IPV4, at),
        0x0057 => Inside::Network(EtherType::IPV6, at),
        0x0053 | 0x0055 => Inside::Encrypted,
        _ => Inside::Control,
    }
}

/// PPP in HDLC-like frames, or Cisco HDLC, by the first byte.
pub(super) fn hdlc(data: &[u8]) -> Inside {
    match data.first() {
        Some(0x0f | 0x8f) => cisco(data),
        _ => plain(data, 0),
    }
}

/// Cisco HDLC: an address, a 0, and an EtherType.
pub(super) fn cisco(data: &[u8]) -> Inside {
    match data.get(..CISCO_LEN) {
        Some(&[_, _, high, low]) => {
            Inside::Network(EtherType(u16::from_be_bytes([high, low])), CISCO_LEN)
        }
        _ => Inside::Short,
    }
}

/// A PPPoE header and its payload.
pub(super) fn over_ethernet(data: &[u8]) -> Inside {
    match data.get(..PPPOE_LEN) {
        Some(&[_, 0, ..]) => plain(data, PPPOE_LEN),
        Some(_) => Inside::Control,
        None => Inside::Short,
    }
}
