//! The shape of a ring, and its counters.

use super::uapi::{SockaddrLl, TPACKET2_HDRLEN, TPACKET3_HDRLEN};
use std::mem::size_of;

/// The layout of both rings of a socket; a socket has one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `TPACKET_V2`: frames of equal size, each with a status word ([`super::Tpacket2Hdr`]).
    V2 = 1,
    /// `TPACKET_V3`: RX packets in blocks that change ownership as a whole
    /// ([`super::Tpacket3Hdr`]).
    V3 = 2,
}

impl Version {
    /// Offset of the data in a TX frame, in bytes (`tpacket_parse_header`: the header length
    /// without the `sockaddr_ll`, which only received packets have).
    pub const fn tx_data_offset(self) -> usize {
        match self {
            Version::V2 => TPACKET2_HDRLEN - size_of::<SockaddrLl>(),
            Version::V3 => TPACKET3_HDRLEN - size_of::<SockaddrLl>(),
        }
    }
}

/// An RX ring of version 3.
#[derive(Clone, Copy, Debug)]
pub struct RingRequest {
    /// Bytes per block; a multiple of the page size.
    pub block_size: u32,
    /// Number of blocks.
    pub block_count: u32,
    /// Nominal bytes per frame: a multiple of 16 that divides a block. Packets are packed
    /// regardless of it, and truncated only at the size of the block.
    pub frame_size: u32,
    /// Milliseconds after which a partly filled block is handed over; 0 lets the kernel choose by
    /// link speed.
    pub retire_ms: u32,
    /// Fill [`super::Tpacket3Hdr::rxhash`], which costs a flow dissection if the device computed no
    /// hash.
    pub fill_rxhash: bool,
}

impl RingRequest {
    /// Bytes of the ring, or `None` on overflow.
    pub fn bytes(&self) -> Option<usize> {
        ring_bytes(self.block_size, self.block_count)
    }

    /// Nominal frames in the ring, or `None` when the request is impossible.
    pub(super) fn frames(&self) -> Option<u32> {
        frames(self.block_size, self.block_count, self.frame_size)
    }
}

/// A ring of frames of equal size: a TX ring, or an RX ring of version 2.
#[derive(Clone, Copy, Debug)]
pub struct SlotRingRequest {
    /// Bytes per block; a multiple of the page size.
    pub block_size: u32,
    /// Number of blocks.
    pub block_count: u32,
    /// Bytes per frame, including the header: a multiple of 16. If it does not divide the block,
    /// each block begins with a new frame.
    pub frame_size: u32,
}

impl SlotRingRequest {
    /// Bytes of the ring, or `None` on overflow.
    pub fn bytes(&self) -> Option<usize> {
        ring_bytes(self.block_size, self.block_count)
    }

    /// Frames in the ring, or `None` when the request is impossible.
    pub fn frames(&self) -> Option<u32> {
        frames(self.block_size, self.block_count, self.frame_size)
    }

    /// Offset of frame `index` in the ring, in bytes; `None` if there is no such frame.
    pub fn frame_offset(&self, index: u32) -> Option<usize> {
        let per_block = self.block_size.checked_div(self.frame_size).filter(|count| *count > 0)?;
        let (block, slot) = (index / per_block, index % per_block);
        (block < self.block_count).then_some(())?;
        // No overflow: both products are smaller than the ring, whose size was checked.
        self.bytes()?;
        Some(block as usize * self.block_size as usize + slot as usize * self.frame_size as usize)
    }
}

/// Counts since the statistics were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that passed the filter, **including** dropped ones (`packet_getsockopt` adds them).
    pub packets: u32,
    /// Packets that passed the filter and found no room in the ring.
    pub drops: u32,
    /// How often the ring was full (version 3).
    pub freezes: u32,
}

fn ring_bytes(block_size: u32, block_count: u32) -> Option<usize> {
    (block_size as usize).checked_mul(block_count as usize)
}

/// The number of frames that the kernel requires: whole frames per block times blocks
/// (`packet_set_ring`).
fn frames(block_size: u32, block_count: u32, frame_size: u32) -> Option<u32> {
    block_size.checked_div(frame_size)?.checked_mul(block_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RX: RingRequest = RingRequest {
        block_size: 1 << 16,
        block_count: 4,
        frame_size: 2048,
        retire_ms: 5,
        fill_rxhash: false,
    };

    #[test]
    fn header_lengths_are_the_kernels() {
        assert_eq!((TPACKET2_HDRLEN, TPACKET3_HDRLEN), (52, 68));
        assert_eq!(Version::V2.tx_data_offset(), 32);
        assert_eq!(Version::V3.tx_data_offset(), 48);
    }

    #[test]
    fn impossible_rings() {
        assert_eq!((RX.bytes(), RX.frames()), (Some(4 << 16), Some(128)));
        assert_eq!(RingRequest { frame_size: 0, ..RX }.frames(), None);
        let largest = RingRequest { block_size: u32::MAX, block_count: u32::MAX, ..RX };
        assert_eq!(RingRequest { frame_size: 1, ..largest }.frames(), None);
    }

    #[test]
    fn frames_start_anew_with_each_block() {
        let ring = SlotRingRequest { block_size: 4096, block_count: 2, frame_size: 1600 };
        assert_eq!(ring.frames(), Some(4));
        let offsets: Vec<_> = (0..5).map(|index| ring.frame_offset(index)).collect();
        assert_eq!(offsets, [Some(0), Some(1600), Some(4096), Some(5696), None]);
        assert_eq!(SlotRingRequest { frame_size: 0, ..ring }.frame_offset(0), None);
        assert_eq!(SlotRingRequest { frame_size: 5000, ..ring }.frame_offset(0), None);
    }
}
