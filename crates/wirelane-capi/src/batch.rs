//! Frames that travel together, and how C sees each.
#![allow(unsafe_code)]

use wirelane::{Batch, Frame};

use crate::error::{Failure, Result};
use crate::mask::{WIRELANE_NO_QUEUE, number_of};

/// In wirelane_packet.flags: rx_hash is known.
pub const WIRELANE_PACKET_HAS_HASH: u8 = 1;
/// In wirelane_packet.flags: something is left to do before it is as on the wire, such as completing a checksum
/// or cutting it into packets. Transmitting ends do it.
pub const WIRELANE_PACKET_UNFINISHED: u8 = 2;

/// One packet of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Packet {
    /// Its bytes, from the Ethernet header on, without the frame check sequence. They may be changed.
    pub data: *mut u8,
    /// Bytes at `data`.
    pub len: u32,
    /// Bytes on the wire; more than `len` if the snap length cut it.
    pub original_len: u32,
    /// When the port saw it: nanoseconds since 1970, 0 if the port keeps no time.
    pub timestamp: u64,
    /// The hash of its flow, if `flags` say so.
    pub rx_hash: u32,
    /// Its queue, or WIRELANE_NO_QUEUE.
    pub queue: u16,
    /// WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    pub queue_class: u8,
    /// WIRELANE_PACKET_...
    pub flags: u8,
}

const _: () = assert!(size_of::<Packet>() == 32);

/// A batch, and room for what C sees of it.
pub(crate) struct OpenBatch {
    pub(crate) frames: Batch,
    packets: Vec<Packet>,
}

// SAFETY: the pointers are into the frames of this batch, which go where it goes.
unsafe impl Send for OpenBatch {}

impl OpenBatch {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { frames: Batch::new(capacity), packets: Vec::with_capacity(capacity) }
    }

    /// Every frame as C sees it.
    #[inline]
    pub(crate) fn packets(&mut self) -> &[Packet] {
        self.packets.clear();
        self.packets.extend(self.frames.iter_mut().map(packet));
        &self.packets
    }

    /// One frame.
    pub(crate) fn frame(&mut self, index: usize) -> Result<&mut Frame> {
        self.frames.get_mut(index).ok_or(Failure::Argument("the batch has no such packet"))
    }
}

#[inline]
fn packet(frame: &mut Frame) -> Packet {
    let hash = frame.rx_hash();
    let unfinished = frame.offload().is_some();
    Packet {
        len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
        original_len: frame.original_len(),
        timestamp: frame.timestamp(),
        rx_hash: hash.map_or(0, |hash| hash.value),
        queue: frame.queue().unwrap_or(WIRELANE_NO_QUEUE as u16),
        queue_class: number_of(frame.class()) as u8,
        flags: if hash.is_some() { WIRELANE_PACKET_HAS_HASH } else { 0 }
            | if unfinished { WIRELANE_PACKET_UNFINISHED } else { 0 },
        data: frame.data_mut().as_mut_ptr(),
    }
}
