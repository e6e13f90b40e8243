//! From the start of a captured packet to its network header.

use std::hash::{DefaultHasher, Hash, Hasher};

use wirelane_wire::{EtherType, EthernetView, VlanView, ethernet, vlan};

/// Where the network header of a packet is.
pub(crate) enum Link {
    /// At `at`; `tags` stands for the VLAN that it is in.
    Network { ethertype: EtherType, at: usize, tags: u64 },
    /// A link type that is unknown here.
    Unknown,
    /// It ends within its link header, or says nothing of what follows.
    Short,
}

/// Tags before a network header, as in the kernel (`VLAN_MAX_DEPTH`).
const MAX_TAGS: usize = 8;

/// Steps over the link header of a packet of a LINKTYPE_ value.
pub(crate) fn parse(link_type: u16, data: &[u8]) -> Link {
    const NULL: u16 = 0;
    const ETHERNET: u16 = 1;
    const RAW: u16 = 101;
    const LOOP: u16 = 108;
    const LINUX_SLL: u16 = 113;
    const IPV4: u16 = 228;
    const IPV6: u16 = 229;
    const LINUX_SLL2: u16 = 276;
    match link_type {
        ETHERNET => ethernet(data),
        // 12 and 14 are what raw IP is called in some old files.
        RAW | 12 | 14 | IPV4 | IPV6 => raw(data, 0),
        NULL | LOOP => raw(data, 4),
        LINUX_SLL => match data.get(14..16) {
            Some(&[high, low]) => tagged(data, EtherType(u16::from_be_bytes([high, low])), 16),
            _ => Link::Short,
        },
        LINUX_SLL2 => match data.get(..2) {
            Some(&[high, low]) if data.len() >= 20 => {
                tagged(data, EtherType(u16::from_be_bytes([high, low])), 20)
            }
            _ => Link::Short,
        },
        _ => Link::Unknown,
    }
}

/// Steps over an Ethernet header and its tags.
pub(crate) fn ethernet(data: &[u8]) -> Link {
    match EthernetView::new(data) {
        Ok(view) => tagged(data, view.ethertype(), ethernet::LEN),
        Err(_) => Link::Short,
    }
}

fn tagged(data: &[u8], mut ethertype: EtherType, mut at: usize) -> Link {
    let mut hasher = DefaultHasher::new();
    for _ in 0..MAX_TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let Ok(tag) = VlanView::new(data.get(at..).unwrap_or_default()) else { return Link::Short };
        tag.id().hash(&mut hasher);
        (ethertype, at) = (tag.ethertype(), at + vlan::LEN);
    }
    Link::Network { ethertype, at, tags: hasher.finish() }
}

/// IP without an Ethernet header: its first byte says the version.
fn raw(data: &[u8], at: usize) -> Link {
    let ethertype = match data.get(at).map(|first| first >> 4) {
        Some(4) => EtherType::IPV4,
        Some(6) => EtherType::IPV6,
        _ => return Link::Short,
    };
    Link::Network { ethertype, at, tags: 0 }
}
