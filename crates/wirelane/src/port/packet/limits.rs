//! What may be sent: the lengths of frames that an interface takes, with all their checksums.

use super::device::Device;
use crate::checksum;
use crate::segment::PartialChecksum;

/// The 802.1Q tag that a frame may have beyond the MTU (`packet_extra_vlan_len_allowed`).
pub(super) const VLAN_TAG: usize = 4;
pub(super) const ETHERNET_HEADER: usize = 14;

/// Sizes of frames that the interface takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) least: usize,
    pub(super) most: usize,
    ethernet: bool,
}

impl Limits {
    pub(super) fn of(device: &Device) -> Self {
        let header = if device.is_ethernet() { ETHERNET_HEADER } else { 0 };
        let most = header + device.mtu as usize;
        Self { least: header.max(1), most, ethernet: device.is_ethernet() }
    }

    #[inline(always)]
    pub(super) fn allow(&self, packet: &[u8]) -> bool {
        let tagged = || self.ethernet && packet.get(12..14) == Some(&[0x81, 0x00]);
        (self.least..=self.most).contains(&packet.len())
            || packet.len() > self.most && packet.len() <= self.most + VLAN_TAG && tagged()
    }
}

/// Completes the checksum at `place`, whose field holds the sum of the pseudo-header: the rest is added, and 0 is
/// written as 0xFFFF, as `skb_checksum_help` does. A place outside the packet stays as it is: the packet is wrong
/// in any case.
pub(super) fn complete(packet: &mut [u8], place: PartialChecksum) {
    let start = usize::from(place.start);
    let Some(covered) = packet.get_mut(start..) else { return };
    let sum = checksum::sum(covered).checksum_nonzero();
    if let Some(field) =
        covered.get_mut(usize::from(place.offset)..).and_then(<[u8]>::first_chunk_mut)
    {
        *field = sum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_completed_where_they_are() {
        // The pseudo-header of 192.0.2.1, 192.0.2.2, UDP, 9 bytes; the field is 6 bytes on.
        let mut packet = [vec![0xaa; 3], vec![0, 7, 0, 9, 0, 9, 0, 0, b'x']].concat();
        let pseudo = wirelane_wire::checksum::pseudo_v4(
            [192, 0, 2, 1].into(),
            [192, 0, 2, 2].into(),
            wirelane_wire::Protocol::UDP,
            9,
        );
        packet[9..11].copy_from_slice(&pseudo.partial().to_be_bytes());
        complete(&mut packet, PartialChecksum { start: 3, offset: 6 });
        assert!(pseudo.plus(checksum::sum(&packet[3..])).is_valid());
        for (start, offset) in [(3, 8), (3, 60_000), (60_000, 0), (12, 0)] {
            let before = packet.clone();
            complete(&mut packet, PartialChecksum { start, offset });
            assert_eq!(packet, before, "{start} {offset}");
        }
    }

    #[test]
    fn a_frame_may_exceed_the_mtu_by_its_tag_only() {
        let limits = Limits { least: 14, most: 1514, ethernet: true };
        let mut frame = vec![0; 1519];
        for (length, allowed) in [(0, false), (13, false), (14, true), (1514, true), (1515, false)]
        {
            assert_eq!(limits.allow(&frame[..length]), allowed, "{length}");
        }
        frame[12] = 0x81;
        for (length, allowed) in [(1515, true), (1518, true), (1519, false)] {
            assert_eq!(limits.allow(&frame[..length]), allowed, "{length} tagged");
        }
    }
}
