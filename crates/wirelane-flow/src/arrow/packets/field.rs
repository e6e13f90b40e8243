//! The columns of packets: names, types, and where in a row they come from. docs/packets.md
//! explains them.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use arrow_schema::{DataType, Field, TimeUnit};
use wirelane_pcap::{Class, Source};

use super::key::TextKey;
use super::row::{PacketRow, has, tunnel_name};

/// What times are in: nanoseconds since 1970.
const ZONE: &str = "UTC";

/// A column.
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// The bits of [`PacketRow::has`] that tell whether a row has it; none if all have it.
    pub(super) has: u32,
    pub(super) values: FieldValues,
}

/// The functions that append a field of rows to a column. Each contains the loop over the rows, so
/// there is one indirect call per column, instead of one per value.
#[derive(Clone, Copy)]
pub(super) enum FieldValues {
    Time(fn(&[PacketRow], &mut Vec<i64>)),
    Byte(fn(&[PacketRow], &mut Vec<u8>)),
    Short(fn(&[PacketRow], &mut Vec<u16>)),
    Word(fn(&[PacketRow], &mut Vec<u32>)),
    Text(fn(&PacketRow) -> TextKey, fn(TextKey, &[Source], &mut String)),
    /// The Community ID.
    Community,
    /// The bytes of the packet.
    Data,
}

impl FieldValues {
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into())),
            Self::Byte(_) => DataType::UInt8,
            Self::Short(_) => DataType::UInt16,
            Self::Word(_) => DataType::UInt32,
            Self::Text(..) | Self::Community => DataType::Utf8View,
            Self::Data => DataType::BinaryView,
        }
    }
}

impl Definition {
    pub(super) fn field(&self) -> Field {
        Field::new(self.name, self.values.data_type(), self.has != has::ALWAYS)
    }

    /// Whether the packet's headers have to be read for it.
    pub(super) fn is_in_headers(&self) -> bool {
        let outside = has::INTERFACE | has::QUEUE | has::CLASS;
        self.has != has::ALWAYS && self.has & outside == 0
    }
}

/// The values of one member of all rows.
macro_rules! values {
    ($kind:ident, $($member:tt)+) => {
        FieldValues::$kind(|rows, to| to.extend(rows.iter().map(|row| row.$($member)+)))
    };
}

const fn column(name: &'static str, has: u32, values: FieldValues) -> Definition {
    Definition { name, has, values }
}

/// All of them, in their order. The last one is only there on request.
pub(super) static ALL: [Definition; 35] = [
    column("time", has::ALWAYS, values!(Time, time)),
    column("interface", has::INTERFACE, FieldValues::Text(interface_of, interface)),
    column("queue", has::QUEUE, values!(Short, queue)),
    column("class", has::CLASS, FieldValues::Text(|row| TextKey::number(row.class.into()), class)),
    column("length", has::ALWAYS, values!(Word, length)),
    column("captured", has::ALWAYS, values!(Word, captured)),
    column("source_mac", has::MACS, FieldValues::Text(|row| TextKey::number(row.macs[0]), mac)),
    column(
        "destination_mac",
        has::MACS,
        FieldValues::Text(|row| TextKey::number(row.macs[1]), mac),
    ),
    column("ethertype", has::ETHERTYPE, values!(Short, ethertype)),
    column("vlan", has::VLAN, values!(Short, vlan)),
    column("inner_vlan", has::INNER_VLAN, values!(Short, inner_vlan)),
    column("ip_version", has::IP, values!(Byte, ip_version)),
    column("protocol", has::IP, values!(Byte, protocol)),
    column("source", has::IP, FieldValues::Text(|row| row.ends[0], address)),
    column("source_port", has::PORTS, values!(Short, ports[0])),
    column("destination", has::IP, FieldValues::Text(|row| row.ends[1], address)),
    column("destination_port", has::PORTS, values!(Short, ports[1])),
    column("octets", has::IP, values!(Word, octets)),
    column("payload", has::IP, values!(Word, payload)),
    column("ttl", has::IP, values!(Byte, ttl)),
    column("dscp", has::IP, values!(Byte, dscp)),
    column("ecn", has::IP, values!(Byte, ecn)),
    column("fragment_offset", has::FRAGMENT, values!(Short, fragment_offset)),
    column("tcp_flags", has::TCP, values!(Short, tcp_flags)),
    column("tcp_sequence", has::TCP, values!(Word, tcp_sequence)),
    column("tcp_acknowledgment", has::TCP, values!(Word, tcp_acknowledgment)),
    column("tcp_window", has::TCP, values!(Short, tcp_window)),
    column("icmp_type", has::ICMP, values!(Byte, icmp[0])),
    column("icmp_code", has::ICMP, values!(Byte, icmp[1])),
    column(
        "tunnel",
        has::TUNNEL,
        FieldValues::Text(|row| TextKey::number(row.tunnel.into()), tunnel),
    ),
    column("tunnel_source", has::TUNNEL, FieldValues::Text(|row| row.tunnel_ends[0], address)),
    column("tunnel_destination", has::TUNNEL, FieldValues::Text(|row| row.tunnel_ends[1], address)),
    column("tunnel_id", has::TUNNEL_ID, values!(Word, tunnel_id)),
    column("community_id", has::COMMUNITY, FieldValues::Community),
    column("data", has::ALWAYS, FieldValues::Data),
];

fn interface_of(row: &PacketRow) -> TextKey {
    TextKey::number(row.interface.into())
}

fn interface(key: TextKey, sources: &[Source], to: &mut String) {
    let [_, number] = key.bits;
    to.push_str(sources.get(number as usize).map_or("", |source| &source.name));
}

fn class(key: TextKey, _: &[Source], to: &mut String) {
    let all = [Class::Rx, Class::Tx, Class::Other];
    let [_, number] = key.bits;
    to.push_str(all.get(number as usize).map_or("", |class| class.as_str()));
}

fn tunnel(key: TextKey, _: &[Source], to: &mut String) {
    let [_, number] = key.bits;
    to.push_str(tunnel_name(number as u8));
}

fn mac(key: TextKey, _: &[Source], to: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let [_, number] = key.bits;
    for (at, byte) in number.to_be_bytes().into_iter().skip(2).enumerate() {
        if at > 0 {
            to.push(':');
        }
        [byte >> 4, byte & 15].into_iter().for_each(|it| to.push(DIGITS[usize::from(it)].into()));
    }
}

fn address(key: TextKey, _: &[Source], to: &mut String) {
    let TextKey { bits: [high, low], is_v6 } = key;
    if is_v6 {
        // A string takes any text.
        let _ = write!(to, "{}", Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)));
        return;
    }
    // The library's way takes four times as many instructions, and most addresses of a batch may be
    // new.
    let (mut text, mut end) = ([b'.'; 16], 0);
    for byte in (low as u32).to_be_bytes() {
        let digits = [byte / 100, byte / 10 % 10, byte % 10].map(|digit| b'0' + digit);
        let leading = usize::from(byte < 100) + usize::from(byte < 10);
        let digits = digits.get(leading..).unwrap_or_default();
        if let Some(place) = text.get_mut(end..end + digits.len()) {
            place.copy_from_slice(digits);
        }
        end += digits.len() + 1;
    }
    let text = text.get(..end - 1).unwrap_or_default();
    to.push_str(std::str::from_utf8(text).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn addresses_are_as_the_library_writes_them() {
        for byte in 0..=255 {
            let written = Ipv4Addr::from([byte, 255 - byte, 0, byte / 2]);
            let mut text = String::new();
            address(TextKey::v4(written), &[], &mut text);
            assert_eq!(text, written.to_string());
        }
    }
}
