//! The memory of packets and merged frames. The coalescer decides, the store owns the memory.

use crate::frame::Offload;

/// Memory of packets and of merged frames, and the destination of both.
pub(crate) trait Store {
    /// An incoming packet.
    type Packet<'p>;
    /// A buffer for a merged frame, empty until its first packet.
    type Buffer;

    /// The bytes of a packet.
    fn bytes<'a>(packet: &'a Self::Packet<'_>) -> &'a [u8];

    /// The content of a buffer.
    fn content(buffer: &Self::Buffer) -> &[u8];

    /// The content of a buffer, for writing.
    fn content_mut(buffer: &mut Self::Buffer) -> &mut [u8];

    /// Puts the first packet into an empty buffer.
    fn begin(&mut self, buffer: &mut Self::Buffer, packet: Self::Packet<'_>);

    /// Appends `payload`. False, without a change, if memory runs out.
    fn append(&mut self, buffer: &mut Self::Buffer, payload: &[u8]) -> bool;

    /// Passes on a packet unchanged.
    fn pass(&mut self, packet: Self::Packet<'_>);

    /// Passes on the content of a buffer, and empties it. It contains `packets` packets with
    /// `bytes` bytes.
    fn hand_on(&mut self, buffer: &mut Self::Buffer, offload: Offload, packets: u32, bytes: u32);
}

/// Copies packets into private memory, and lends frames to a function.
pub(super) struct Copies<'f, F>(pub(super) &'f mut F);

impl<F: FnMut(&[u8], Offload)> Store for Copies<'_, F> {
    type Packet<'p> = (&'p [u8], Offload);
    type Buffer = Vec<u8>;

    fn bytes<'a>(packet: &'a Self::Packet<'_>) -> &'a [u8] {
        packet.0
    }

    fn content(buffer: &Vec<u8>) -> &[u8] {
        buffer
    }

    fn content_mut(buffer: &mut Vec<u8>) -> &mut [u8] {
        buffer
    }

    fn begin(&mut self, buffer: &mut Vec<u8>, (packet, _): Self::Packet<'_>) {
        buffer.clear();
        buffer.extend_from_slice(packet);
    }

    fn append(&mut self, buffer: &mut Vec<u8>, payload: &[u8]) -> bool {
        buffer.extend_from_slice(payload);
        true
    }

    fn pass(&mut self, (packet, offload): Self::Packet<'_>) {
        (self.0)(packet, offload);
    }

    fn hand_on(&mut self, buffer: &mut Vec<u8>, offload: Offload, _: u32, _: u32) {
        (self.0)(buffer, offload);
    }
}
