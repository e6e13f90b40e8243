//! Packets of the captures that tcpdump's own tests read: real protocols, and damaged packets.

use wirelane::pcap::{CaptureReader, LINK_TYPE_ETHERNET};
use wirelane_testkit::tools;

use crate::traffic::{MICROSECOND, Packet};

/// Packets of each capture. More packets find no other fault and take time in every cell.
const EACH: usize = 3;

/// In 2100. Classic pcap counts seconds up to 2106.
const END: u64 = 4_102_444_800_000_000_000;

pub(crate) fn ethernet() -> Vec<Packet> {
    of_captures(|link_type| link_type == LINK_TYPE_ETHERNET)
}

/// PPP, Linux cooked, Frame Relay, 802.11 and 30 more.
pub(crate) fn others() -> Vec<Packet> {
    of_captures(|link_type| link_type != LINK_TYPE_ETHERNET)
}

/// The packets in order of time, each at a different microsecond.
fn of_captures(is_wanted: impl Fn(u16) -> bool) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (number, path) in tools::tcpdump_captures().iter().enumerate() {
        // Some are damaged.
        let Ok(mut reader) = CaptureReader::open(path) else { continue };
        for _ in 0..EACH {
            if !matches!(reader.advance(), Ok(true)) {
                break;
            }
            let record = reader.current();
            packets.push(Packet {
                time: record.timestamp / MICROSECOND * MICROSECOND,
                queue: number as u32 % 4,
                link_type: reader.interfaces()[record.interface as usize].link_type,
                original_len: record.original_len,
                data: record.data.to_vec(),
            });
        }
    }
    packets.retain(|packet| is_wanted(packet.link_type) && packet.time < END);
    packets.sort_by_key(|packet| packet.time);
    let mut least = 0;
    for packet in &mut packets {
        packet.time = packet.time.max(least);
        least = packet.time + MICROSECOND;
    }
    packets
}
