//! Changes fields of packets, and updates their checksums.

use std::net::{Ipv4Addr, Ipv6Addr};

use wirelane::Frame;
use wirelane::wire::MacAddr;

use crate::error::{CallFailure, Result};

/// The source MAC address, 6 bytes.
pub const WIRELANE_FIELD_SOURCE_MAC: u32 = 0;
/// The destination MAC address, 6 bytes.
pub const WIRELANE_FIELD_DESTINATION_MAC: u32 = 1;
/// The source address of IPv4, 4 bytes.
pub const WIRELANE_FIELD_IPV4_SOURCE: u32 = 2;
/// The destination address of IPv4, 4 bytes.
pub const WIRELANE_FIELD_IPV4_DESTINATION: u32 = 3;
/// The source address of IPv6, 16 bytes.
pub const WIRELANE_FIELD_IPV6_SOURCE: u32 = 4;
/// The destination address of IPv6, 16 bytes.
pub const WIRELANE_FIELD_IPV6_DESTINATION: u32 = 5;
/// The time to live of IPv4 or the hop limit of IPv6, 1 byte.
pub const WIRELANE_FIELD_TTL: u32 = 6;
/// The source port of TCP or UDP, 2 bytes.
pub const WIRELANE_FIELD_SOURCE_PORT: u32 = 7;
/// The destination port of TCP or UDP, 2 bytes.
pub const WIRELANE_FIELD_DESTINATION_PORT: u32 = 8;

/// Sets the field of the packet in `frame`.
pub(crate) fn rewrite(frame: &mut Frame, field: u32, value: &[u8]) -> Result<()> {
    let done = match field {
        WIRELANE_FIELD_SOURCE_MAC => frame.set_source_mac(MacAddr(bytes(value)?)),
        WIRELANE_FIELD_DESTINATION_MAC => frame.set_destination_mac(MacAddr(bytes(value)?)),
        WIRELANE_FIELD_IPV4_SOURCE => frame.set_ipv4_source(Ipv4Addr::from(bytes(value)?)),
        WIRELANE_FIELD_IPV4_DESTINATION => {
            frame.set_ipv4_destination(Ipv4Addr::from(bytes(value)?))
        }
        WIRELANE_FIELD_IPV6_SOURCE => frame.set_ipv6_source(Ipv6Addr::from(bytes(value)?)),
        WIRELANE_FIELD_IPV6_DESTINATION => {
            frame.set_ipv6_destination(Ipv6Addr::from(bytes(value)?))
        }
        WIRELANE_FIELD_TTL => frame.set_ttl(u8::from_be_bytes(bytes(value)?)),
        WIRELANE_FIELD_SOURCE_PORT => frame.set_source_port(u16::from_be_bytes(bytes(value)?)),
        WIRELANE_FIELD_DESTINATION_PORT => {
            frame.set_destination_port(u16::from_be_bytes(bytes(value)?))
        }
        _ => return Err(CallFailure::Argument("there is no such field")),
    };
    done.map_err(|error| wirelane::Error::from(error).into())
}

fn bytes<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value.try_into().map_err(|_| CallFailure::Argument("the field has another length"))
}
