//! Finds the network header of a captured packet, by the link type of its capture.

mod inside;
mod ppi;
mod ppp;
mod wlan;

use self::inside::Inside;
use crate::ethernet::{EtherType, EthernetView};
use crate::field::split;
use crate::vlan::VlanView;
use crate::{ethernet, vlan};

/// The most tags before a network header, as in the kernel (`VLAN_MAX_DEPTH` in
/// `include/linux/if_vlan.h`).
pub(crate) const MAX_TAGS: usize = 8;

/// The result of parsing the headers before the network header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The packet has a network header behind its link header.
    Network {
        /// The EtherType after link header and tags.
        ethertype: EtherType,
        /// Where the network header begins.
        at: usize,
        /// The identifier of the outermost tag.
        outer_vlan: Option<u16>,
        /// The identifier of the innermost tag, if there are several.
        inner_vlan: Option<u16>,
    },
    /// A frame of the link layer, such as an 802.11 beacon or a PPP negotiation, or a later
    /// fragment.
    Control,
    /// The payload is encrypted.
    Encrypted,
    /// A link type that is unknown here.
    Unknown,
    /// The packet ends within its link header, or that header does not state the type of its
    /// payload.
    Short,
}

impl Link {
    /// Steps over the link header of a packet of a LINKTYPE_ value: Ethernet, raw IP, BSD loopback,
    /// both of Linux's cooked captures, PPP and related protocols, IEEE 802.11 and its capture
    /// headers, and PPI. If an 802.11 frame contains several packets, finds the first one.
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
            // 12 and 14 are raw IP in some old files.
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
            _ => Self::other(link_type, data),
        }
    }

    /// Rare link types.
    #[inline(never)]
    fn other(link_type: u16, data: &[u8]) -> Self {
        const PPP: u16 = 9;
        const PPP_HDLC: u16 = 50;
        const PPP_ETHER: u16 = 51;
        const C_HDLC: u16 = 104;
        const IEEE802_11: u16 = 105;
        const IEEE802_11_PRISM: u16 = 119;
        const IEEE802_11_RADIOTAP: u16 = 127;
        const IEEE802_11_AVS: u16 = 163;
        const PPP_PPPD: u16 = 166;
        const PPP_WITH_DIR: u16 = 204;
        let inside = match link_type {
            PPP => ppp::plain(data, 0),
            PPP_HDLC => ppp::hdlc(data),
            PPP_ETHER => ppp::over_ethernet(data),
            C_HDLC => ppp::cisco(data),
            // The first byte is the direction.
            PPP_PPPD | PPP_WITH_DIR => ppp::plain(data, 1),
            IEEE802_11 => wlan::frame(data, 0, false),
            IEEE802_11_PRISM => wlan::prism(data),
            IEEE802_11_RADIOTAP => wlan::radiotap(data),
            IEEE802_11_AVS => wlan::avs(data),
            ppi::LINK_TYPE => return Self::behind_ppi(data),
            _ => return Self::Unknown,
        };
        match inside {
            Inside::Network(ethertype, at) => tagged(data, ethertype, at),
            Inside::Control => Self::Control,
            Inside::Encrypted => Self::Encrypted,
            Inside::Short => Self::Short,
        }
    }

    /// Steps over a PPI header and the header of the inner link type.
    fn behind_ppi(data: &[u8]) -> Self {
        let Some((link_type, len)) = ppi::inside(data) else { return Self::Short };
        let Some(frame) = data.get(len..) else { return Self::Short };
        let link = match link_type.try_into() {
            // A PPI header in another one is useless, and could be nested deeply.
            Ok(ppi::LINK_TYPE) | Err(_) => return Self::Unknown,
            Ok(link_type) => Self::parse(link_type, frame),
        };
        match link {
            Self::Network { ethertype, at, outer_vlan, inner_vlan } => {
                Self::Network { ethertype, at: at + len, outer_vlan, inner_vlan }
            }
            other => other,
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

/// IP without an Ethernet header: its first byte contains the version.
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
        let avs = [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56], &wlan(8, 1, &[])].concat();
        // Two words of flags, a time, and flags that announce an aligned payload.
        let fields = [0, 0, 32, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0];
        let radio = [&fields[..], &[0; 8], &[0x20], &[0; 7]].concat();
        let padded = [&radio[..], &wlan(0x88, 1, &[0; 4])].concat();
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
            (9, &[0xff, 3, 0, 0x21]),
            (50, &[0xff, 3, 0, 0x21]),
            (50, &[0x0f, 0, 8, 0]),
            (51, &[0x11, 0, 0, 1, 0, 22, 0, 0x21]),
            (104, &[0x0f, 0, 8, 0]),
            (166, &[1, 0xff, 3, 0, 0x21]),
            (204, &[0, 0xff, 3, 0, 0x21]),
            (105, &wlan(8, 1, &[])),
            (105, &wlan(8, 3, &[0; 6])),
            (105, &wlan(0x88, 1, &[0; 2])),
            (105, &wlan(0x88, 0x83, &[0; 12])),
            (105, &[&wlan(0x88, 1, &[0x80, 0])[..26], &[0; 14], &wlan(8, 1, &[])[24..]].concat()),
            (119, &[&[0x44, 0, 0, 0, 144][..], &[0; 139], &wlan(8, 1, &[])].concat()),
            (119, &avs),
            (163, &avs),
            (127, &[&[0, 0, 8, 0, 0, 0, 0, 0][..], &wlan(8, 1, &[])].concat()),
            (127, &padded),
            (192, &ppi(105, &[], &wlan(8, 1, &[]))),
            (192, &ppi(105, &[2, 0, 20, 0], &[&[0; 20][..], &wlan(0x88, 1, &[0; 2])].concat())),
            (192, &ppi(1, &[], &ethernet)),
            (192, &ppi(9, &[], &[0xff, 3, 0, 0x21])),
        ] {
            let packet = after(header);
            assert_eq!(Link::parse(link_type, &packet), network(header.len(), None, None));
            for len in 0..header.len() {
                assert_eq!(Link::parse(link_type, &packet[..len]), Link::Short, "{link_type}");
            }
        }
        assert_eq!(Link::parse(147, &after(&[])), Link::Unknown);
    }

    /// An 802.11 data frame: its first two bytes, the bytes after its 24 bytes, and SNAP for IPv4.
    fn wlan(control: u8, flags: u8, more: &[u8]) -> std::vec::Vec<u8> {
        let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
        [&[control, flags][..], &[0; 22], more, &snap].concat()
    }

    /// A PPI header for this link type; `field` is the start of its only field, of 20 bytes.
    fn ppi(link_type: u8, field: &[u8], rest: &[u8]) -> std::vec::Vec<u8> {
        let len = if field.is_empty() { 8 } else { 32 };
        [&[0, 0, len, 0, link_type, 0, 0, 0][..], field, rest].concat()
    }

    #[test]
    fn headers_of_ppi_may_say_anything() {
        let tagged = [&[0; 12][..], &[0x81, 0, 0, 7, 8, 0]].concat();
        assert_eq!(Link::parse(192, &after(&ppi(1, &[], &tagged))), network(26, Some(7), None));
        let encrypted = ppi(105, &[], &wlan(8, 0x41, &[]));
        assert_eq!(Link::parse(192, &after(&encrypted)), Link::Encrypted);
        assert_eq!(Link::parse(192, &after(&ppi(105, &[], &wlan(0x80, 0, &[])))), Link::Control);
        // Nested PPI, 802.15.4, and a link type that exceeds 16 bits.
        assert_eq!(Link::parse(192, &ppi(192, &[], &[]).repeat(9)), Link::Unknown);
        assert_eq!(Link::parse(192, &after(&ppi(195, &[], &[]))), Link::Unknown);
        assert_eq!(Link::parse(192, &after(&[0, 0, 8, 0, 105, 0, 1, 0])), Link::Unknown);
        // Shorter than its header.
        assert_eq!(Link::parse(192, &after(&[0, 0, 7, 0, 101, 0, 0, 0])), Link::Short);
    }

    #[test]
    fn frames_without_a_packet_are_told_apart() {
        let mut fragment = wlan(8, 1, &[]);
        fragment[22] = 1;
        for (link_type, data, expected) in [
            // A beacon, an acknowledgment, a frame without data, a later fragment, spanning tree.
            (105, wlan(0x80, 0, &[]), Link::Control),
            (105, wlan(0xd4, 0, &[]), Link::Control),
            (105, wlan(0x48, 1, &[]), Link::Control),
            (105, fragment, Link::Control),
            (
                105,
                [&wlan(8, 1, &[])[..24], &[0x42, 0x42, 3, 0, 0, 0, 0, 0]].concat(),
                Link::Control,
            ),
            (105, wlan(8, 0x41, &[]), Link::Encrypted),
            (105, wlan(0x88, 0x42, &[0; 2]), Link::Encrypted),
            // LCP, compressed TCP headers, encryption, PPPoE discovery.
            (9, [0xff, 3, 0xc0, 0x21].to_vec(), Link::Control),
            (9, [0x2d].to_vec(), Link::Control),
            (9, [0, 0x53].to_vec(), Link::Encrypted),
            (51, [0x11, 9, 0, 0, 0, 0].to_vec(), Link::Control),
        ] {
            assert_eq!(Link::parse(link_type, &after(&data)), expected, "{link_type} {data:x?}");
        }
        // Protocols may be compressed, and address and control omitted.
        for header in [&[0x21][..], &[0, 0x21], &[0xff, 3, 0x21]] {
            assert_eq!(Link::parse(9, &after(header)), network(header.len(), None, None));
        }
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
