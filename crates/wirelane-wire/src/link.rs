//! From the start of a captured packet to its network header, by the link type of its capture.

use crate::{EtherType, EthernetView, VlanView, ethernet, field::split, vlan};

/// Tags before a network header, as in the kernel (`VLAN_MAX_DEPTH` in `include/linux/if_vlan.h`).
pub(crate) const MAX_TAGS: usize = 8;

/// What stands before the network header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A link header that was stepped over.
    Network {
        /// What follows link header and tags.
        ethertype: EtherType,
        /// Where that begins.
        at: usize,
        /// The identifier of the outermost tag.
        outer_vlan: Option<u16>,
        /// The identifier of the innermost tag, when there are several.
        inner_vlan: Option<u16>,
    },
    /// A link type that is unknown here.
    Unknown,
    /// The packet ends within its link header, or that says nothing of what follows.
    Short,
}

impl Link {
    /// Steps over the link header of a packet of a LINKTYPE_ value: Ethernet, raw IP, BSD loopback,
    /// and both of Linux's cooked captures.
    #[inline]
    pub fn parse(link_type: u16, data: &[u8]) -> Self {
        const NULL: u16 = 0;
        const ETHERNET: u16 = 1;
        const RAW: u16 = 101;
        const LOOP: u16 = 108;
        const LINUX_SLL: u16 = 113;
        const IPV4: u16 = 228;
        const IPV6: u16 = 229;
        const LINUX_SLL2: u16 = 276;
        match link_type {
            ETHERNET => Self::ethernet(data),
            // 12 and 14 are what raw IP is called in some old files.
            RAW | 12 | 14 | IPV4 | IPV6 => raw(data, 0),
            NULL | LOOP => raw(data, 4),
            LINUX_SLL => match data.get(14..16) {
                Some(&[high, low]) => tagged(data, EtherType(u16::from_be_bytes([high, low])), 16),
                _ => Self::Short,
            },
            LINUX_SLL2 => match split::<20>(data) {
                Ok((&[high, low, ..], _)) => {
                    tagged(data, EtherType(u16::from_be_bytes([high, low])), 20)
                }
                Err(_) => Self::Short,
            },
            _ => Self::Unknown,
        }
    }

    /// Steps over an Ethernet header and its tags.
    #[inline]
    pub fn ethernet(data: &[u8]) -> Self {
        match EthernetView::new(data) {
            Ok(view) => tagged(data, view.ethertype(), ethernet::LEN),
            Err(_) => Self::Short,
        }
    }
}

#[inline]
fn tagged(data: &[u8], mut ethertype: EtherType, mut at: usize) -> Link {
    let (mut outer_vlan, mut inner_vlan) = (None, None);
    for _ in 0..MAX_TAGS {
        if !ethertype.is_vlan() {
            break;
        }
        let Ok(tag) = VlanView::new(data.get(at..).unwrap_or_default()) else { return Link::Short };
        let slot = if outer_vlan.is_none() { &mut outer_vlan } else { &mut inner_vlan };
        *slot = Some(tag.id());
        (ethertype, at) = (tag.ethertype(), at + vlan::LEN);
    }
    Link::Network { ethertype, at, outer_vlan, inner_vlan }
}

/// IP without an Ethernet header: its first byte says the version.
#[inline]
fn raw(data: &[u8], at: usize) -> Link {
    let ethertype = match data.get(at).map(|first| first >> 4) {
        Some(4) => EtherType::IPV4,
        Some(6) => EtherType::IPV6,
        _ => return Link::Short,
    };
    Link::Network { ethertype, at, outer_vlan: None, inner_vlan: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

    fn after(header: &[u8]) -> std::vec::Vec<u8> {
        [header, &IPV4].concat()
    }

    fn network(at: usize, outer_vlan: Option<u16>, inner_vlan: Option<u16>) -> Link {
        Link::Network { ethertype: EtherType::IPV4, at, outer_vlan, inner_vlan }
    }

    #[test]
    fn every_link_type_is_stepped_over() {
        let ethernet = [&[0; 12][..], &[8, 0]].concat();
        let sll2 = [&[8, 0][..], &[0; 18]].concat();
        let sll = [&[0; 14][..], &[8, 0]].concat();
        for (link_type, header) in [
            (1, &ethernet[..]),
            (276, &sll2),
            (113, &sll),
            (0, &[2, 0, 0, 0]),
            (108, &[0, 0, 0, 2]),
            (101, &[]),
            (12, &[]),
            (14, &[]),
            (228, &[]),
            (229, &[]),
        ] {
            let packet = after(header);
            assert_eq!(Link::parse(link_type, &packet), network(header.len(), None, None));
            for len in 0..header.len() {
                assert_eq!(Link::parse(link_type, &packet[..len]), Link::Short, "{link_type}");
            }
        }
        assert_eq!(Link::parse(105, &after(&[])), Link::Unknown);
    }

    #[test]
    fn outermost_and_innermost_tag() {
        let tags = |ids: &[u8]| {
            let mut header = std::vec![0; 12];
            for id in ids {
                header.extend([0x81, 0, 0, *id]);
            }
            header.extend([8, 0]);
            after(&header)
        };
        assert_eq!(Link::ethernet(&tags(&[7])), network(18, Some(7), None));
        assert_eq!(Link::ethernet(&tags(&[7, 8])), network(22, Some(7), Some(8)));
        assert_eq!(Link::ethernet(&tags(&[7, 9, 8])), network(26, Some(7), Some(8)));
    }
}
