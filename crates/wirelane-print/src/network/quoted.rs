//! The packet that an ICMP error quotes.

use wirelane_wire::Protocol;

use crate::bytes::{CapturedBytes, Truncated};

/// Addresses, protocol and destination port of a quoted packet.
pub(super) struct Quoted<A> {
    pub(super) source: A,
    pub(super) destination: A,
    pub(super) protocol: u8,
    /// `None` if the quotation has no port.
    pub(super) port: Option<u16>,
}

pub(super) fn ipv4(bytes: CapturedBytes<'_>) -> Result<Quoted<[u8; 4]>, Truncated> {
    let header_len = usize::from(bytes.u8(0)? & 15) * 4;
    Ok(Quoted {
        source: bytes.array(12)?,
        destination: bytes.array(16)?,
        protocol: bytes.u8(9)?,
        port: bytes.be16(header_len + 2).ok(),
    })
}

pub(super) fn ipv6(bytes: CapturedBytes<'_>) -> Result<Quoted<[u8; 16]>, Truncated> {
    let mut protocol = bytes.u8(6)?;
    let mut rest = bytes.after(40);
    while let Protocol::HOP_BY_HOP
    | Protocol::DESTINATION_OPTIONS
    | Protocol::ROUTING
    | Protocol::FRAGMENT = Protocol(protocol)
    {
        let Ok([next, len]) = rest.array(0) else { break };
        rest = rest.after(if protocol == Protocol::FRAGMENT.0 {
            8
        } else {
            (usize::from(len) + 1) * 8
        });
        protocol = next;
    }
    Ok(Quoted {
        source: bytes.array(8)?,
        destination: bytes.array(24)?,
        protocol,
        port: rest.be16(2).ok(),
    })
}
