//! Lengths of frames that an interface accepts.

use wirelane_wire::EtherType;

use crate::checksum;
use crate::frame::PartialChecksum;
use crate::port::device::Device;

/// Bytes of one and two tags (802.1Q, 802.1ad) that a frame may have beyond the MTU.
pub(in crate::port) const VLAN_TAG: usize = 4;
pub(in crate::port) const ETHERNET_HEADER: usize = 14;

/// Lengths of frames that the interface accepts, in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::port) struct FrameLimits {
    pub(in crate::port) least: usize,
    pub(in crate::port) most: usize,
    /// The maximum at opening: memory exists for no longer frames.
    room: usize,
    ethernet: bool,
}

impl FrameLimits {
    pub(in crate::port) fn of(device: &Device) -> Self {
        let header = if device.is_ethernet() { ETHERNET_HEADER } else { 0 };
        let most = header + device.mtu as usize;
        Self { least: header.max(1), most, room: most, ethernet: device.is_ethernet() }
    }

    /// Follows the MTU, up to `room`.
    #[inline]
    pub(in crate::port) fn follow(&mut self, mtu: u32) {
        let header = if self.ethernet { ETHERNET_HEADER } else { 0 };
        self.most = self.room.min(header + mtu as usize);
    }

    #[inline(always)]
    pub(in crate::port) fn allow(&self, packet: &[u8]) -> bool {
        (self.least..=self.most).contains(&packet.len())
            || packet.len() > self.most && packet.len() <= self.most + self.tags(packet)
    }

    #[cold]
    fn tags(&self, packet: &[u8]) -> usize {
        if self.ethernet { tags(packet) } else { 0 }
    }
}

/// Bytes of the packet's VLAN tags, of which it may have up to two beyond the MTU.
pub(in crate::port) fn tags(packet: &[u8]) -> usize {
    let is_tag = |at: &usize| {
        let kind = packet.get(*at..).and_then(|rest| rest.first_chunk());
        kind.is_some_and(|kind| EtherType(u16::from_be_bytes(*kind)).is_vlan())
    };
    let places = [ETHERNET_HEADER - 2, ETHERNET_HEADER - 2 + VLAN_TAG];
    places.iter().take_while(|at| is_tag(at)).count() * VLAN_TAG
}

/// Completes the checksum at `place`, whose field contains the sum of the pseudo-header: adds the
/// covered bytes, and writes 0 as 0xFFFF, as `skb_checksum_help` does. Leaves a packet with a
/// `place` outside of it unchanged, because it is wrong in any case.
pub(in crate::port) fn complete(packet: &mut [u8], place: PartialChecksum) {
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
    fn a_frame_may_exceed_the_mtu_by_its_tags_only() {
        let limits = FrameLimits { least: 14, most: 1514, room: 1514, ethernet: true };
        let check = |limits: &FrameLimits, types: &[u16], most: usize| {
            let mut frame = vec![0; 1530];
            for (position, kind) in types.iter().enumerate() {
                frame[12 + 4 * position..][..2].copy_from_slice(&kind.to_be_bytes());
            }
            for length in 0..=1530 {
                let allowed = (14..=most).contains(&length);
                assert_eq!(limits.allow(&frame[..length]), allowed, "{types:x?}: {length}");
            }
        };
        check(&limits, &[0x0800, 0x8100], 1514);
        check(&limits, &[0x8100, 0x0800], 1518);
        check(&limits, &[0x88a8, 0x8100, 0x0800], 1522);
        check(&limits, &[0x88a8, 0x8100, 0x8100], 1522);
        check(&FrameLimits { ethernet: false, ..limits }, &[0x8100, 0x8100], 1514);
        let mut smaller = limits;
        smaller.follow(500);
        check(&smaller, &[0x88a8, 0x8100, 0x0800], 522);
        smaller.follow(9000);
        check(&smaller, &[0x8100, 0x0800], 1518);
    }
}
