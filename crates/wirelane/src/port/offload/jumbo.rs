//! The option with the length of an IPv6 packet that is too long for its length field (RFC 2675).
//! Linux puts it into segments of BIG TCP and removes it before segmentation
//! (`ipv6_hopopt_jumbo_remove`). This module removes it too.

use wirelane_wire::{EtherType, Link, Protocol, ipv6};

use crate::frame::Frame;

/// Bytes of a hop-by-hop header with only this option.
const LEN: usize = 8;
const OPTION: [u8; 2] = [0xc2, 4];
/// Bytes of the longest packet without the option.
const LONGEST: usize = 65_535 + ipv6::LEN;
/// Offset of the next header field in the IPv6 header.
const NEXT_HEADER: usize = 6;

/// Removes the option from a frame whose packet has it before the TCP header.
#[inline]
pub(super) fn take_off(frame: &mut Frame) {
    if frame.len() > LONGEST {
        take_off_long(frame);
    }
}

#[cold]
fn take_off_long(frame: &mut Frame) {
    let Some(network) = find(frame.data()) else { return };
    let data = frame.data_mut();
    data.copy_within(..network + ipv6::LEN, LEN);
    if let Some(next) = data.get_mut(LEN + network + NEXT_HEADER) {
        *next = Protocol::TCP.0;
    }
    let is_off = frame.strip(LEN);
    debug_assert!(is_off);
}

/// The offset of the network header of a packet with the option.
fn find(frame: &[u8]) -> Option<usize> {
    let Link::Network { ethertype, at, .. } = Link::ethernet(frame) else { return None };
    let packet = frame.get(at..)?;
    let (header, rest) = packet.split_first_chunk::<{ ipv6::LEN }>()?;
    let option = rest.first_chunk::<LEN>()?;
    let length = u32::try_from(rest.len()).ok()?.to_be_bytes();
    let is_long =
        ethertype == EtherType::IPV6 && header[4..=NEXT_HEADER] == [0, 0, Protocol::HOP_BY_HOP.0];
    let has_option = option[..2] == [Protocol::TCP.0, 0] && option[2..4] == OPTION;
    (is_long && has_option && option[4..] == length).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Batch;
    use crate::pool::{Pool, PoolConfig, Region};

    /// A packet with `tags` and a payload of TCP of this length; with the option, or without.
    fn packet(tags: usize, payload: usize, length: Option<u32>) -> Vec<u8> {
        let mut packet = vec![2; 12];
        (0..tags).for_each(|_| packet.extend([0x81, 0, 0, 7]));
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0]);
        packet.extend([if length.is_some() { 0 } else { 6 }, 64]);
        packet.extend([0xfd; 32]);
        if let Some(length) = length {
            packet.extend([6, 0, 0xc2, 4]);
            packet.extend(length.to_be_bytes());
        }
        packet.extend((0..payload).map(|i| i as u8));
        packet
    }

    #[test]
    fn the_option_is_taken_off_a_long_packet_and_nothing_else() {
        let chunk_size = 128 << 10;
        let config = PoolConfig { chunks: 1, chunk_size, headroom: 128, numa_node: None };
        let region = Region::new(Region::bytes_for(1, chunk_size), None).unwrap();
        let mut pool = Pool::in_region(&region, config).unwrap();
        for (tags, payload, length, is_off) in [
            (0, 70_000, Some(70_008), true),
            (2, 70_000, Some(70_008), true),
            (0, 70_000, Some(70_009), false),
            (0, 1000, Some(1008), false),
            (0, 70_000, None, false),
        ] {
            let mut batch = Batch::new(1);
            pool.take(&mut batch, 1);
            let mut frame = batch.pop().unwrap();
            let before = packet(tags, payload, length);
            assert!(frame.fill(&before));
            take_off(&mut frame);
            let expected = if is_off { packet(tags, payload, None) } else { before };
            assert!(frame.data() == expected, "{tags} {payload} {length:?}");
        }
    }
}
