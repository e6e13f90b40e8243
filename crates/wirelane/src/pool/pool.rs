//! The owner's side of a pool, and the state that outlives it.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::config::PoolConfig;
use super::gauge::PoolGauge;
use super::region::{ChunkSlot, GRAIN, Region};
use super::returns::Returns;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Marks, Meta, Owner};
use crate::mask::Class;
use crate::sync::{Arc, AtomicU32, Ordering};

/// The owner's side of a pool. It may move to another thread, but only one thread at a time can use
/// it.
pub struct Pool {
    shared: NonNull<PoolMemory>,
    /// The private free list: its first chunk, and its length.
    head: u32,
    free: u32,
    /// `free` for other threads, updated once per batch.
    gauge: Arc<AtomicU32>,
}

// SAFETY: the pool is the only user of the free list; other threads only access atomics of
// `PoolMemory`.
unsafe impl Send for Pool {}

/// The state that outlives the pool while frames are in use.
#[repr(C)]
struct PoolMemory {
    owner: Owner,
    returns: Arc<Returns>,
    /// One slot per chunk. A raw pointer, because frames refer to single elements.
    slots: NonNull<ChunkSlot>,
    region: Region,
    config: PoolConfig,
}

impl Pool {
    /// Maps and prepares the memory: huge pages if the machine has some, otherwise normal pages.
    ///
    /// # Errors
    /// The configuration is outside the documented limits, or the system refuses the memory.
    pub fn new(config: PoolConfig) -> Result<Self> {
        config.check()?;
        let size = config.chunk_size;
        if !size.is_power_of_two() || !(256..=65536).contains(&size) {
            let cause = "the frame size is a power of two, 256 to 65536";
            return Err(Error::usage(config.object(), cause));
        }
        let bytes = config.chunks as usize * size as usize;
        let region = Region::with_grain(|| config.object(), bytes, size, config.numa_node)?;
        Self::carve(&region, config)
    }

    /// Takes the memory from `region`, which owns it.
    ///
    /// # Errors
    /// The configuration is outside the documented limits, or the region has too little memory
    /// left.
    pub(crate) fn in_region(region: &Region, config: PoolConfig) -> Result<Self> {
        config.check()?;
        if !(GRAIN..=524_288).contains(&config.chunk_size) {
            return Err(Error::usage(config.object(), "the frame size is 2048 to 524288"));
        }
        Self::carve(region, config)
    }

    fn carve(region: &Region, config: PoolConfig) -> Result<Self> {
        let chunks = config.chunks;
        let slots = region.carve(chunks, config.chunk_size).ok_or_else(|| {
            let left = region.left();
            let cause = format!("the memory to take it from has {left} bytes left");
            Error::failed(config.object(), cause)
        })?;
        let none = || Error::failed(config.object(), "there is no memory for the list of frames");
        let returns = Returns::new(chunks).ok_or_else(none)?;
        let shared = Box::new(PoolMemory {
            owner: Owner { release },
            returns: Arc::new(returns),
            slots,
            region: region.clone(),
            config,
        });
        let shared = NonNull::from(Box::leak(shared));
        for index in 0..chunks {
            // SAFETY: `carve` returned this many slots, and nothing else refers to them.
            unsafe {
                let slot = slots.add(index as usize);
                let meta = Meta {
                    owner: shared.cast::<Owner>(),
                    data: region.base().add(slot.as_ref().chunk()),
                    timestamp: 0,
                    len: 0,
                    original_len: 0,
                    headroom: 0,
                    room: slot.as_ref().size(),
                    index,
                    queue: 0,
                    class: Class::Rx,
                    marks: Marks::NONE,
                };
                slot.cast::<Meta>().write(meta);
            }
        }
        Ok(Self { shared, head: 0, free: chunks, gauge: Arc::new(AtomicU32::new(chunks)) })
    }

    /// Adds up to `n` empty frames to `batch`, as far as the batch has room and the pool has
    /// frames; returns their number.
    #[inline]
    pub fn take(&mut self, batch: &mut Batch, n: usize) -> usize {
        let n = n.min(batch.room());
        for taken in 0..n {
            let Some(frame) = self.pop() else {
                self.publish();
                return taken;
            };
            batch.as_vec().push(frame);
        }
        self.publish();
        n
    }

    /// Makes returned frames the next ones to be taken, because they are still in the caches.
    /// Otherwise, all frames of the pool are used in turn.
    #[inline]
    pub(crate) fn recall(&mut self) {
        let (first, count) = self.shared().returns.take_all();
        if count > 0 {
            // SAFETY: both lists are ours: the one was taken, the other is the free list.
            unsafe { self.shared().returns.join(first, count, self.head) };
            (self.head, self.free) = (first, self.free + count);
            self.publish();
        }
    }

    /// One empty frame; `None` if all are in use.
    pub fn take_one(&mut self) -> Option<Frame> {
        let frame = self.pop()?;
        self.publish();
        Some(frame)
    }

    /// Number of frames of the pool.
    pub fn size(&self) -> u32 {
        self.shared().config.chunks
    }

    /// Number of unused frames. Equal to [`Pool::size`] when every frame was returned.
    pub fn free(&self) -> u32 {
        self.free + self.shared().returns.count()
    }

    /// The region of the memory.
    pub(crate) fn region(&self) -> &Region {
        &self.shared().region
    }

    /// Reads the number of free frames from other threads, also after the pool was dropped.
    pub(crate) fn gauge(&self) -> PoolGauge {
        let returns = Arc::clone(&self.shared().returns);
        PoolGauge { size: self.size(), free: Arc::clone(&self.gauge), returns }
    }

    #[inline(always)]
    fn shared(&self) -> &PoolMemory {
        // SAFETY: `PoolMemory` lives at least as long as the pool.
        unsafe { self.shared.as_ref() }
    }

    /// Takes the first chunk of the free list; `None` if all are in use.
    #[inline(always)]
    fn pop(&mut self) -> Option<Frame> {
        if self.free == 0 && !self.collect() {
            return None;
        }
        let shared = self.shared.as_ptr();
        // SAFETY: chunks on the free list are ours alone: no frame refers to them, so neither
        // their link nor their meta is in use, and `new` made one meta per index.
        unsafe {
            let index = self.head;
            let slot = (*shared).slots.add(index as usize);
            let headroom = (*shared).config.headroom;
            self.head = (*shared).returns.next(index);
            self.free -= 1;
            let meta = slot.cast::<Meta>();
            let fields = meta.as_ptr();
            (*fields).data =
                (*shared).region.base().add((*slot.as_ptr()).chunk() + headroom as usize);
            (*fields).headroom = headroom;
            (*fields).marks = Marks::NONE;
            (*fields).room = (*shared).config.chunk_size - headroom;
            (*fields).len = 0;
            Some(Frame::new(meta))
        }
    }

    /// Takes the returned frames; false if there are none.
    fn collect(&mut self) -> bool {
        (self.head, self.free) = self.shared().returns.take_all();
        self.free > 0
    }

    #[inline(always)]
    fn publish(&self) {
        self.gauge.store(self.free, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // From here on, the private list counts as returned.
        self.gauge.store(0, Ordering::Relaxed);
        // SAFETY: the free list is ours, and is not used any more.
        if unsafe { self.shared().returns.close(self.head, self.free, self.size()) } {
            // SAFETY: every frame was returned and the pool is being dropped, so nothing else
            // refers to it.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

/// Returns frames to the list. The last frame of a dropped pool frees the memory.
unsafe fn release(owner: NonNull<Owner>, frames: &[NonNull<Meta>]) {
    let shared = owner.cast::<PoolMemory>();
    // SAFETY: frames keep their pool's memory alive, and these are given up by the caller.
    let last = unsafe {
        let returns = &shared.as_ref().returns;
        returns.give(frames.iter().map(|meta| meta.as_ref().index), shared.as_ref().config.chunks)
    };
    if last {
        // SAFETY: the pool was dropped and every frame was returned, so nothing else refers to it.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

#[cfg(all(test, not(loom)))]
#[path = "pool_tests.rs"]
mod tests;
