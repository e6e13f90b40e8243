//! What packets and merged frames lie in. The coalescer decides, the store has the memory.

use crate::frame::Offload;

/// Memory of packets and of frames that grow, and where both go.
pub(crate) trait Store {
    /// A packet that comes in.
    type Packet<'p>;
    /// A place for a frame that grows; empty until a packet begins it.
    type Buffer;

    /// The bytes of a packet.
    fn bytes<'a>(packet: &'a Self::Packet<'_>) -> &'a [u8];

    /// What is in a buffer.
    fn content(buffer: &Self::Buffer) -> &[u8];

    /// What is in a buffer, writable.
    fn content_mut(buffer: &mut Self::Buffer) -> &mut [u8];

    /// Puts the first packet into an empty buffer.
    fn begin(&mut self, buffer: &mut Self::Buffer, packet: Self::Packet<'_>);

    /// Adds `payload` at the end. False, and nothing changed, if there is no memory.
    fn append(&mut self, buffer: &mut Self::Buffer, payload: &[u8]) -> bool;

    /// Hands on a packet as it came.
    fn pass(&mut self, packet: Self::Packet<'_>);

    /// Hands on what is in a buffer, which is empty then: so many packets with so many bytes.
    fn hand_on(&mut self, buffer: &mut Self::Buffer, offload: Offload, packets: u32, bytes: u32);
}

/// Copies packets into memory of its own, and lends what is handed on to a function.
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
