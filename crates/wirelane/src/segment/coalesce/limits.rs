//! When what is held is handed on.

use crate::frame::MAX_PACKET;

/// Datagrams in one frame at most. As many as the kernel's GRO merges (`UDP_GRO_CNT_MAX` in
/// `net/ipv4/udp_offload.c`), which whoever receives with `UDP_GRO` has room for, and no more than
/// it cuts: a frame of more than `UDP_MAX_SEGMENTS` (`include/linux/udp.h`: 64, and 128 from Linux
/// 6.9 on) is refused (`virtio_net_hdr_to_skb()`).
pub const MAX_DATAGRAMS: u32 = 64;

/// When what is held is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the longest frame, from its IP header on; 65535 at most.
    pub size: usize,
    /// Bytes of the longest packet to merge, from its IP header on: what the sink sends in one
    /// piece. A longer one could not be restored, and the segmenter decides about it.
    pub packet: usize,
    /// Packets in one frame; of UDP [`MAX_DATAGRAMS`] at most.
    pub segments: u32,
    /// How long the first packet may wait, in units of the time that is passed in.
    pub age: u64,
    /// Flows held at a time. Each takes 64 KiB.
    pub flows: usize,
    /// Merge TCP.
    pub tcp: bool,
    /// Merge UDP.
    pub udp: bool,
}

impl Default for Limits {
    /// Everything IP allows, for 8 flows, 20 µs when time is in nanoseconds.
    fn default() -> Self {
        Self {
            size: MAX_PACKET,
            packet: MAX_PACKET,
            segments: 65_535,
            age: 20_000,
            flows: 8,
            tcp: true,
            udp: true,
        }
    }
}
