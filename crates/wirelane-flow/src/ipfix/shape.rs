//! The set of fields in the record of a flow. Each shape has a template.

use std::net::IpAddr;

use wirelane_wire::Protocol;

use super::element::{self, Element, REVERSE, REVERSE_BIT, VARIABLE, iana};
use crate::Flow;

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordField {
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Icmp,
    Protocol,
    Vlan,
    InnerVlan,
    EndReason,
    Interface,
    /// The meaning of the source: the initiator.
    Direction,
    Layer2Segment,
    Community,
    HandshakeRtt,
    TunnelKind,
    TunnelSource,
    TunnelDestination,
    TunnelId,
    Of(MeasureDirection, MeasureField),
}

/// The direction of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasureDirection {
    Forward,
    Reverse,
}

/// The measures of each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasureField {
    Octets,
    Packets,
    Payload,
    StartMilliseconds,
    EndMilliseconds,
    Start,
    End,
    TcpFlags,
    Dscp,
    MinTtl,
    MaxTtl,
    Retransmissions,
    OutOfOrder,
    ZeroWindows,
    CongestionExperienced,
    Queue,
}

/// Bits that determine the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordShape(u16);

const IPV6: u16 = 1;
const TWO_WAY: u16 = 2;
const VLAN: u16 = 4;
const ICMP: u16 = 8;
const TUNNEL: u16 = 16;
/// The outer addresses are IPv6.
const TUNNEL_IPV6: u16 = 32;
const INNER_VLAN: u16 = 64;
/// The tunnel has a VNI or key.
const TUNNEL_ID: u16 = 128;

/// The first template ID (RFC 7011 section 3.4.1).
const FIRST_TEMPLATE: u16 = 256;

impl RecordShape {
    /// The number of shapes.
    pub(super) const COUNT: u16 = 256;

    pub(super) fn of(flow: &Flow) -> Self {
        let key = &flow.key;
        let bit = |condition: bool, bit: u16| if condition { bit } else { 0 };
        Self(
            bit(key.source.is_ipv6() || key.destination.is_ipv6(), IPV6)
                | bit(flow.reverse.packets > 0, TWO_WAY)
                | bit(key.vlan.is_some(), VLAN)
                | bit(key.inner_vlan.is_some(), INNER_VLAN)
                | bit(matches!(key.protocol, Protocol::ICMP | Protocol::ICMPV6), ICMP)
                | match key.tunnel {
                    None => 0,
                    Some(it) => {
                        let is_v6 = |address: IpAddr| address.is_ipv6();
                        TUNNEL
                            | bit(is_v6(it.source) || is_v6(it.destination), TUNNEL_IPV6)
                            | bit(it.id.is_some(), TUNNEL_ID)
                    }
                },
        )
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The index of the shape, from 0.
    pub(super) fn index(self) -> u16 {
        self.0
    }

    pub(super) fn template(self) -> u16 {
        FIRST_TEMPLATE + self.0
    }

    fn is(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    /// The fields in order, with private elements of `enterprise`.
    pub(super) fn fields(self, enterprise: Option<u32>) -> Vec<(Element, RecordField)> {
        use RecordField as F;
        let mut fields = Vec::with_capacity(48);
        let mut add = |id, length, field| {
            fields.push((Element { enterprise: 0, id, length }, field));
        };
        let (source, destination, width) = match self.is(IPV6) {
            true => (iana::SOURCE_IPV6, iana::DESTINATION_IPV6, 16),
            false => (iana::SOURCE_IPV4, iana::DESTINATION_IPV4, 4),
        };
        add(source, width, F::Source);
        add(destination, width, F::Destination);
        if self.is(ICMP) {
            add(if self.is(IPV6) { iana::ICMPV6 } else { iana::ICMPV4 }, 2, F::Icmp);
        } else {
            add(iana::SOURCE_PORT, 2, F::SourcePort);
            add(iana::DESTINATION_PORT, 2, F::DestinationPort);
        }
        add(iana::PROTOCOL, 1, F::Protocol);
        if self.is(VLAN) {
            add(iana::VLAN, 2, F::Vlan);
        }
        if self.is(INNER_VLAN) {
            add(iana::INNER_VLAN, 2, F::InnerVlan);
        }
        if self.is(TUNNEL_ID) {
            add(iana::LAYER_2_SEGMENT, 8, F::Layer2Segment);
        }
        add(iana::END_REASON, 1, F::EndReason);
        add(iana::INTERFACE_NAME, VARIABLE, F::Interface);
        // Collectors without private elements may expect TCP flags of one byte, as pmacct does (RFC
        // 7125 allows it).
        let is_plain = enterprise.is_none();
        let standard = STANDARD.map(|(id, length, measure)| match measure {
            MeasureField::TcpFlags if is_plain => (id, 1, measure),
            _ => (id, length, measure),
        });
        for (id, length, measure) in standard {
            add(id, length, F::Of(MeasureDirection::Forward, measure));
        }
        if self.is(TWO_WAY) {
            add(iana::BIFLOW_DIRECTION, 1, F::Direction);
            // Collectors that need milliseconds do not use reverse times.
            for (id, length, measure) in standard.into_iter().filter(|it| !is_coarse(it.2)) {
                let element = Element { enterprise: REVERSE, id, length };
                fields.push((element, F::Of(MeasureDirection::Reverse, measure)));
            }
        }
        if let Some(enterprise) = enterprise {
            self.add_private(enterprise, &mut fields);
        }
        fields
    }

    fn add_private(self, enterprise: u32, fields: &mut Vec<(Element, RecordField)>) {
        use RecordField as F;
        let mut add = |id, length, field| {
            fields.push((Element { enterprise, id, length }, field));
        };
        add(element::COMMUNITY, 20, F::Community);
        add(element::HANDSHAKE_RTT, 8, F::HandshakeRtt);
        for (id, length, measure) in PRIVATE {
            add(id, length, F::Of(MeasureDirection::Forward, measure));
            if self.is(TWO_WAY) {
                add(id | REVERSE_BIT, length, F::Of(MeasureDirection::Reverse, measure));
            }
        }
        if self.is(TUNNEL) {
            let width = if self.is(TUNNEL_IPV6) { 16 } else { 4 };
            add(element::TUNNEL_KIND, 1, F::TunnelKind);
            add(element::TUNNEL_SOURCE, width, F::TunnelSource);
            add(element::TUNNEL_DESTINATION, width, F::TunnelDestination);
            if self.is(TUNNEL_ID) {
                add(element::TUNNEL_ID, 4, F::TunnelId);
            }
        }
    }
}

/// A set of shapes, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shapes([u128; 2]);

impl Shapes {
    pub(super) fn add(&mut self, shape: RecordShape) {
        let [low, high] = &mut self.0;
        *(if shape.0 < 128 { low } else { high }) |= 1 << (shape.0 & 127);
    }

    pub(super) fn has(self, shape: RecordShape) -> bool {
        let [low, high] = self.0;
        (if shape.0 < 128 { low } else { high }) & 1 << (shape.0 & 127) != 0
    }
}

/// The field of an element in a received template, if it is known.
pub(super) fn field_of(enterprise: u32, id: u16, private: Option<u32>) -> Option<RecordField> {
    let known =
        |table: &[(u16, u16, MeasureField)], id| table.iter().find(|it| it.0 == id).map(|it| it.2);
    if enterprise == REVERSE {
        return known(&STANDARD, id)
            .map(|measure| RecordField::Of(MeasureDirection::Reverse, measure));
    }
    if enterprise != 0 {
        if Some(enterprise) != private {
            return None;
        }
        let side = if id & REVERSE_BIT == 0 {
            MeasureDirection::Forward
        } else {
            MeasureDirection::Reverse
        };
        if let Some(measure) = known(&PRIVATE, id & !REVERSE_BIT) {
            return Some(RecordField::Of(side, measure));
        }
    }
    // These shapes together have all fields.
    const LESS: u16 = 0;
    const MORE: u16 = IPV6 | VLAN | INNER_VLAN | TUNNEL | TUNNEL_ID;
    [LESS, MORE, ICMP, MORE | ICMP]
        .into_iter()
        .flat_map(|bits| RecordShape(bits).fields(private))
        .find(|(element, _)| (element.enterprise, element.id) == (enterprise, id))
        .map(|(_, field)| field)
}

fn is_coarse(measure: MeasureField) -> bool {
    matches!(measure, MeasureField::StartMilliseconds | MeasureField::EndMilliseconds)
}

const STANDARD: [(u16, u16, MeasureField); 11] = [
    (iana::OCTETS, 8, MeasureField::Octets),
    (iana::PACKETS, 8, MeasureField::Packets),
    (iana::PAYLOAD, 8, MeasureField::Payload),
    (iana::START_MILLISECONDS, 8, MeasureField::StartMilliseconds),
    (iana::END_MILLISECONDS, 8, MeasureField::EndMilliseconds),
    (iana::START_NANOSECONDS, 8, MeasureField::Start),
    (iana::END_NANOSECONDS, 8, MeasureField::End),
    (iana::TCP_FLAGS, 2, MeasureField::TcpFlags),
    (iana::DSCP, 1, MeasureField::Dscp),
    (iana::MIN_TTL, 1, MeasureField::MinTtl),
    (iana::MAX_TTL, 1, MeasureField::MaxTtl),
];

const PRIVATE: [(u16, u16, MeasureField); 5] = [
    (element::RETRANSMISSIONS, 4, MeasureField::Retransmissions),
    (element::OUT_OF_ORDER, 4, MeasureField::OutOfOrder),
    (element::ZERO_WINDOWS, 4, MeasureField::ZeroWindows),
    (element::CONGESTION_EXPERIENCED, 4, MeasureField::CongestionExperienced),
    (element::QUEUE, 2, MeasureField::Queue),
];
