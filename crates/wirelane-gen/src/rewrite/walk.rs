//! Walks through the headers of a frame and applies [`Edits`]. Valid checksums stay valid and wrong
//! ones stay wrong (RFC 1624). Accepts any bytes: a truncated frame is changed up to its end.

use wirelane_wire::checksum::{Sum, update_sum};
use wirelane_wire::{EtherType, MacAddr, Protocol, ipv6};

use super::rule::RewriteField;

/// The change of each field. [`RewriteField::Both`] means an address that is neither source nor
/// destination, such as the target of neighbour discovery.
pub(super) trait Edits {
    fn mac(&self, side: RewriteField, old: MacAddr, is_outer: bool) -> MacAddr;
    fn v4(&self, side: RewriteField, old: u32) -> u32;
    fn v6(&self, side: RewriteField, old: u128) -> u128;
    fn port(&self, side: RewriteField, old: u16) -> u16;
    fn ttl(&self, old: u8) -> u8;
    /// Whether packets in tunnels are also changed.
    fn enters_tunnels(&self) -> bool;
    /// Whether the edits restore the original frame: the original port identifies a tunnel.
    fn goes_back(&self) -> bool;
}

/// The largest depth of nested packets: tunnels in tunnels, and packets quoted in errors.
const DEEPEST: u32 = 4;
/// The largest number of VLAN tags, as in the kernel.
const MAX_TAGS: usize = 8;

/// Changes an Ethernet frame.
pub(super) fn frame(bytes: &mut [u8], edits: &impl Edits) {
    ethernet(bytes, edits, 0);
}

/// The sums of changed bytes under a checksum, before and after the change.
#[derive(Clone, Copy, Default)]
struct ChangedSums {
    old: Sum,
    new: Sum,
}

impl ChangedSums {
    fn plus(self, old: &[u8], new: &[u8]) -> Self {
        Self { old: self.old.plus(Sum::of(old)), new: self.new.plus(Sum::of(new)) }
    }

    /// Updates the checksum at `at`, if present. `zero` is the meaning of 0.
    fn apply(self, bytes: &mut [u8], at: usize, zero: Zero) {
        let Some(field) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<2>()) else {
            return;
        };
        let old = u16::from_be_bytes(*field);
        if self.old == self.new || zero == Zero::Absent && old == 0 {
            return;
        }
        let new = match update_sum(old, self.old, self.new) {
            0 if zero != Zero::Valid => 0xffff,
            new => new,
        };
        *field = new.to_be_bytes();
    }
}

/// The meaning of 0 in a checksum field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// An ordinary checksum.
    Valid,
    /// No checksum (UDP).
    Absent,
    /// Invalid (UDP-Lite).
    Never,
}

fn ethernet(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let Some(addresses) = bytes.first_chunk_mut::<12>() else { return };
    for (at, side) in [(0, RewriteField::Destination), (6, RewriteField::Source)] {
        change_mac(addresses, at, side, edits, depth == 0);
    }
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let Some(ethertype) = field(bytes, at).map(u16::from_be_bytes).map(EtherType) else {
            return;
        };
        at += 2;
        let rest = bytes.get_mut(at..).unwrap_or_default();
        match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => return ip(rest, edits, depth),
            EtherType::ARP => return arp(rest, edits),
            _ if ethertype.is_vlan() => at += 2,
            _ => return,
        }
    }
}

fn change_mac(bytes: &mut [u8], at: usize, side: RewriteField, edits: &impl Edits, is_outer: bool) {
    if let Some(place) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<6>()) {
        *place = edits.mac(side, MacAddr(*place), is_outer).0;
    }
}

/// ARP for Ethernet and IPv4 (RFC 826).
fn arp(bytes: &mut [u8], edits: &impl Edits) {
    if !bytes.starts_with(&[0, 1, 8, 0, 6, 4]) {
        return;
    }
    let mut none = ChangedSums::default();
    for (at, side) in [(8, RewriteField::Source), (18, RewriteField::Destination)] {
        change_mac(bytes, at, side, edits, false);
        change_v4(bytes, at + 6, side, edits, &mut none);
    }
}

/// An IP packet of either version.
fn ip(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => ipv4(bytes, edits, depth),
        Some(6) => ipv6(bytes, edits, depth),
        _ => {}
    }
}

/// An IPv4 packet (RFC 791).
fn ipv4(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let Some(header) = bytes.first_chunk::<20>() else { return };
    let begin = usize::from(header[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    let protocol = Protocol(header[9]);
    if begin < 20 {
        return;
    }
    let mut addresses = ChangedSums::default();
    change_v4(bytes, 12, RewriteField::Source, edits, &mut addresses);
    change_v4(bytes, 16, RewriteField::Destination, edits, &mut addresses);
    let mut all = addresses;
    if depth == 0 {
        change_ttl(bytes, 8, edits, &mut all);
    }
    all.apply(bytes, 10, Zero::Valid);
    // A length of 0 means a large frame for segmentation offload.
    let end = if total == 0 { bytes.len() } else { total.min(bytes.len()) };
    if let Some(upper) = bytes.get_mut(begin..end).filter(|_| !is_later_fragment) {
        transport(upper, protocol, false, addresses, edits, depth);
    }
}

/// An IPv6 packet (RFC 8200).
fn ipv6(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let Some(header) = bytes.first_chunk::<40>() else { return };
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut protocol = Protocol(header[6]);
    if depth == 0 {
        change_ttl(bytes, 7, edits, &mut ChangedSums::default());
    }
    let end = if length == 0 { bytes.len() } else { bytes.len().min(40 + length) };
    let bytes = bytes.get_mut(..end).unwrap_or_default();
    let mut pseudo = ChangedSums::default();
    change_v6(bytes, 8, RewriteField::Source, edits, &mut pseudo);
    let mut destination = ChangedSums::default();
    change_v6(bytes, 24, RewriteField::Destination, edits, &mut destination);
    let mut at = 40;
    while protocol.is_extension() {
        let Some([next, units]) = field::<2>(bytes, at) else { return };
        let length = match protocol {
            Protocol::FRAGMENT => 8,
            Protocol::AH => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        let Some(extension) = bytes.get_mut(at..at + length) else { return };
        match protocol {
            Protocol::ROUTING => {
                // If segments are left, the pseudo-header contains the last address.
                let last = ipv6::final_destination(extension).ok().flatten();
                routing(extension, last, edits, &mut destination);
            }
            Protocol::FRAGMENT => {
                let offset = field(extension, 2).map_or(0, u16::from_be_bytes) >> 3;
                if offset != 0 {
                    return;
                }
            }
            _ => {}
        }
        protocol = Protocol(next);
        at += length;
    }
    pseudo.old = pseudo.old.plus(destination.old);
    pseudo.new = pseudo.new.plus(destination.new);
    transport(bytes.get_mut(at..).unwrap_or_default(), protocol, true, pseudo, edits, depth);
}

/// The addresses of a routing header of a known type (RFC 5095, RFC 6275, RFC 8754). The address at
/// `last` is the destination in the pseudo-header.
fn routing(
    bytes: &mut [u8],
    last: Option<usize>,
    edits: &impl Edits,
    destination: &mut ChangedSums,
) {
    let count = match bytes.get(2) {
        Some(0 | 2) => bytes.len().saturating_sub(8) / 16,
        // Options follow the list.
        Some(4) => bytes.get(4).map_or(0, |last| usize::from(*last) + 1),
        _ => 0,
    };
    for at in (0..count).map(|index| 8 + 16 * index) {
        let mut change = ChangedSums::default();
        change_v6(bytes, at, RewriteField::Destination, edits, &mut change);
        if last == Some(at) {
            *destination = change;
        }
    }
}

/// The payload of an IP packet. `pseudo` is the change of the pseudo-header.
fn transport(
    bytes: &mut [u8],
    protocol: Protocol,
    is_v6: bool,
    pseudo: ChangedSums,
    edits: &impl Edits,
    depth: u32,
) {
    /// RFC 4340 section 5.1.
    const DCCP_CHECKSUM: usize = 6;
    let (checksum, zero) = match protocol {
        Protocol::TCP => (16, Zero::Valid),
        Protocol::UDP => (6, Zero::Absent),
        Protocol::UDP_LITE => (6, Zero::Never),
        Protocol::DCCP => (DCCP_CHECKSUM, Zero::Valid),
        Protocol::ICMP if !is_v6 => return icmp(bytes, edits, depth),
        Protocol::ICMPV6 if is_v6 => return icmpv6(bytes, pseudo, edits, depth),
        Protocol::IPV4 | Protocol::IPV6 if edits.enters_tunnels() && depth < DEEPEST => {
            return ip(bytes, edits, depth + 1);
        }
        Protocol::GRE if edits.enters_tunnels() && depth < DEEPEST => {
            return gre(bytes, edits, depth);
        }
        _ => return,
    };
    let old_port = field(bytes, 2);
    let mut change = pseudo;
    for (at, side) in [(0, RewriteField::Source), (2, RewriteField::Destination)] {
        if let Some(place) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<2>()) {
            let new = edits.port(side, u16::from_be_bytes(*place)).to_be_bytes();
            change = change.plus(place, &new);
            *place = new;
        }
    }
    change.apply(bytes, checksum, zero);
    let port = if edits.goes_back() { field(bytes, 2) } else { old_port };
    let tunnel = match (protocol, port.map(u16::from_be_bytes)) {
        (Protocol::UDP, Some(port)) if edits.enters_tunnels() && depth < DEEPEST => port,
        _ => 0,
    };
    if let 4789 | 8472 | 6081 = tunnel {
        let inner = |bytes: &mut [u8]| {
            if tunnel == 6081 { geneve(bytes, edits, depth) } else { vxlan(bytes, edits, depth) }
        };
        enclosed(bytes, 8, checksum, zero, inner);
    }
}

/// Edits the bytes from `begin`, and updates the checksum at `checksum`, which covers them.
fn enclosed(
    bytes: &mut [u8],
    begin: usize,
    checksum: usize,
    zero: Zero,
    edit: impl FnOnce(&mut [u8]),
) {
    let Some(inner) = bytes.get_mut(begin..) else { return };
    let old = Sum::of(inner);
    edit(inner);
    let new = Sum::of(inner);
    ChangedSums { old, new }.apply(bytes, checksum, zero);
}

/// ICMP (RFC 792). Errors quote the packet that caused them.
fn icmp(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let kind = bytes.first().copied();
    let mut change = ChangedSums::default();
    if kind == Some(5) {
        // A redirect contains the address of a router.
        change_v4(bytes, 4, RewriteField::Both, edits, &mut change);
    }
    change.apply(bytes, 2, Zero::Valid);
    if matches!(kind, Some(3 | 4 | 5 | 11 | 12)) && depth < DEEPEST {
        enclosed(bytes, 8, 2, Zero::Valid, |quoted| ip(quoted, edits, depth + 1));
    }
}

/// ICMPv6 (RFC 4443, RFC 4861). Errors quote packets, and neighbour discovery messages contain
/// addresses.
fn icmpv6(bytes: &mut [u8], pseudo: ChangedSums, edits: &impl Edits, depth: u32) {
    let kind = bytes.first().copied();
    let mut change = pseudo;
    if matches!(kind, Some(135..=137)) {
        change_v6(bytes, 8, RewriteField::Both, edits, &mut change);
    }
    if kind == Some(137) {
        change_v6(bytes, 24, RewriteField::Both, edits, &mut change);
    }
    change.apply(bytes, 2, Zero::Valid);
    if matches!(kind, Some(1..=4)) && depth < DEEPEST {
        enclosed(bytes, 8, 2, Zero::Valid, |quoted| ip(quoted, edits, depth + 1));
    }
}

/// GRE (RFC 2784, RFC 2890).
fn gre(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let Some([flags, version, a, b]) = field(bytes, 0) else { return };
    let begin = 4 + 4 * ((flags >> 7) + (flags >> 5 & 1) + (flags >> 4 & 1)) as usize;
    let inner = |bytes: &mut [u8]| match EtherType(u16::from_be_bytes([a, b])) {
        EtherType::IPV4 | EtherType::IPV6 => ip(bytes, edits, depth + 1),
        EtherType::BRIDGED => ethernet(bytes, edits, depth + 1),
        _ => {}
    };
    // Source routes (RFC 1701) and PPTP are not changed.
    if flags & 0x40 != 0 || version & 7 != 0 {
        return;
    }
    if flags & 0x80 != 0 {
        enclosed(bytes, begin, 4, Zero::Valid, inner);
    } else {
        inner(bytes.get_mut(begin..).unwrap_or_default());
    }
}

/// VXLAN (RFC 7348).
fn vxlan(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    if let Some(inner) = bytes.get_mut(8..) {
        ethernet(inner, edits, depth + 1);
    }
}

/// Geneve (RFC 8926).
fn geneve(bytes: &mut [u8], edits: &impl Edits, depth: u32) {
    let Some([lengths, _, a, b]) = field(bytes, 0) else { return };
    let begin = 8 + 4 * usize::from(lengths & 0x3f);
    let inner = bytes.get_mut(begin..).unwrap_or_default();
    match EtherType(u16::from_be_bytes([a, b])) {
        EtherType::IPV4 | EtherType::IPV6 => ip(inner, edits, depth + 1),
        EtherType::BRIDGED => ethernet(inner, edits, depth + 1),
        _ => {}
    }
}

fn change_v4(
    bytes: &mut [u8],
    at: usize,
    side: RewriteField,
    edits: &impl Edits,
    change: &mut ChangedSums,
) {
    if let Some(place) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<4>()) {
        let new = edits.v4(side, u32::from_be_bytes(*place)).to_be_bytes();
        *change = change.plus(place, &new);
        *place = new;
    }
}

fn change_v6(
    bytes: &mut [u8],
    at: usize,
    side: RewriteField,
    edits: &impl Edits,
    change: &mut ChangedSums,
) {
    if let Some(place) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<16>()) {
        let new = edits.v6(side, u128::from_be_bytes(*place)).to_be_bytes();
        *change = change.plus(place, &new);
        *place = new;
    }
}

fn change_ttl(bytes: &mut [u8], at: usize, edits: &impl Edits, change: &mut ChangedSums) {
    if let Some(place) = bytes.get_mut(at) {
        let new = edits.ttl(*place);
        // In IPv4 the TTL is the upper byte of its word. IPv6 has no header checksum.
        *change = change.plus(&[*place], &[new]);
        *place = new;
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
