//! Adds and removes headers before a packet.
#![allow(unsafe_code)]

use super::handle::Frame;
use super::marks::Marks;

impl Frame {
    /// Bytes that can be prepended.
    pub fn headroom(&self) -> usize {
        let meta = self.meta();
        (meta.headroom as usize).saturating_sub(meta.marks.kept())
    }

    /// The `N` bytes before the packet; `None` if the headroom is smaller.
    #[inline(always)]
    pub(crate) fn read_before<const N: usize>(&self) -> Option<[u8; N]> {
        let meta = self.meta();
        (N <= self.before()).then(|| {
            // SAFETY: `headroom` bytes before `data` belong to this frame, and are initialised.
            unsafe { meta.data.sub(N).cast::<[u8; N]>().read_unaligned() }
        })
    }

    /// Writes `bytes` directly before the packet. Metadata may be stored there, so it is dropped.
    /// False, without a change, if the headroom is smaller.
    #[inline(always)]
    pub(crate) fn write_before(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.before();
        if fits {
            let meta = self.meta_mut();
            meta.marks = Marks::NONE;
            // SAFETY: `headroom` bytes before `data` belong to this frame.
            unsafe {
                let place = meta.data.sub(bytes.len()).as_ptr();
                place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        fits
    }

    /// Adds `n` bytes before the packet, for a header. False, without a change, if the headroom is
    /// smaller.
    #[must_use = "without headroom nothing was changed"]
    pub fn prepend(&mut self, n: usize) -> bool {
        if n > self.headroom() {
            return false;
        }
        let meta = self.meta_mut();
        let n32 = n as u32;
        // SAFETY: `headroom` bytes before `data` belong to this frame.
        meta.data = unsafe { meta.data.sub(n) };
        meta.headroom -= n32;
        meta.len += n32;
        meta.room += n32;
        meta.original_len += n32;
        self.shift_offload(n as isize);
        true
    }

    /// Removes `n` bytes from the front. False, without a change, if the packet is shorter.
    #[must_use = "a shorter packet was not changed"]
    pub fn strip(&mut self, n: usize) -> bool {
        let meta = self.meta_mut();
        if n > meta.len as usize {
            return false;
        }
        let n32 = n as u32;
        // SAFETY: `n <= len` bytes from `data` on belong to this frame.
        meta.data = unsafe { meta.data.add(n) };
        meta.headroom += n32;
        meta.len -= n32;
        meta.room -= n32;
        meta.original_len = meta.original_len.saturating_sub(n32);
        self.shift_offload(-(n as isize));
        true
    }
}
