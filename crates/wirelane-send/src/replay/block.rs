//! Packets of a lane in memory.

/// A block with this many bytes or packets is full.
const FULL_BYTES: usize = 256 << 10;
const FULL_PACKETS: usize = 1024;

/// Consecutive packets of one lane, from one loop.
#[derive(Debug, Default)]
pub(super) struct PacketBlock {
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<BlockPacket>,
    /// The number of their loop.
    pub(super) number: u64,
}

/// A packet in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPacket {
    /// Its place in the schedule, measured by [`PositionMeter`](super::clock::PositionMeter).
    pub(super) place: u64,
    /// The offset of its bytes in the block, and their number.
    pub(super) begin: u32,
    pub(super) stored: u32,
    /// Its length when sent. The bytes beyond the stored ones are zeros.
    pub(super) len: u32,
    /// The index of its file.
    pub(super) file: u32,
}

impl PacketBlock {
    pub(super) fn push(&mut self, frame: &[u8], len: usize, place: u64, file: u32) {
        let packet = BlockPacket {
            place,
            begin: self.bytes.len() as u32,
            stored: frame.len() as u32,
            len: len as u32,
            file,
        };
        self.bytes.extend_from_slice(frame);
        self.packets.push(packet);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES || self.packets.len() >= FULL_PACKETS
    }

    /// Its size in memory, in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.bytes.len() + self.packets.len() * size_of::<BlockPacket>()) as u64
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}
