//! Packets for tests.

use proptest::prelude::*;

/// A packet of any link type.
#[derive(Clone, Debug)]
pub(super) struct IndexSample {
    tags: Vec<u8>,
    ether_type: u16,
    network: Vec<u8>,
    /// Number of bytes after which it is cut.
    cut: usize,
}

impl IndexSample {
    pub(super) fn bytes(&self, link_type: u16) -> Vec<u8> {
        let ether_type = self.ether_type.to_be_bytes();
        let link = match link_type {
            1 => [&[0; 12][..], &self.tags, &ether_type].concat(),
            113 => [&[0; 14][..], &ether_type].concat(),
            276 => [&ether_type[..], &[0; 18]].concat(),
            _ => Vec::new(),
        };
        let mut bytes = [link, self.network.clone()].concat();
        bytes.truncate(self.cut);
        bytes
    }
}

/// Packets that often match the tests' expressions.
pub(super) fn samples() -> impl Strategy<Value = IndexSample> {
    let byte =
        |likely: &'static [u8]| prop_oneof![9 => prop::sample::select(likely), 1 => any::<u8>()];
    let short =
        |likely: &'static [u16]| prop_oneof![9 => prop::sample::select(likely), 1 => any::<u16>()];
    let tag = (short(&[0x8100, 0x88A8, 0x9100]), short(&[5, 6, 0xF005]));
    let tags = prop::collection::vec(tag, 0..4);
    let kind = short(&[0x800, 0x800, 0x86DD, 0x86DD, 0x806, 0x8035, 0x88CC]);
    let db8 = |last| [&[0x20, 1, 0xD, 0xB8][..], &[0; 11], &[last]].concat();
    let known = vec![vec![10, 0, 0, 1], vec![10, 1, 200, 3], db8(0), db8(1)];
    let address = prop_oneof![
        8 => prop::sample::select(known),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    let address = [address.clone(), address];
    let protocol = byte(&[1, 6, 17, 44, 58, 132]);
    let ports = [short(&[53, 50, 61]), short(&[53, 60])];
    let start = (byte(&[0x45, 0x45, 0x46, 0x40, 0x60]), short(&[0, 0, 0x4000, 1]), protocol);
    let cut = prop_oneof![3 => Just(200), 1 => 0..90_usize];
    (tags, kind, start, address, ports, cut).prop_map(
        |(tags, kind, (first, fragment, protocol), [source, destination], ports, cut)| {
            let tags = tags.iter().flat_map(|(kind, tag)| [kind.to_be_bytes(), tag.to_be_bytes()]);
            let mut network = vec![0; 70];
            network[0] = first;
            network[6..8].copy_from_slice(&fragment.to_be_bytes());
            let (places, len) = match kind {
                0x86DD => ([8, 24], 40),
                0x806 | 0x8035 => ([14, 24], 28),
                _ => ([12, 16], usize::from(first & 15) * 4),
            };
            for (at, address) in places.into_iter().zip([&source, &destination]) {
                network[at..at + address.len()].copy_from_slice(address);
            }
            network[if kind == 0x86DD { 6 } else { 9 }] = protocol;
            let ports = ports.map(u16::to_be_bytes).concat();
            network[len..len + 4].copy_from_slice(&ports);
            // The next header of a fragment.
            if protocol == 44 {
                network[40] = [6, 17, 58][usize::from(ports[1]) % 3];
            }
            IndexSample { tags: tags.flatten().collect(), ether_type: kind, network, cut }
        },
    )
}
