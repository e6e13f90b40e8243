//! Encodes and decodes single fields of a flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use wirelane_wire::{Protocol, TcpFlags};

use super::shape::{MeasureDirection, MeasureField, RecordField};
use super::time::{from_ntp, to_ntp};
use crate::{EndReason, Flow, Half, Key, Tunnel, TunnelKind};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// The first byte of `layer2SegmentId` for VXLAN (RFC 7133 section 4.1).
const VXLAN: u64 = 1 << 56;

/// The value of an unknown RTT.
const UNKNOWN: u64 = u64::MAX;

/// Appends `field` with `length` bytes.
pub(super) fn put(out: &mut Vec<u8>, flow: &Flow, field: RecordField, length: u16) {
    let key = &flow.key;
    let tunnel = key.tunnel.as_ref();
    match field {
        RecordField::Source => put_address(out, key.source, length),
        RecordField::Destination => put_address(out, key.destination, length),
        RecordField::SourcePort => out.extend(key.source_port.to_be_bytes()),
        RecordField::DestinationPort => out.extend(key.destination_port.to_be_bytes()),
        // Types and codes are single bytes.
        RecordField::Icmp => out.extend([key.source_port as u8, key.destination_port as u8]),
        RecordField::Protocol => out.push(key.protocol.0),
        RecordField::Vlan => out.extend(key.vlan.unwrap_or(0).to_be_bytes()),
        RecordField::InnerVlan => out.extend(key.inner_vlan.unwrap_or(0).to_be_bytes()),
        RecordField::EndReason => out.push(flow.end as u8),
        RecordField::Interface => put_text(out, &flow.interface),
        RecordField::Direction => out.push(1),
        RecordField::Layer2Segment => {
            let id = tunnel.filter(|it| it.kind == TunnelKind::Vxlan).and_then(|it| it.id);
            out.extend(id.map_or(0, |id| VXLAN | u64::from(id)).to_be_bytes());
        }
        RecordField::Community => out.extend(flow.community),
        RecordField::HandshakeRtt => {
            out.extend(flow.handshake_rtt.unwrap_or(UNKNOWN).to_be_bytes())
        }
        RecordField::TunnelKind => out.push(tunnel.map_or(0, |it| number_of(it.kind))),
        RecordField::TunnelSource => {
            put_address(out, tunnel.map_or(NOWHERE, |it| it.source), length)
        }
        RecordField::TunnelDestination => {
            put_address(out, tunnel.map_or(NOWHERE, |it| it.destination), length);
        }
        RecordField::TunnelId => out.extend(tunnel.and_then(|it| it.id).unwrap_or(0).to_be_bytes()),
        RecordField::Of(MeasureDirection::Forward, measure) => {
            put_measure(out, &flow.forward, measure, length)
        }
        RecordField::Of(MeasureDirection::Reverse, measure) => {
            put_measure(out, &flow.reverse, measure, length)
        }
    }
}

fn put_measure(out: &mut Vec<u8>, half: &Half, measure: MeasureField, length: u16) {
    match measure {
        MeasureField::Octets => out.extend(half.octets.to_be_bytes()),
        MeasureField::Packets => out.extend(half.packets.to_be_bytes()),
        MeasureField::Payload => out.extend(half.payload.to_be_bytes()),
        MeasureField::StartMilliseconds => {
            out.extend((half.start / NANOSECONDS_PER_MILLISECOND).to_be_bytes());
        }
        MeasureField::EndMilliseconds => {
            out.extend((half.end / NANOSECONDS_PER_MILLISECOND).to_be_bytes());
        }
        MeasureField::Start => out.extend(to_ntp(half.start).to_be_bytes()),
        MeasureField::End => out.extend(to_ntp(half.end).to_be_bytes()),
        MeasureField::TcpFlags if length == 1 => out.push(half.tcp_flags.bits() as u8),
        MeasureField::TcpFlags => out.extend(half.tcp_flags.bits().to_be_bytes()),
        MeasureField::Dscp => out.push(half.dscp),
        MeasureField::MinTtl => out.push(half.min_ttl),
        MeasureField::MaxTtl => out.push(half.max_ttl),
        MeasureField::Retransmissions => out.extend(half.retransmissions.to_be_bytes()),
        MeasureField::OutOfOrder => out.extend(half.out_of_order.to_be_bytes()),
        MeasureField::ZeroWindows => out.extend(half.zero_windows.to_be_bytes()),
        MeasureField::CongestionExperienced => {
            out.extend(half.congestion_experienced.to_be_bytes())
        }
        MeasureField::Queue => out.extend(half.queue.to_be_bytes()),
    }
}

/// Appends an IPv4 address as 4 bytes, or an IPv6 or IPv4-mapped address as 16 bytes.
fn put_address(out: &mut Vec<u8>, address: IpAddr, length: u16) {
    match address {
        IpAddr::V4(it) if length == 4 => out.extend(it.octets()),
        IpAddr::V4(it) => out.extend(it.to_ipv6_mapped().octets()),
        IpAddr::V6(it) => out.extend(it.octets()),
    }
}

/// Appends a text with its length (RFC 7011 section 7), cut to 254 bytes.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let length = text.floor_char_boundary(254);
    out.push(length as u8);
    out.extend(&text.as_bytes()[..length]);
}

/// Decodes `field` from its bytes, possibly with a reduced length (RFC 7011 section 6.2).
///
/// `name` is the last interface name, which flows share.
pub(super) fn take(flow: &mut Flow, field: RecordField, bytes: &[u8], name: &mut Arc<str>) {
    let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let key = &mut flow.key;
    // Elements have the width of their field, so only invalid values are truncated.
    match field {
        RecordField::Source => key.source = address(bytes).unwrap_or(key.source),
        RecordField::Destination => key.destination = address(bytes).unwrap_or(key.destination),
        RecordField::SourcePort => key.source_port = number as u16,
        RecordField::DestinationPort => key.destination_port = number as u16,
        RecordField::Icmp => {
            key.source_port = (number >> 8) as u8 as u16;
            key.destination_port = number as u8 as u16;
        }
        RecordField::Protocol => key.protocol = Protocol(number as u8),
        RecordField::Vlan => key.vlan = Some(number as u16),
        RecordField::InnerVlan => key.inner_vlan = Some(number as u16),
        RecordField::EndReason => flow.end = end_reason(number),
        RecordField::Interface => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                if **name != *text {
                    *name = text.into();
                }
                flow.interface = Arc::clone(name);
            }
        }
        RecordField::Direction => {}
        RecordField::Layer2Segment => {
            if number & VXLAN != 0 {
                let tunnel = key.tunnel.get_or_insert(NO_TUNNEL);
                tunnel.id = Some(number as u32);
            }
        }
        RecordField::Community => {
            if let Ok(bytes) = bytes.try_into() {
                flow.community = bytes;
            }
        }
        RecordField::HandshakeRtt => flow.handshake_rtt = (number != UNKNOWN).then_some(number),
        RecordField::TunnelKind => {
            if let Some(kind) = tunnel_kind(number) {
                key.tunnel.get_or_insert(NO_TUNNEL).kind = kind;
            }
        }
        RecordField::TunnelSource => {
            let tunnel = key.tunnel.get_or_insert(NO_TUNNEL);
            tunnel.source = address(bytes).unwrap_or(tunnel.source);
        }
        RecordField::TunnelDestination => {
            let tunnel = key.tunnel.get_or_insert(NO_TUNNEL);
            tunnel.destination = address(bytes).unwrap_or(tunnel.destination);
        }
        RecordField::TunnelId => key.tunnel.get_or_insert(NO_TUNNEL).id = Some(number as u32),
        RecordField::Of(MeasureDirection::Forward, measure) => {
            take_measure(&mut flow.forward, measure, number)
        }
        RecordField::Of(MeasureDirection::Reverse, measure) => {
            take_measure(&mut flow.reverse, measure, number)
        }
    }
}

fn take_measure(half: &mut Half, measure: MeasureField, number: u64) {
    match measure {
        MeasureField::Octets => half.octets = number,
        MeasureField::Packets => half.packets = number,
        MeasureField::Payload => half.payload = number,
        // Nanoseconds, if present, take precedence.
        MeasureField::StartMilliseconds if half.start == 0 => {
            half.start = number.saturating_mul(NANOSECONDS_PER_MILLISECOND);
        }
        MeasureField::EndMilliseconds if half.end == 0 => {
            half.end = number.saturating_mul(NANOSECONDS_PER_MILLISECOND);
        }
        MeasureField::StartMilliseconds | MeasureField::EndMilliseconds => {}
        MeasureField::Start => half.start = from_ntp(number),
        MeasureField::End => half.end = from_ntp(number),
        MeasureField::TcpFlags => half.tcp_flags = TcpFlags::from_bits(number as u16),
        MeasureField::Dscp => half.dscp = number as u8,
        MeasureField::MinTtl => half.min_ttl = number as u8,
        MeasureField::MaxTtl => half.max_ttl = number as u8,
        MeasureField::Retransmissions => half.retransmissions = number as u32,
        MeasureField::OutOfOrder => half.out_of_order = number as u32,
        MeasureField::ZeroWindows => half.zero_windows = number as u32,
        MeasureField::CongestionExperienced => half.congestion_experienced = number as u32,
        MeasureField::Queue => half.queue = number as u16,
    }
}

/// An empty flow to decode into.
pub(super) fn blank(name: &Arc<str>) -> Flow {
    Flow {
        key: Key {
            source: NOWHERE,
            destination: NOWHERE,
            source_port: 0,
            destination_port: 0,
            protocol: Protocol(0),
            vlan: None,
            inner_vlan: None,
            tunnel: None,
        },
        forward: Half::default(),
        reverse: Half::default(),
        handshake_rtt: None,
        end: EndReason::Forced,
        interface: Arc::clone(name),
        community: [0; 20],
    }
}

const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const NO_TUNNEL: Tunnel =
    Tunnel { kind: TunnelKind::Vxlan, source: NOWHERE, destination: NOWHERE, id: None };

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

fn end_reason(number: u64) -> EndReason {
    match number {
        1 => EndReason::Idle,
        2 => EndReason::Active,
        3 => EndReason::Ended,
        5 => EndReason::Evicted,
        _ => EndReason::Forced,
    }
}

fn number_of(kind: TunnelKind) -> u8 {
    match kind {
        TunnelKind::Vxlan => 1,
        TunnelKind::Geneve => 2,
        TunnelKind::Gre => 3,
        TunnelKind::Ip => 4,
    }
}

fn tunnel_kind(number: u64) -> Option<TunnelKind> {
    [TunnelKind::Vxlan, TunnelKind::Geneve, TunnelKind::Gre, TunnelKind::Ip]
        .into_iter()
        .find(|kind| u64::from(number_of(*kind)) == number)
}
