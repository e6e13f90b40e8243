//! Which of three bands a frame waits in, as `pfifo_fast` of Linux has them
//! (`net/sched/sch_generic.c`, `prio2band`): a band is served only while those before it are empty.
//!
//! Linux takes the band from `skb->priority`, which is 0 for frames from the wire. Here it is
//! derived from the frame:
//!
//! | band | frames |
//! |---|---|
//! | 0 | network control: ARP, 802.3 (spanning tree, IS-IS), LLDP, LACP, EAPOL; IGMP, OSPF, PIM, VRRP, neighbour discovery; DSCP CS6, CS7, EF, VOICE-ADMIT (RFC 4594, RFC 5865), low delay (RFC 1349); tag priority 6 and 7 |
//! | 1 | all others |
//! | 2 | bulk: DSCP CS1, LE (RFC 8622), high throughput (RFC 1349); tag priority 1 (802.1Q: background) |

use wirelane_wire::flow::Network;
use wirelane_wire::{EtherType, Layers, Protocol};

/// The number of bands.
pub(super) const BANDS: usize = 3;

const CONTROL: usize = 0;
const ORDINARY: usize = 1;
const BULK: usize = 2;

/// The band of an Ethernet frame.
pub(super) fn band(frame: &[u8]) -> usize {
    let Ok(layers) = Layers::parse(frame) else { return ORDINARY };
    let by_tag = layers.outer_vlan.map_or(ORDINARY, |tag| match tag.priority {
        6 | 7 => CONTROL,
        1 => BULK,
        _ => ORDINARY,
    });
    let (dscp, protocol) = match (&layers.network, layers.transport) {
        (Network::V4(view), Some(transport)) => (view.dscp(), (transport.protocol, None)),
        (Network::V6(view), Some(transport)) => {
            let kind = transport.bytes.first().filter(|_| !transport.is_fragment);
            (view.dscp(), (transport.protocol, kind.copied()))
        }
        _ if is_control(layers.ethertype) => return CONTROL,
        _ => return by_tag,
    };
    match (dscp, protocol) {
        // IGMP, OSPF, PIM, VRRP.
        (_, (Protocol(2 | 89 | 103 | 112), _)) => CONTROL,
        // Multicast listener and neighbour discovery.
        (_, (Protocol::ICMPV6, Some(130..=137 | 143))) => CONTROL,
        (4 | 44 | 46 | 48 | 56, _) => CONTROL,
        (1 | 2 | 8, _) => BULK,
        _ => by_tag,
    }
}

/// Protocols that keep a network working: ARP, LACP and similar ones, EAPOL, LLDP, and frames with
/// a length field.
fn is_control(ethertype: EtherType) -> bool {
    ethertype.is_length()
        || matches!(ethertype, EtherType::ARP | EtherType(0x8809 | 0x888e | 0x88cc))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame of this type.
    fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn ipv4(dscp: u8, protocol: u8) -> Vec<u8> {
        let mut header = [0; 28];
        header[0] = 0x45;
        header[1] = dscp << 2;
        header[3] = 28;
        header[9] = protocol;
        header.to_vec()
    }

    fn ipv6(dscp: u8, protocol: u8, kind: u8) -> Vec<u8> {
        let mut header = [0; 48];
        header[0] = 0x60 | dscp >> 2;
        header[1] = dscp << 6;
        header[5] = 8;
        header[6] = protocol;
        header[40] = kind;
        header.to_vec()
    }

    #[test]
    fn control_before_ordinary_before_bulk() {
        for (expected, bytes) in [
            (CONTROL, frame(0x0806, &[0; 28])),
            (CONTROL, frame(38, &[0x42; 38])),
            (CONTROL, frame(0x88cc, &[0; 20])),
            (CONTROL, frame(0x0800, &ipv4(48, 6))),
            (CONTROL, frame(0x0800, &ipv4(0, 89))),
            (CONTROL, frame(0x0800, &ipv4(4, 6))),
            (CONTROL, frame(0x86dd, &ipv6(0, 58, 135))),
            (CONTROL, frame(0x86dd, &ipv6(46, 17, 0))),
            (ORDINARY, frame(0x86dd, &ipv6(0, 58, 128))),
            (ORDINARY, frame(0x0800, &ipv4(0, 6))),
            (ORDINARY, frame(0x0800, &ipv4(34, 17))),
            (ORDINARY, frame(0x8847, &[0; 40])),
            (BULK, frame(0x0800, &ipv4(8, 6))),
            (BULK, frame(0x86dd, &ipv6(1, 6, 0))),
        ] {
            assert_eq!(band(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_tag_counts_where_the_packet_says_nothing() {
        let tagged = |priority: u8, inner: u16, payload: &[u8]| {
            let mut tag = vec![priority << 5, 7];
            tag.extend(inner.to_be_bytes());
            tag.extend(payload);
            band(&frame(0x8100, &tag))
        };
        assert_eq!(tagged(7, 0x0800, &ipv4(0, 6)), CONTROL);
        assert_eq!(tagged(1, 0x0800, &ipv4(0, 6)), BULK);
        assert_eq!(tagged(1, 0x0800, &ipv4(46, 17)), CONTROL);
        assert_eq!(tagged(1, 0x8847, &[0; 40]), BULK);
        assert_eq!(tagged(0, 0x0806, &[0; 28]), CONTROL);
    }

    #[test]
    fn what_cannot_be_read_is_ordinary() {
        assert_eq!(band(&[]), ORDINARY);
        assert_eq!(band(&frame(0x0800, &[0x45])), ORDINARY);
    }
}
