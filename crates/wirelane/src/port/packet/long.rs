//! Packets longer than a slot: the kernel queues them whole on the socket, in the order of their
//! slots.

use std::io;
use std::time::Duration;

use wirelane_os::packet::{PacketSocket, VirtioNetHdr};

use super::ring::PacketRing;
use crate::frame::Frame;
use crate::pool::{Pool, PoolConfig, Region};

/// How many frames may be in use at a time; further packets stay queued.
const FRAMES: u32 = 8;
/// How long to wait for a returned frame.
pub(super) const HELD: Duration = Duration::from_micros(200);
/// Bytes before a packet, for headers, a tag and the frame's metadata.
const HEADROOM: u32 = 128;
/// Chunk sizes are multiples of this.
const GRAIN: u32 = 2048;

/// Reads the long packets of one ring.
pub(super) struct Long {
    /// Allocated for the first long packet.
    pool: Option<Pool>,
    /// There is no memory for long packets.
    is_impossible: bool,
    /// The frame for the next packet.
    frame: Option<Frame>,
}

impl Long {
    pub(super) fn new() -> Self {
        Self { pool: None, is_impossible: false, frame: None }
    }

    /// Whether the next packet can be read: there is a frame, or there will never be one.
    #[cold]
    pub(super) fn is_ready(&mut self, ring: &PacketRing, snaplen: u32) -> bool {
        if self.pool.is_none() && !self.is_impossible {
            self.pool = pool(snaplen).ok();
            self.is_impossible = self.pool.is_none();
            if let Some(pool) = &self.pool {
                // A ring has one receiver, and so one pool.
                let _ = ring.long.set(pool.gauge());
            }
        }
        if self.frame.is_none() {
            self.frame = self.pool.as_mut().and_then(Pool::take_one);
        }
        self.frame.is_some() || self.is_impossible
    }

    /// Reads the next packet, after [`Long::is_ready`], and the `vnet_header` bytes in front of it.
    /// The packet has `len` bytes and begins with `seen`, the bytes in its slot. `None` if there is
    /// no memory, or the packet was not queued. Stores a pending error of the socket in `pending`.
    #[cold]
    pub(super) fn read(
        &mut self,
        socket: &PacketSocket,
        (vnet, vnet_header): (&mut VirtioNetHdr, usize),
        (seen, len): (&[u8], usize),
        pending: &mut Option<io::Error>,
    ) -> Option<Frame> {
        let mut frame = self.frame.take();
        let header = vnet.as_bytes_mut().get_mut(..vnet_header)?;
        if let Some(frame) = &mut frame {
            // The whole chunk, so that the kernel can write to it.
            let room = frame.capacity();
            let _ = frame.set_len(room);
        }
        loop {
            let space = frame.as_mut().map(Frame::data_mut).unwrap_or_default();
            let received = match socket.try_receive(header, space) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    *pending = Some(error);
                    socket.try_receive(header, space)
                }
                received => received,
            };
            let received = received.ok()?.checked_sub(vnet_header)?;
            let of_slot = |frame: &mut Frame| received == len && frame.data().starts_with(seen);
            // Otherwise it belongs to a slot that was given up.
            if let Some(mut frame) = frame.take_if(of_slot) {
                let room = frame.capacity();
                return frame.set_len(len.min(room)).then_some(frame);
            }
            frame.as_ref()?;
        }
    }
}

/// A pool for packets of up to `snaplen` bytes.
fn pool(snaplen: u32) -> crate::error::Result<Pool> {
    let chunk_size = (snaplen + HEADROOM).next_multiple_of(GRAIN);
    let region = Region::new(Region::bytes_for(FRAMES, chunk_size), None)?;
    let config = PoolConfig { chunks: FRAMES, chunk_size, headroom: HEADROOM, numa_node: None };
    Pool::in_region(&region, config)
}
