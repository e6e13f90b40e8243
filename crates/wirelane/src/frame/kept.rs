//! Metadata that a frame stores at the start of its headroom, where headers do not overwrite it.
//!
//! ```text
//!   │ Offload │ hints │ merged │  free headroom          │ packet │
//! ```
#![allow(unsafe_code)]

use super::handle::Frame;
use super::marks::{Left, Marks};

/// Their offsets.
pub(super) const OFFLOAD: usize = 0;
pub(super) const HINTS: usize = OFFLOAD + OFFLOAD_BYTES;
pub(super) const MERGED: usize = HINTS + HINTS_BYTES;
/// Their sizes in bytes.
pub(crate) const OFFLOAD_BYTES: usize = 12;
pub(super) const HINTS_BYTES: usize = 16;
pub(super) const MERGED_BYTES: usize = 8;

impl Frame {
    /// Reads the bytes at `place`; zeroes if the headroom ends before, because [`Frame::keep`]
    /// cannot have stored anything there.
    #[inline(always)]
    pub(super) fn kept<const N: usize>(&self, place: usize) -> [u8; N] {
        if place + N > self.before() {
            return [0; N];
        }
        // SAFETY: this part of the headroom belongs to this frame, and is initialised.
        unsafe { self.start().add(place).cast::<[u8; N]>().read() }
    }

    /// Stores `bytes` at `place`. False, without a change, if the headroom is too small.
    ///
    /// All bytes must be initialised, so types with padding are excluded: the packet may grow over
    /// them ([`Frame::prepend`]).
    #[inline(always)]
    pub(super) fn keep<const N: usize>(&mut self, place: usize, bytes: [u8; N]) -> bool {
        let fits = place + N <= self.before();
        if fits {
            // SAFETY: this part of the headroom belongs to this frame.
            unsafe { self.start().add(place).cast::<[u8; N]>().write(bytes) };
        }
        fits
    }
}

impl Marks {
    /// Bytes in use at the start of the headroom.
    #[inline(always)]
    pub(super) fn kept(self) -> usize {
        match (self.has(Self::HINTS), self.left() == Left::Offload) {
            _ if self.has(Self::MERGED) => MERGED + MERGED_BYTES,
            (true, _) => HINTS + HINTS_BYTES,
            (false, true) => OFFLOAD + OFFLOAD_BYTES,
            (false, false) => 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::frame::{Gso, Offload, Tunnel};
    use crate::pool::{Pool, PoolConfig};

    /// A packet may grow over the stored metadata, so each of its bytes must be initialised. Miri
    /// checks it.
    #[test]
    fn a_packet_may_grow_over_what_was_kept() {
        let config = PoolConfig { chunks: 1, chunk_size: 256, headroom: 64, numa_node: None };
        let mut pool = Pool::new(config).unwrap();
        for tunnel in [None, Some(Tunnel::Udp { transport: 1, network: 2 })] {
            let offload = Offload { gso: Gso::Udp, size: 7, tunnel, ..Offload::default() };
            let mut frame = pool.take_one().unwrap();
            assert!(frame.fill(&[7; 60]) && frame.set_offload(offload) && frame.set_merged(2, 120));
            assert!(frame.set_offload(Offload::default()) && frame.fill(&[7; 60]));
            assert!(frame.prepend(64));
            let sum: u32 = frame.data_mut().iter().copied().map(u32::from).sum();
            assert!(sum > 60 * 7, "what was kept lies there");
        }
    }
}
