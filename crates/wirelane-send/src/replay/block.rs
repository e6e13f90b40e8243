//! Packets of a lane in memory, one after the other.

/// Bytes and packets after which a block is full.
const FULL_BYTES: usize = 256 << 10;
const FULL_PACKETS: usize = 1024;

/// Packets that follow each other in one lane, of one loop.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<Packet>,
    /// Which loop they are of.
    pub(super) number: u64,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Where it is in what is sent, as the meter says.
    pub(super) place: u64,
    /// Where its bytes begin in those of the block, and how many there are.
    pub(super) begin: u32,
    pub(super) stored: u32,
    /// How long it is when it is sent; what is not stored are zeros.
    pub(super) len: u32,
    /// Which file it is of.
    pub(super) file: u32,
}

impl Block {
    pub(super) fn push(&mut self, frame: &[u8], len: usize, place: u64, file: u32) {
        let packet = Packet {
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

    /// What it takes in memory.
    pub(super) fn size(&self) -> u64 {
        (self.bytes.len() + self.packets.len() * size_of::<Packet>()) as u64
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}
