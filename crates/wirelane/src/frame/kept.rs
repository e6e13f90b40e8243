//! What a frame keeps of its packet at the start of its headroom, where the next header does not cover it.
//!
//! ```text
//!   │ Offload │ hints │ merged │  headroom that is free  │ packet │
//! ```
#![allow(unsafe_code)]

use super::handle::Frame;
use super::marks::{Left, Marks};
use super::offload::Offload;

/// Where each is.
pub(super) const OFFLOAD: usize = 0;
pub(super) const HINTS: usize = OFFLOAD + size_of::<Offload>();
pub(super) const MERGED: usize = HINTS + HINTS_BYTES;
/// Bytes of each.
pub(super) const HINTS_BYTES: usize = 16;
pub(super) const MERGED_BYTES: usize = 8;

impl Frame {
    /// Reads what is kept at `place`.
    ///
    /// # Safety
    /// [`Frame::keep`] wrote a `T` there, and no packet has covered it since.
    #[inline(always)]
    pub(super) unsafe fn kept<T: Copy>(&self, place: usize) -> T {
        // SAFETY: inside the headroom, as `keep` has checked, and a `T` by contract.
        unsafe { self.start().add(place).cast::<T>().read_unaligned() }
    }

    /// Keeps `value` at `place`. False, and nothing changed, if the headroom has too few bytes.
    #[inline(always)]
    pub(super) fn keep<T: Copy>(&mut self, place: usize, value: T) -> bool {
        let fits = place + size_of::<T>() <= self.before();
        if fits {
            // SAFETY: this much of the headroom belongs to this frame.
            unsafe { self.start().add(place).cast::<T>().write_unaligned(value) };
        }
        fits
    }
}

impl Marks {
    /// Bytes at the start of the headroom that are in use.
    #[inline(always)]
    pub(super) fn kept(self) -> usize {
        match (self.has(Self::HINTS), self.left() == Left::Offload) {
            _ if self.has(Self::MERGED) => MERGED + MERGED_BYTES,
            (true, _) => HINTS + HINTS_BYTES,
            (false, true) => OFFLOAD + size_of::<Offload>(),
            (false, false) => 0,
        }
    }
}
