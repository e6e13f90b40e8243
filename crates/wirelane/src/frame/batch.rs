//! Batches of frames.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use super::handle::Frame;
use super::meta::{Meta, release_runs};
use crate::ring::{Receiver, Sender};

/// A batch of frames, the unit of all calls on the hot path.
///
/// It never grows beyond its initial capacity, so filling it does not allocate. Dropping or
/// clearing it releases frames in runs of the same owner.
pub struct Batch {
    frames: Vec<Frame>,
    /// The most frames now; never more than allocated.
    limit: usize,
}

impl Batch {
    /// The usual number of frames in a batch.
    pub const DEFAULT: usize = 64;

    /// An empty batch for up to `capacity` frames.
    pub fn new(capacity: usize) -> Self {
        Self { frames: Vec::with_capacity(capacity), limit: capacity }
    }

    /// The number of frames that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit - self.frames.len().min(self.limit)
    }

    /// Limits it to `n` frames from now on, but never more than its capacity. Frames already in it
    /// stay.
    #[inline]
    pub fn set_limit(&mut self, n: usize) {
        self.limit = n.min(self.frames.capacity());
    }

    /// Appends a frame, or returns it if the batch is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.room() == 0 {
            return Err(frame);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Releases all frames.
    #[inline]
    pub fn clear(&mut self) {
        let n = self.frames.len();
        self.release_first(n);
    }

    /// Releases the first `n` frames.
    pub fn release_first(&mut self, n: usize) {
        let n = n.min(self.frames.len());
        self.release(0..n);
    }

    /// Releases the frames in `range`, which the batch has; the following ones move forward.
    #[inline]
    fn release(&mut self, range: Range<usize>) {
        let Range { start, end } = range;
        let rest = self.frames.len() - end;
        // SAFETY: `Frame` is a transparent `NonNull<Meta>`.
        let metas = unsafe {
            let first = self.frames.as_ptr().cast::<NonNull<Meta>>();
            std::slice::from_raw_parts(first, self.frames.len())
        };
        let released = &metas[start..end];
        // The length is set before the frames are returned: if an owner panics, the rest is lost,
        // but no frame is returned twice.
        // SAFETY: shorter than it was.
        unsafe { self.frames.set_len(start) };
        // SAFETY: these handles are beyond the length, so given up.
        unsafe { release_runs(released) };
        // SAFETY: the following handles overwrite the released ones; the length covers live
        // handles.
        unsafe {
            let base = self.frames.as_mut_ptr();
            std::ptr::copy(base.add(end), base.add(start), rest);
            self.frames.set_len(start + rest);
        }
    }

    /// Keeps the frames for which `keep` returns true, in order, and releases the others.
    pub fn retain(&mut self, keep: impl FnMut(&mut Frame) -> bool) {
        self.frames.retain_mut(keep);
    }

    /// Applies one verdict per frame, from `first` on: keeps frames with a non-zero verdict, in
    /// order, and releases the others. Frames after the last verdict stay.
    pub(crate) fn retain_at(&mut self, first: usize, verdicts: &[u32]) {
        let Some(frames) = self.frames.get_mut(first..) else { return };
        let mut kept = 0;
        for (at, _) in verdicts.iter().enumerate().filter(|(_, verdict)| **verdict != 0) {
            if at != kept && at < frames.len() {
                frames.swap(kept, at);
            }
            kept += 1;
        }
        let end = frames.len().min(verdicts.len());
        self.release(first + kept.min(end)..first + end);
    }

    /// Moves as many frames of `other` as fit to the end of this batch.
    pub fn append(&mut self, other: &mut Batch) {
        let n = self.room().min(other.frames.len());
        self.frames.extend(other.frames.drain(..n));
    }

    /// Moves the frames of `others` back to the position `at`, from which they were taken.
    pub(crate) fn put_back(&mut self, at: usize, others: &mut Batch) {
        self.frames.splice(at..at, others.frames.drain(..));
    }

    /// Takes the last frame.
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Takes the first `n` frames, in order.
    pub fn drain(&mut self, n: usize) -> impl Iterator<Item = Frame> + '_ {
        let n = n.min(self.frames.len());
        self.frames.drain(..n)
    }

    /// Releases all frames except the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.frames.truncate(n);
    }

    /// Moves frames from the front into a ring while it has room; returns their number.
    pub fn send(&mut self, ring: &mut Sender<Frame>) -> usize {
        ring.send(&mut self.frames)
    }

    /// Moves as many frames as fit from a ring to the end of the batch; returns their number.
    pub fn receive(&mut self, ring: &mut Receiver<Frame>) -> usize {
        let room = self.room();
        ring.receive(&mut self.frames, room)
    }

    /// The frames as a vector. A caller that adds frames must ensure that they fit.
    #[inline(always)]
    pub(crate) fn as_vec(&mut self) -> &mut Vec<Frame> {
        &mut self.frames
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

impl Deref for Batch {
    type Target = [Frame];

    #[inline(always)]
    fn deref(&self) -> &[Frame] {
        &self.frames
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Frame] {
        &mut self.frames
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.frames).finish()
    }
}
