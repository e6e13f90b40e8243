//! A packet as a row: what its headers say, as plain numbers.

use wirelane_pcap::{Direction, Record, Source};
use wirelane_wire::{
    Addresses, EtherType, EthernetView, Internet, Link, MacAddr, Protocol, TcpFlags, TunnelKind,
    ethernet, vlan,
};

use super::key::TextKey;

/// Tunnels in tunnels that are looked into.
const DEPTH: usize = 4;

/// Where the network header of an Ethernet frame begins behind two tags. Behind more, and behind
/// any tag in cooked captures, nothing is read: no index of a store knows what is there.
const DEEPEST: usize = ethernet::LEN + 2 * vlan::LEN;

/// Which fields a row has, as bits of [`PacketRow::has`].
pub(super) mod has {
    pub(crate) const ALWAYS: u32 = 0;
    pub(crate) const INTERFACE: u32 = 1 << 0;
    pub(crate) const QUEUE: u32 = 1 << 1;
    pub(crate) const CLASS: u32 = 1 << 2;
    pub(crate) const MACS: u32 = 1 << 3;
    pub(crate) const ETHERTYPE: u32 = 1 << 4;
    pub(crate) const VLAN: u32 = 1 << 5;
    pub(crate) const INNER_VLAN: u32 = 1 << 6;
    pub(crate) const IP: u32 = 1 << 7;
    pub(crate) const FRAGMENT: u32 = 1 << 8;
    pub(crate) const PORTS: u32 = 1 << 9;
    pub(crate) const TCP: u32 = 1 << 10;
    pub(crate) const ICMP: u32 = 1 << 11;
    pub(crate) const TUNNEL: u32 = 1 << 12;
    pub(crate) const TUNNEL_ID: u32 = 1 << 13;
    pub(crate) const COMMUNITY: u32 = 1 << 14;
}

/// A packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketRow {
    pub(super) has: u32,
    pub(super) time: i64,
    pub(super) interface: u32,
    pub(super) class: u8,
    pub(super) queue: u16,
    pub(super) length: u32,
    pub(super) captured: u32,
    pub(super) macs: [u64; 2],
    pub(super) ethertype: u16,
    pub(super) vlan: u16,
    pub(super) inner_vlan: u16,
    pub(super) ip_version: u8,
    pub(super) protocol: u8,
    pub(super) ends: [TextKey; 2],
    pub(super) ports: [u16; 2],
    pub(super) octets: u32,
    pub(super) payload: u32,
    pub(super) fragment_offset: u16,
    pub(super) ttl: u8,
    pub(super) dscp: u8,
    pub(super) ecn: u8,
    pub(super) tcp_flags: u16,
    pub(super) tcp_window: u16,
    pub(super) tcp_sequence: u32,
    pub(super) tcp_acknowledgment: u32,
    pub(super) icmp: [u8; 2],
    pub(super) tunnel: u8,
    pub(super) tunnel_ends: [TextKey; 2],
    pub(super) tunnel_id: u32,
}

impl PacketRow {
    /// What is known without a look at the packet.
    #[inline]
    pub(super) fn outside(record: &Record<'_>, interface: u32, source: &InterfaceColumns) -> Self {
        let mut row = Self {
            has: source.has,
            time: i64::try_from(record.timestamp).unwrap_or(i64::MAX),
            interface,
            class: source.class,
            queue: source.queue,
            length: record.original_len,
            captured: record.data.len() as u32,
            ..Self::default()
        };
        if record.direction != Direction::Unknown && source.has & has::CLASS == 0 {
            row.class = u8::from(record.direction == Direction::Outbound);
            row.has |= has::CLASS;
        }
        row
    }

    /// Adds what its headers say.
    #[inline]
    pub(super) fn decode(&mut self, link_type: u16, data: &[u8]) {
        const ETHERNET: u16 = wirelane_pcap::LINK_TYPE_ETHERNET;
        if link_type == ETHERNET
            && let Ok(view) = EthernetView::new(data)
        {
            self.macs = [number(view.source()), number(view.destination())];
            self.has |= has::MACS;
        }
        let link = Link::parse(link_type, data);
        let Link::Network { ethertype, at, outer_vlan, inner_vlan } = link else { return };
        if !ethertype.is_length() {
            self.ethertype = ethertype.0;
            self.has |= has::ETHERTYPE;
        }
        if link_type != ETHERNET && outer_vlan.is_some() {
            return;
        }
        if let Some(id) = outer_vlan {
            self.vlan = id;
            self.has |= has::VLAN;
        }
        if let Some(id) = inner_vlan {
            self.inner_vlan = id;
            self.has |= has::INNER_VLAN;
        }
        if link_type == ETHERNET && at > DEEPEST {
            return;
        }
        let carried = self.length.saturating_sub(at as u32);
        self.network(ethertype, data.get(at..).unwrap_or_default(), carried);
    }

    #[inline]
    fn network(&mut self, ethertype: EtherType, bytes: &[u8], carried: u32) {
        let Ok(Some(mut packet)) = Internet::parse(ethertype, bytes, carried) else { return };
        for _ in 0..DEPTH {
            let Some((inside, tunnel)) = packet.inside() else { break };
            (_, self.tunnel_ends) = ends(&packet.addresses);
            self.tunnel = tunnel.kind as u8;
            self.has |= has::TUNNEL;
            // Of one around it there may be another.
            self.has &= !has::TUNNEL_ID;
            if let Some(id) = tunnel.id {
                self.tunnel_id = id;
                self.has |= has::TUNNEL_ID;
            }
            packet = inside;
        }
        (self.ip_version, self.ends) = ends(&packet.addresses);
        self.protocol = packet.transport.protocol.0;
        self.octets = packet.octets;
        self.payload = packet.payload_len();
        self.ttl = packet.ttl;
        self.dscp = packet.dscp;
        self.ecn = packet.ecn;
        self.has |= has::IP;
        if packet.transport.is_fragment {
            self.fragment_offset = packet.fragment_offset;
            self.has |= has::FRAGMENT;
        }
        if packet.has_transport_header() {
            self.transport(packet.transport.protocol, packet.transport.bytes);
        }
        let is_told = match packet.transport.protocol {
            _ if packet.transport.is_fragment => true,
            Protocol::ICMP | Protocol::ICMPV6 => self.has & has::ICMP != 0,
            protocol => !protocol.has_ports() || self.has & has::PORTS != 0,
        };
        if is_told {
            self.has |= has::COMMUNITY;
        }
    }

    #[inline]
    fn transport(&mut self, protocol: Protocol, bytes: &[u8]) {
        if protocol.has_ports() {
            let Some(&[a, b, c, d]) = bytes.first_chunk() else { return };
            self.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            self.has |= has::PORTS;
        }
        match protocol {
            // Not a view of the whole header: a snap length may have cut the options.
            Protocol::TCP => {
                let Some(header) = bytes.first_chunk::<16>() else { return };
                let &[_, _, _, _, a, b, c, d, e, f, g, h, i, j, k, l] = header;
                self.tcp_sequence = u32::from_be_bytes([a, b, c, d]);
                self.tcp_acknowledgment = u32::from_be_bytes([e, f, g, h]);
                self.tcp_flags = TcpFlags::from_bits(u16::from_be_bytes([i, j])).bits();
                self.tcp_window = u16::from_be_bytes([k, l]);
                self.has |= has::TCP;
            }
            Protocol::ICMP | Protocol::ICMPV6 => {
                let Some(header) = bytes.first_chunk::<2>() else { return };
                self.icmp = *header;
                self.has |= has::ICMP;
            }
            _ => {}
        }
    }
}

/// The IP version, and both addresses.
#[inline]
fn ends(addresses: &Addresses) -> (u8, [TextKey; 2]) {
    match *addresses {
        Addresses::V4 { source, destination } => {
            (4, [TextKey::v4(source), TextKey::v4(destination)])
        }
        Addresses::V6 { source, destination } => {
            (6, [TextKey::v6(source), TextKey::v6(destination)])
        }
    }
}

#[inline]
fn number(MacAddr([a, b, c, d, e, f]): MacAddr) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// What is known of the interface that packets come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterfaceColumns {
    pub(super) link_type: u16,
    has: u32,
    queue: u16,
    class: u8,
}

impl InterfaceColumns {
    pub(super) fn of(source: &Source) -> Self {
        let flag = |is_there: bool, flag: u32| if is_there { flag } else { 0 };
        Self {
            link_type: source.link_type,
            has: flag(!source.name.is_empty(), has::INTERFACE)
                | flag(source.queue.is_some(), has::QUEUE)
                | flag(source.class.is_some(), has::CLASS),
            queue: u16::try_from(source.queue.unwrap_or(0)).unwrap_or(u16::MAX),
            class: source.class.unwrap_or_default() as u8,
        }
    }
}

/// As in text.
pub(super) fn tunnel_name(kind: u8) -> &'static str {
    let kinds = [TunnelKind::Vxlan, TunnelKind::Geneve, TunnelKind::Gre, TunnelKind::Ip];
    kinds.into_iter().find(|it| *it as u8 == kind).map_or("", TunnelKind::as_str)
}
