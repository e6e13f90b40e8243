//! EtherTypes and their names.

use wirelane_wire::EtherType;

use crate::line::TextLine;

pub(super) const REVERSE_ARP: EtherType = EtherType(0x8035);
pub(super) const MPLS: EtherType = EtherType(0x8847);
pub(super) const MPLS_MULTICAST: EtherType = EtherType(0x8848);
pub(super) const PPPOE_DISCOVERY: EtherType = EtherType(0x8863);
pub(super) const PPPOE_SESSION: EtherType = EtherType(0x8864);

/// Adds `ethertype IPv4 (0x0800)`.
pub(crate) fn print(line: &mut TextLine<'_>, kind: u16) {
    print_name(line.put("ethertype "), kind);
}

/// Adds `IPv4 (0x0800)`.
pub(crate) fn print_name(line: &mut TextLine<'_>, kind: u16) {
    line.put(name(kind).unwrap_or("Unknown")).put(" (0x").hex4(kind).put(")");
}

/// Whether the payload of this EtherType is printed, at least by name and length.
pub(crate) fn is_printed(kind: u16) -> bool {
    name(kind).is_some()
}

/// The name of an EtherType.
pub(super) fn name(kind: u16) -> Option<&'static str> {
    Some(match EtherType(kind) {
        EtherType::IPV4 => "IPv4",
        EtherType::IPV6 => "IPv6",
        EtherType::ARP => "ARP",
        REVERSE_ARP => "Reverse ARP",
        EtherType::VLAN => "802.1Q",
        EtherType::QINQ => "802.1Q-QinQ",
        EtherType::QINQ_OLD => "802.1Q-9100",
        EtherType::BRIDGED => "TEB",
        MPLS => "MPLS unicast",
        MPLS_MULTICAST => "MPLS multicast",
        PPPOE_DISCOVERY => "PPPoE D",
        PPPOE_SESSION => "PPPoE S",
        EtherType(other) => other_name(other)?,
    })
}

fn other_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x6003 => "DECnet",
        0x809b => "Appletalk",
        0x80f3 => "Appletalk ARP",
        0x8137 => "IPX",
        0x8808 => "MPCP",
        0x8809 => "Slow Protocols",
        0x880b => "PPP",
        0x886f => "MS NLB heartbeat",
        0x888e => "EAPOL",
        0x8892 => "PROFINET",
        0x8899 => "Realtek protocols",
        0x88a2 => "AoE",
        0x88a4 => "EtherCAT",
        0x88b8 => "GOOSE",
        0x88ba => "Sampled Values",
        0x88ca => "TIPC",
        0x88cc => "LLDP",
        0x88cd => "SERCOS",
        0x88e1 => "HomePlug AV",
        0x88e5 => "802.1AE MACsec",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        0x8906 => "FCoE",
        0x8914 => "FIP",
        0x894f => "NSH",
        0x9000 => "Loopback",
        0x9200 => "802.1Q-9200",
        _ => return None,
    })
}
