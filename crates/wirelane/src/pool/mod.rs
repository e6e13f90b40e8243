//! Frame memory: one pool per queue.
//!
//! ```text
//!                   Pool::take                      Frame dropped, on any thread
//!   free (owner's) ───────────▶ frames in use ───────────────────────▶ returned
//!         ▲                                                               │
//!         └────────────────── all at once, when free is empty ────────────┘
//! ```
//!
//! One thread owns the pool and takes frames out of a list that only it sees. Frames come back
//! from any thread onto the *returned* list, a run of frames in one atomic step; the owner takes
//! that whole list when its own is empty. So a frame costs less than one atomic operation on
//! the way round, and queues share nothing.
//!
//! A pool has memory of its own ([`Pool::new`]) or a part of a [`Region`] that it shares with other
//! pools ([`Pool::in_region`]). A region is what a kernel can register as a whole (an AF_XDP UMEM), so
//! that a frame of any of its pools can be sent through any socket that knows the region, uncopied.
//!
//! The memory lives until the last pool of its region is dropped *and* every frame is back, whoever
//! is last.
#![allow(unsafe_code)]

pub(crate) mod blocks;
mod region;
mod returns;

use std::ptr::NonNull;

pub(crate) use self::region::Region;
use self::region::{GRAIN, Slot};
pub(crate) use self::region::{Returned, Tag};
use self::returns::Returns;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Marks, Meta, Owner};
use crate::mask::Class;
use crate::sync::{Arc, AtomicU32, Ordering};

/// Shape of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Number of chunks, each of which holds one frame; 1 to 2²⁴.
    pub chunks: u32,
    /// Bytes per chunk, headroom included: a power of two from 256 to 65536, or in a [`Region`] any
    /// number from 2048 to 131072.
    pub chunk_size: u32,
    /// Bytes kept free before a packet, for headers that are prepended; less than the chunk.
    pub headroom: u32,
    /// NUMA node to take the memory from; any when `None`. In a region: that of the region.
    pub numa_node: Option<u32>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self { chunks: 4096, chunk_size: 2048, headroom: 128, numa_node: None }
    }
}

impl PoolConfig {
    fn object(&self) -> String {
        format!("pool of {} frames of {} bytes", self.chunks, self.chunk_size)
    }

    fn check(&self) -> Result<()> {
        if !(1..=1 << 24).contains(&self.chunks) {
            return Err(Error::usage(self.object(), "a pool holds 1 to 16777216 frames"));
        }
        if self.headroom >= self.chunk_size {
            let cause = format!("{} bytes of headroom fill it", self.headroom);
            return Err(Error::usage(self.object(), cause));
        }
        Ok(())
    }
}

/// The owner's side of a pool. It may move to another thread, but only one thread can use it.
pub struct Pool {
    shared: NonNull<Shared>,
    /// Our own free list: the first chunk, and how many there are.
    head: u32,
    free: u32,
    /// `free` for other threads to read; written once per batch.
    gauge: Arc<AtomicU32>,
}

// SAFETY: the pool is the only user of the free list; what others touch of `Shared` is atomic.
unsafe impl Send for Pool {}

/// What outlives the pool while frames are in use.
#[repr(C)]
struct Shared {
    owner: Owner,
    returns: Arc<Returns>,
    /// One per chunk. A raw pointer, because frames refer to single elements.
    slots: NonNull<Slot>,
    region: Region,
    config: PoolConfig,
}

impl Pool {
    /// Maps and prepares the memory: huge pages where the machine has some, plain ones otherwise.
    ///
    /// # Errors
    /// A shape outside the documented limits; the system refuses the memory.
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

    /// Takes the memory out of `region`, where it stays: it is given back with the region.
    ///
    /// # Errors
    /// A shape outside the documented limits; the region has too little left.
    pub(crate) fn in_region(region: &Region, config: PoolConfig) -> Result<Self> {
        config.check()?;
        if !(GRAIN..=131_072).contains(&config.chunk_size) {
            return Err(Error::usage(config.object(), "the frame size is 2048 to 131072"));
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
        let shared = Box::new(Shared {
            owner: Owner { release },
            returns: Arc::new(returns),
            slots,
            region: region.clone(),
            config,
        });
        let shared = NonNull::from(Box::leak(shared));
        for index in 0..chunks {
            // SAFETY: `carve` gave us this many slots, to which nobody else refers.
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

    /// Adds up to `n` empty frames to `batch`, as far as it has room and the pool has frames;
    /// returns how many.
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

    /// One empty frame; `None` when all are in use.
    pub fn take_one(&mut self) -> Option<Frame> {
        let frame = self.pop()?;
        self.publish();
        Some(frame)
    }

    /// Number of frames the pool was made with.
    pub fn size(&self) -> u32 {
        self.shared().config.chunks
    }

    /// Frames that nobody uses now. Equal to [`Pool::size`] when every frame is back.
    pub fn free(&self) -> u32 {
        self.free + self.shared().returns.count()
    }

    /// What the memory is a part of.
    pub(crate) fn region(&self) -> &Region {
        &self.shared().region
    }

    /// Reads the number of free frames from other threads, also after the pool is gone.
    pub(crate) fn gauge(&self) -> PoolGauge {
        let returns = Arc::clone(&self.shared().returns);
        PoolGauge { size: self.size(), free: Arc::clone(&self.gauge), returns }
    }

    #[inline(always)]
    fn shared(&self) -> &Shared {
        // SAFETY: `Shared` lives at least as long as the pool.
        unsafe { self.shared.as_ref() }
    }

    /// Takes the first chunk of the free list; `None` when all are in use.
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

    /// Takes over what has come back; false if nothing has.
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
        // From here on our own list counts among what came back.
        self.gauge.store(0, Ordering::Relaxed);
        if self.shared().returns.close(self.head, self.free, self.size()) {
            // SAFETY: every frame is back and the pool is going, so nobody refers to it any more.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

/// A reading of a pool from outside: at most one batch old while the pool is in use, exact when it
/// is not or is gone.
#[derive(Clone)]
pub(crate) struct PoolGauge {
    size: u32,
    free: Arc<AtomicU32>,
    returns: Arc<Returns>,
}

impl std::fmt::Debug for PoolGauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolGauge").field("size", &self.size).field("free", &self.free()).finish()
    }
}

impl PoolGauge {
    /// Number of frames in the pool.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Frames not in use.
    pub(crate) fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed) + self.returns.count()
    }
}

/// Puts frames on the returned list; the last one of a pool that is gone frees the memory.
unsafe fn release(owner: NonNull<Owner>, frames: &[NonNull<Meta>]) {
    let shared = owner.cast::<Shared>();
    // SAFETY: frames keep their pool's memory alive, and these are given up by the caller.
    let last = unsafe {
        let returns = &shared.as_ref().returns;
        returns.give(frames.iter().map(|meta| meta.as_ref().index), shared.as_ref().config.chunks)
    };
    if last {
        // SAFETY: the pool is gone and every frame is back: nobody refers to it any more.
        drop(unsafe { Box::from_raw(shared.as_ptr()) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn small() -> Pool {
        let config = PoolConfig { chunks: 8, chunk_size: 256, headroom: 64, numa_node: None };
        Pool::new(config).expect("a small pool")
    }

    #[test]
    fn every_frame_once_and_back_again() {
        let mut pool = small();
        let mut batch = Batch::new(16);
        assert_eq!(pool.take(&mut batch, 16), 8);
        assert_eq!((pool.free(), pool.take_one().is_none()), (0, true));
        let mut starts: Vec<_> = batch.iter().map(|frame| frame.data().as_ptr() as usize).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 256));
        batch.clear();
        assert_eq!(pool.free(), 8);
        assert_eq!(pool.take(&mut batch, 3), 3);
        assert_eq!(pool.free(), 5);
    }

    #[test]
    fn frames_outlive_their_pool() {
        let mut pool = small();
        let mut frame = pool.take_one().unwrap();
        drop(pool);
        assert!(frame.fill(b"still here"));
        let other = std::thread::spawn(move || frame.data().to_vec());
        assert_eq!(other.join().unwrap(), b"still here");
    }

    #[test]
    fn room_before_and_after_the_packet() {
        let mut pool = small();
        let mut frame = pool.take_one().unwrap();
        assert!(frame.fill(&[7; 192]) && !frame.set_len(193));
        assert!(frame.prepend(64) && !frame.prepend(1));
        assert_eq!((frame.len(), frame.headroom()), (256, 0));
        assert!(frame.strip(64) && !frame.strip(193));
        assert_eq!(frame.data(), [7; 192]);
        frame.truncate(10);
        assert_eq!((frame.len(), frame.original_len()), (10, 192));
    }

    #[test]
    fn what_is_left_to_do_stays_with_the_packet() {
        use crate::frame::{Gso, Offload, PartialChecksum};
        let mut pool = small();
        let mut frame = pool.take_one().unwrap();
        assert!(frame.fill(&[7; 100]) && frame.offload().is_none());
        let checksum = Some(PartialChecksum { start: 34, offset: 16 });
        let offload = Offload { gso: Gso::Tcp4, size: 1448, checksum, ..Offload::default() };
        assert!(frame.set_offload(offload) && frame.offload() == Some(offload));
        // It takes a part of the headroom, and counts from the first byte.
        let kept = size_of::<Offload>();
        assert!(!frame.prepend(64 - kept + 1) && frame.prepend(64 - kept));
        let start = |frame: &Frame| frame.offload().unwrap().checksum.unwrap().start as usize;
        assert_eq!(start(&frame), 34 + 64 - kept);
        assert!(frame.strip(64 - kept + 4));
        assert_eq!((start(&frame), frame.len()), (30, 96));
        assert!(frame.set_offload(Offload::default()) && frame.offload().is_none());
        // The next packet in the chunk has none.
        assert!(frame.set_offload(offload));
        drop(frame);
        let mut all = Batch::new(8);
        pool.take(&mut all, 8);
        assert!(all.iter().all(|frame| frame.offload().is_none()));
        let config = PoolConfig { chunks: 1, chunk_size: 256, headroom: 8, numa_node: None };
        let mut frame = Pool::new(config).unwrap().take_one().unwrap();
        assert!(!frame.set_offload(offload) && frame.set_offload(Offload::default()));
    }

    #[test]
    fn a_batch_gives_back_runs_of_several_owners() {
        let (mut a, mut b) = (small(), small());
        let mut batch = Batch::new(16);
        for n in [2, 1, 3] {
            assert_eq!(a.take(&mut batch, n), n);
            assert_eq!(b.take(&mut batch, n), n);
        }
        batch.release_first(4);
        assert_eq!((a.free(), b.free()), (8 - 4, 8 - 4));
        drop(batch);
        assert_eq!((a.free(), b.free()), (8, 8));
    }

    #[test]
    fn frames_return_from_other_threads() {
        let mut pool = small();
        let (mut tx, mut rx) = crate::ring::channel::<Frame>(4);
        let rounds = if cfg!(miri) { 200 } else { 20_000 };
        let consumer = std::thread::spawn(move || {
            let mut got = Vec::new();
            let mut sum = 0u64;
            while !rx.is_finished() {
                rx.receive(&mut got, 3);
                sum += got.drain(..).map(|frame| u64::from(frame.data()[0])).sum::<u64>();
                std::thread::yield_now();
            }
            sum
        });
        let (mut batch, mut sent) = (Batch::new(8), 0u64);
        let mut i = 0u64;
        while i < rounds {
            if let Some(mut frame) = pool.take_one() {
                assert!(frame.fill(&[i as u8]));
                sent += u64::from(i as u8);
                assert!(batch.push(frame).is_ok());
                i += 1;
            }
            while !batch.is_empty() {
                tx.send(batch.as_vec());
            }
        }
        drop(tx);
        assert_eq!(consumer.join().unwrap(), sent);
        assert_eq!(pool.free(), pool.size());
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (chunks, chunk_size, headroom) in [(0, 2048, 0), (8, 1000, 0), (8, 256, 256)] {
            let config = PoolConfig { chunks, chunk_size, headroom, numa_node: None };
            assert!(Pool::new(config).is_err());
        }
    }
}
