//! An [`Offload`] as plain bytes, for storing it in a frame (`kept`).
//!
//! | bytes | |
//! |---|---|
//! | 0 | the kind of segmentation, and the tunnel × 16 |
//! | 1 | flags |
//! | 2–3 | size |
//! | 4–7 | the partial checksum: start, offset |
//! | 8–11 | the tunnel over UDP: transport, network |

use super::kept::OFFLOAD_BYTES;
use super::offload::{Gso, Offload, PartialChecksum, Tunnel};

const ECN: u8 = 1 << 0;
const ACCURATE_ECN: u8 = 1 << 1;
const FIXED_ID: u8 = 1 << 2;
const CHECKSUM: u8 = 1 << 3;

impl Offload {
    /// The inverse of [`Offload::from_bytes`].
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; OFFLOAD_BYTES] {
        let gso = match self.gso {
            Gso::None => 0,
            Gso::Tcp4 => 1,
            Gso::Tcp6 => 2,
            Gso::Udp => 3,
            Gso::UdpFragment => 4,
        };
        let (tunnel, transport, network) = match self.tunnel {
            None => (0, 0, 0),
            Some(Tunnel::Vxlan) => (1, 0, 0),
            Some(Tunnel::Geneve) => (2, 0, 0),
            Some(Tunnel::Gre) => (3, 0, 0),
            Some(Tunnel::Udp { transport, network }) => (4, transport, network),
        };
        let flag = |flag, set| if set { flag } else { 0 };
        let flags = flag(ECN, self.ecn)
            | flag(ACCURATE_ECN, self.accurate_ecn)
            | flag(FIXED_ID, self.fixed_id)
            | flag(CHECKSUM, self.checksum.is_some());
        let place = self.checksum.unwrap_or(PartialChecksum { start: 0, offset: 0 });
        let [a, b] = self.size.to_ne_bytes();
        let [c, d] = place.start.to_ne_bytes();
        let [e, f] = place.offset.to_ne_bytes();
        let [g, h] = transport.to_ne_bytes();
        let [i, j] = network.to_ne_bytes();
        [gso | tunnel << 4, flags, a, b, c, d, e, f, g, h, i, j]
    }

    /// The inverse of [`Offload::to_bytes`].
    #[inline]
    pub(super) fn from_bytes(bytes: [u8; OFFLOAD_BYTES]) -> Self {
        let [kinds, flags, a, b, c, d, e, f, g, h, i, j] = bytes;
        let (transport, network) = (u16::from_ne_bytes([g, h]), u16::from_ne_bytes([i, j]));
        let place = PartialChecksum {
            start: u16::from_ne_bytes([c, d]),
            offset: u16::from_ne_bytes([e, f]),
        };
        Self {
            gso: match kinds & 15 {
                1 => Gso::Tcp4,
                2 => Gso::Tcp6,
                3 => Gso::Udp,
                4 => Gso::UdpFragment,
                _ => Gso::None,
            },
            size: u16::from_ne_bytes([a, b]),
            checksum: (flags & CHECKSUM != 0).then_some(place),
            ecn: flags & ECN != 0,
            accurate_ecn: flags & ACCURATE_ECN != 0,
            fixed_id: flags & FIXED_ID != 0,
            tunnel: match kinds >> 4 {
                1 => Some(Tunnel::Vxlan),
                2 => Some(Tunnel::Geneve),
                3 => Some(Tunnel::Gre),
                4 => Some(Tunnel::Udp { transport, network }),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind, tunnel and set of flags, with numbers that differ at each offset.
    fn all() -> Vec<Offload> {
        let place = PartialChecksum { start: 0x1234, offset: 0x5678 };
        let udp = Tunnel::Udp { transport: 0x9abc, network: 0xdef0 };
        let tunnels =
            [None, Some(Tunnel::Vxlan), Some(Tunnel::Geneve), Some(Tunnel::Gre), Some(udp)];
        let kinds = [Gso::None, Gso::Tcp4, Gso::Tcp6, Gso::Udp, Gso::UdpFragment];
        let mut all = Vec::new();
        for flags in 0..16 {
            let is = |bit: u8| flags & bit != 0;
            for gso in kinds {
                all.extend(tunnels.map(|tunnel| Offload {
                    gso,
                    size: 0x0203,
                    checksum: is(CHECKSUM).then_some(place),
                    ecn: is(ECN),
                    accurate_ecn: is(ACCURATE_ECN),
                    fixed_id: is(FIXED_ID),
                    tunnel,
                }));
            }
        }
        all
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for offload in all() {
            assert_eq!(Offload::from_bytes(offload.to_bytes()), offload);
        }
    }
}
