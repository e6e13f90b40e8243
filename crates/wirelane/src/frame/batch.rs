//! Frames that travel together.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use super::handle::Frame;
use super::meta::{Meta, release_runs};
use crate::ring::{Receiver, Sender};

/// Frames that travel together: the unit of every hot call.
///
/// It never grows beyond the capacity it was made with, so filling it allocates nothing, and
/// dropping or clearing it gives all frames back in as few steps as there are runs of one owner.
pub struct Batch {
    frames: Vec<Frame>,
    /// Most frames to hold now; never more than was allocated.
    limit: usize,
}

impl Batch {
    /// The usual number of frames in a batch.
    pub const DEFAULT: usize = 64;

    /// An empty batch for up to `capacity` frames.
    pub fn new(capacity: usize) -> Self {
        Self { frames: Vec::with_capacity(capacity), limit: capacity }
    }

    /// How many more frames fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit - self.frames.len().min(self.limit)
    }

    /// Holds at most `n` frames from now on, but never more than its capacity. Frames already in it
    /// stay.
    #[inline]
    pub fn set_limit(&mut self, n: usize) {
        self.limit = n.min(self.frames.capacity());
    }

    /// Adds a frame at the end; gives it back if the batch is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.room() == 0 {
            return Err(frame);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Gives every frame back to its owner.
    #[inline]
    pub fn clear(&mut self) {
        let n = self.frames.len();
        self.release_first(n);
    }

    /// Gives the first `n` frames back to their owners.
    pub fn release_first(&mut self, n: usize) {
        let n = n.min(self.frames.len());
        self.release(0..n);
    }

    /// Gives the frames in `range`, which the batch has, back to their owners; those behind them
    /// move up.
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
        // SAFETY: they are overwritten by those behind them, and the length says so.
        unsafe {
            let base = self.frames.as_mut_ptr();
            std::ptr::copy(base.add(end), base.add(start), rest);
            self.frames.set_len(start + rest);
        }
    }

    /// Keeps the frames for which `keep` is true, in order, and gives the others back.
    pub fn retain(&mut self, keep: impl FnMut(&mut Frame) -> bool) {
        self.frames.retain_mut(keep);
    }

    /// Of the frames from the one at `first` on, as many as there are `verdicts`, keeps those whose
    /// verdict is not 0, in order, and gives the others back to their owners.
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

    /// Moves all frames of `other` that fit to the end of this batch.
    pub fn append(&mut self, other: &mut Batch) {
        let n = self.room().min(other.frames.len());
        self.frames.extend(other.frames.drain(..n));
    }

    /// Moves the frames of `others`, which were taken from there, back to the place `at`.
    pub(crate) fn put_back(&mut self, at: usize, others: &mut Batch) {
        self.frames.splice(at..at, others.frames.drain(..));
    }

    /// Takes the last frame out.
    pub fn pop(&mut self) -> Option<Frame> {
        self.frames.pop()
    }

    /// Takes the first `n` frames out, in order.
    pub fn drain(&mut self, n: usize) -> impl Iterator<Item = Frame> + '_ {
        let n = n.min(self.frames.len());
        self.frames.drain(..n)
    }

    /// Gives all but the first `n` frames back to their owners.
    pub fn truncate(&mut self, n: usize) {
        self.frames.truncate(n);
    }

    /// Moves frames from the front into a ring while it has room; returns how many.
    pub fn send(&mut self, ring: &mut Sender<Frame>) -> usize {
        ring.send(&mut self.frames)
    }

    /// Moves frames out of a ring to the end of the batch, as many as fit; returns how many.
    pub fn receive(&mut self, ring: &mut Receiver<Frame>) -> usize {
        let room = self.room();
        ring.receive(&mut self.frames, room)
    }

    /// The frames as a vector. A caller that adds frames ensures that they fit.
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
