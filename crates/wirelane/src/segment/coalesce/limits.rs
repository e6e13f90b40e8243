//! Limits of held frames.

use crate::frame::MAX_PACKET;

/// The most datagrams in one frame. It is the limit of the kernel's GRO (`UDP_GRO_CNT_MAX` in
/// `net/ipv4/udp_offload.c`), for which receivers with `UDP_GRO` have room. It is also the limit of
/// its segmentation: a frame of more than `UDP_MAX_SEGMENTS` (`include/linux/udp.h`: 64, and 128
/// from Linux 6.9 on) is refused (`virtio_net_hdr_to_skb()`).
pub const MAX_DATAGRAMS: u32 = 64;

/// Limits of held frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the longest frame, from its IP header on; at most 65535.
    pub size: usize,
    /// Bytes of the longest packet to merge, from its IP header on: the sink's MTU. A longer packet
    /// could not be restored; the segmenter decides about it.
    pub packet: usize,
    /// Packets in one frame; at most [`MAX_DATAGRAMS`] of UDP.
    pub segments: u32,
    /// How long the first packet may wait, in the caller's unit of time.
    pub age: u64,
    /// Flows held at once. Each takes 64 KiB.
    pub flows: usize,
    /// Merge TCP.
    pub tcp: bool,
    /// Merge UDP.
    pub udp: bool,
}

impl Default for Limits {
    /// The limits of IP, for 8 flows, and 20 µs if time is in nanoseconds.
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
