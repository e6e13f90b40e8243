//! Memory that several pools share, and the table that maps its addresses to frames.
//!
//! ```text
//!   memory   │ pool A: 2048-byte chunks │ pool B: 2048 │ pool C: 16384-byte chunks │ free       │
//!   grains   │0│1│2│3│ …                                                                        │
//!   slots    one cache line per chunk: its Meta, its offset, and its state in flight
//! ```
//!
//! A kernel with this memory registered refers to packets by their offset from its start. A grain
//! is a part of the memory no larger than the smallest chunk. The table of grains maps each grain
//! to its chunk, so that finding the frame of an offset takes a shift and a load.
//!
//! A chunk without a [`Frame`] may be *in flight* in a ring of a socket, which a [`Tag`]
//! identifies. An offset from a ring becomes a frame only if the chunk is in flight in the same
//! ring. So no driver error can create two frames of one chunk.
//!
//! A frame's address is its offset from the start of the region, so any socket that has registered
//! the region can send the frame in place. While the kernel has a chunk, no frame for it exists.
//! Closing a socket returns the chunks of its rings.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use wirelane_os::mmap::{HUGE_PAGE, Mapping, Options, PageKind, page_size};

use crate::error::{Error, Result};
use crate::frame::{Frame, Marks, Meta};
use crate::memory;
use crate::sync::{Arc, AtomicBool, AtomicU32, Mutex, Ordering};

/// Bytes of a grain of a shared region: the minimum size of a UMEM chunk.
pub(super) const GRAIN: u32 = 2048;

/// A handle to a mapping from which pools take their chunks. The mapping ends with the last handle,
/// pool and frame.
#[derive(Clone)]
pub(crate) struct Region(Arc<RegionMapping>);

struct RegionMapping {
    memory: Mapping,
    shift: u32,
    /// For each grain, the slot of the chunk that covers its first byte or, if there is none,
    /// starts in it.
    grains: Box<[AtomicU32]>,
    /// As many as grains: each chunk has at least one.
    slots: NonNull<ChunkSlot>,
    /// Whether some chunk starts in the middle of a grain.
    unaligned: AtomicBool,
    /// The first byte that no pool has taken.
    carved: Mutex<usize>,
    tags: AtomicU32,
}

// SAFETY: a slot belongs to the owner of its chunk; everything else is atomic, locked or constant.
unsafe impl Send for RegionMapping {}
// SAFETY: as above.
unsafe impl Sync for RegionMapping {}

/// The state of a chunk. `meta` is at offset 0, so a pointer to one is a pointer to the other.
#[repr(C, align(64))]
pub(super) struct ChunkSlot {
    meta: Meta,
    /// Offset of the chunk; atomic because a lookup may read the neighbour's.
    chunk: std::sync::atomic::AtomicU64,
    size: u32,
    /// The ring in which the chunk is in flight, and its number of pieces: 0, or
    /// `tag:24 | pieces:8`.
    in_flight: std::sync::atomic::AtomicU32,
}

const _: () = assert!(size_of::<ChunkSlot>() == 64);

impl ChunkSlot {
    /// Offset of the chunk in its region.
    #[inline(always)]
    pub(super) fn chunk(&self) -> usize {
        self.chunk.load(Ordering::Relaxed) as usize
    }

    /// Bytes of the chunk.
    pub(super) fn size(&self) -> u32 {
        self.size
    }
}

/// Identifies a ring in which frames are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

/// The meaning of an address from a ring.
#[derive(Debug)]
pub(crate) enum Returned {
    /// The complete frame.
    Frame(Frame),
    /// A piece of a frame; others are still in flight.
    Piece,
    /// No frame in flight in this ring.
    Stranger,
}

/// No chunk.
const NONE: u32 = u32::MAX;
const PIECES: u32 = 8;

impl Region {
    /// The most bytes of a region, so that 32 bits can count its chunks.
    const MOST: usize = 1 << 40;

    /// Maps `bytes`, rounded up to whole pages: huge pages if the machine has some.
    ///
    /// # Errors
    /// There is too little memory. This is checked first, because a process that takes too much is
    /// killed.
    pub(crate) fn new(bytes: usize, numa_node: Option<u32>) -> Result<Self> {
        Self::with_grain(|| format!("frame memory of {bytes} bytes"), bytes, GRAIN, numa_node)
    }

    /// The most bytes of a region that a pool of this configuration takes.
    pub(crate) fn bytes_for(chunks: u32, chunk_size: u32) -> usize {
        let size = chunk_size as usize;
        // The end of a huge page is lost if the next chunk would cross it.
        let packed = if chunk_size.is_power_of_two() {
            chunks as usize * size
        } else {
            (chunks as usize).div_ceil(HUGE_PAGE / size) * HUGE_PAGE
        };
        packed + chunk_size.next_power_of_two().max(page_size() as u32) as usize
    }

    /// Like [`Region::new`], for `object`.
    pub(super) fn with_grain(
        object: impl Fn() -> String,
        bytes: usize,
        grain: u32,
        numa_node: Option<u32>,
    ) -> Result<Self> {
        let bytes = bytes.min(Self::MOST);
        let shift = grain.ilog2();
        let per_grain = size_of::<ChunkSlot>() + size_of::<AtomicU32>();
        let _alone = memory::ask(&object, bytes + (bytes >> shift) * per_grain)?;
        let failed = |error| Error::os(object(), error);
        let options = Options { prefault: true, numa_node, no_huge: false };
        let (memory, _) = Mapping::anonymous(bytes, options).map_err(failed)?;
        let count = memory.len() >> shift;
        let none = || Error::failed(object(), "there is no memory for the state of each frame");
        let mut grains = Vec::new();
        grains.try_reserve_exact(count).map_err(|_| none())?;
        grains.extend((0..count).map(|_| AtomicU32::new(NONE)));
        // SAFETY: the layout is not empty, as no mapping is, and a grain is at most a page or the
        // chunk that the mapping was made for.
        let slots = NonNull::new(unsafe { alloc_zeroed(Self::layout(count)) }).ok_or_else(none)?;
        Ok(Self(Arc::new(RegionMapping {
            memory,
            shift,
            grains: grains.into(),
            slots: slots.cast(),
            unaligned: AtomicBool::new(false),
            carved: Mutex::new(0),
            tags: AtomicU32::new(1),
        })))
    }

    /// Bytes that no pool has taken.
    pub(crate) fn left(&self) -> usize {
        let carved = self.0.carved.lock().map(|carved| *carved);
        carved.map_or(0, |carved| self.0.memory.len().saturating_sub(carved))
    }

    /// Bytes of the region.
    pub(crate) fn size(&self) -> usize {
        self.0.memory.len()
    }

    /// Whether both are handles to the same region.
    pub(crate) fn is_same(&self, other: &Region) -> bool {
        std::ptr::eq(self.base().as_ptr(), other.base().as_ptr())
    }

    /// The kind of pages of the memory.
    pub(crate) fn kind(&self) -> PageKind {
        self.0.memory.kind()
    }

    /// The first byte.
    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.memory.as_non_null()
    }

    /// A tag for a ring, unique in the region; `None` after 2²⁴ tags.
    pub(crate) fn tag(&self) -> Option<Tag> {
        let tag = self.0.tags.fetch_add(1, Ordering::Relaxed);
        (tag < 1 << (u32::BITS - PIECES)).then_some(Tag(tag))
    }

    /// Offset of the packet of `frame`, if it is in this region.
    #[inline(always)]
    pub(crate) fn address(&self, frame: &Frame) -> Option<u64> {
        let data = frame.data();
        let offset = (data.as_ptr() as usize).wrapping_sub(self.base().as_ptr() as usize);
        (offset < self.0.memory.len()).then_some(offset as u64)
    }

    /// Puts `frame` in flight in the ring `tag`, in `pieces` pieces (1 to 255): this number of
    /// addresses in it must be returned. Returns the offset of its chunk.
    ///
    /// # Safety
    /// The frame is of this region: [`Region::address`] knows where it lies, or its pool was carved
    /// from it.
    #[inline(always)]
    pub(crate) unsafe fn lend(&self, frame: Frame, tag: Tag, pieces: u32) -> u64 {
        debug_assert!(self.address(&frame).is_some() && (1..256).contains(&pieces));
        let slot = frame.into_meta().cast::<ChunkSlot>().as_ptr();
        // SAFETY: metas of this region are the first field of slots; these fields are atomic.
        unsafe {
            (*slot).in_flight.store(tag.0 << PIECES | pieces, Ordering::Relaxed);
            (*slot).chunk.load(Ordering::Relaxed)
        }
    }

    /// Takes back the chunk at `address`.
    ///
    /// # Safety
    /// The kernel has given the address back through the ring `tag`, and no longer uses the chunk.
    #[inline(always)]
    pub(crate) unsafe fn take_back(&self, address: u64, tag: Tag) -> Returned {
        let Some(slot) = self.slot(address) else { return Returned::Stranger };
        // SAFETY: `slot` gives slots of chunks; this field is atomic.
        let in_flight = unsafe { &(*slot.as_ptr()).in_flight };
        let held = in_flight.load(Ordering::Relaxed);
        if held >> PIECES != tag.0 {
            return Returned::Stranger;
        }
        if held == tag.0 << PIECES | 1 {
            in_flight.store(0, Ordering::Relaxed);
            // SAFETY: it was in flight, so `lend` gave it up, and now it is not.
            return Returned::Frame(unsafe { Frame::new(slot.cast::<Meta>()) });
        }
        in_flight.store(held - 1, Ordering::Relaxed);
        Returned::Piece
    }

    /// Takes back a chunk with a packet of `len` bytes at `address`. `None` if the chunk is not in
    /// flight in the ring `tag`, or the packet would not be inside it.
    ///
    /// # Safety
    /// As for [`Region::take_back`].
    #[inline(always)]
    pub(crate) unsafe fn receive(&self, address: u64, len: u32, tag: Tag) -> Option<Frame> {
        let slot = self.slot(address)?.as_ptr();
        // SAFETY: `slot` gives slots of chunks. This field is atomic; the others are only used once
        // it says that the chunk is in flight, so that there is no frame of it.
        unsafe {
            if (*slot).in_flight.load(Ordering::Relaxed) != tag.0 << PIECES | 1 {
                return None;
            }
            let size = (*slot).size;
            let offset = address.checked_sub((*slot).chunk.load(Ordering::Relaxed))?;
            let headroom = u32::try_from(offset).ok()?;
            let room = size.checked_sub(headroom)?;
            if len > room {
                return None;
            }
            (*slot).in_flight.store(0, Ordering::Relaxed);
            let meta = slot.cast::<Meta>();
            (*meta).data = self.base().add(address as usize);
            (*meta).len = len;
            (*meta).original_len = len;
            (*meta).headroom = headroom;
            (*meta).room = room;
            (*meta).marks = Marks::NONE;
            Some(Frame::new(NonNull::new_unchecked(meta)))
        }
    }

    /// Takes back all frames in flight in the ring `tag`, and returns their number.
    ///
    /// # Safety
    /// The kernel no longer uses the ring, nor what is in flight in it.
    pub(crate) unsafe fn reclaim(&self, tag: Tag) -> u64 {
        let mut frames = 0;
        for grain in 0..self.0.grains.len() {
            // SAFETY: there are as many slots as grains, and this field is atomic. It is zero in
            // those that no pool has.
            let slot = unsafe { self.0.slots.add(grain) };
            // SAFETY: as above.
            let in_flight = unsafe { &(*slot.as_ptr()).in_flight };
            if in_flight.load(Ordering::Relaxed) >> PIECES == tag.0 {
                in_flight.store(0, Ordering::Relaxed);
                // SAFETY: it was in flight, so `lend` gave it up, and now it is not.
                drop(unsafe { Frame::new(slot.cast::<Meta>()) });
                frames += 1;
            }
        }
        frames
    }

    /// The slots of `count` new chunks of `size` bytes, in order; `None` if there is too little
    /// memory. Chunks whose size is not a power of two are contiguous, but do not cross a huge
    /// page.
    pub(super) fn carve(&self, count: u32, size: u32) -> Option<NonNull<ChunkSlot>> {
        let inner = &*self.0;
        let mut carved = inner.carved.lock().ok()?;
        let align = if size.is_power_of_two() { size as usize } else { page_size() };
        let start = carved.checked_next_multiple_of(align.max(1 << inner.shift))?;
        let size = size as usize;
        let place = |chunk: usize| {
            let crosses = chunk / HUGE_PAGE != (chunk + size - 1) / HUGE_PAGE;
            if crosses && size < HUGE_PAGE { chunk.next_multiple_of(HUGE_PAGE) } else { chunk }
        };
        let last = (1..count).fold(place(start), |chunk, _| place(chunk + size));
        let end = last.checked_add(size).filter(|end| *end <= inner.memory.len())?;
        let first = start >> inner.shift;
        let mut chunk = place(start);
        for i in 0..count as usize {
            let index = first + i;
            // SAFETY: a chunk has at least one grain, so the index is below the number of slots;
            // nothing else refers to this one, because no frame of it exists.
            unsafe {
                let slot = inner.slots.add(index).as_ptr();
                (*slot).size = size as u32;
                (*slot).chunk.store(chunk as u64, Ordering::Relaxed);
            }
            for grain in chunk >> inner.shift..=(chunk + size - 1) >> inner.shift {
                // The chunk that covers the grain's first byte was entered first.
                if inner.grains[grain].load(Ordering::Relaxed) == NONE {
                    inner.grains[grain].store(index as u32, Ordering::Relaxed);
                }
            }
            chunk = place(chunk + size);
        }
        if !size.is_multiple_of(1 << inner.shift) {
            inner.unaligned.store(true, Ordering::Relaxed);
        }
        *carved = end.next_multiple_of(page_size());
        // SAFETY: as above.
        Some(unsafe { inner.slots.add(first) })
    }

    /// The slot of the chunk at `address`.
    #[inline(always)]
    fn slot(&self, address: u64) -> Option<NonNull<ChunkSlot>> {
        let inner = &*self.0;
        let grain = usize::try_from(address >> inner.shift).ok()?;
        let mut index = inner.grains.get(grain)?.load(Ordering::Relaxed) as usize;
        if index >= inner.grains.len() {
            return None;
        }
        if inner.unaligned.load(Ordering::Relaxed) && index + 1 < inner.grains.len() {
            // SAFETY: there are as many slots as grains; this field is atomic, and beyond every
            // address in this chunk where the next slot is that of another pool.
            let next = unsafe { (*inner.slots.add(index + 1).as_ptr()).chunk() } as u64;
            if next > (grain << inner.shift) as u64 && next <= address {
                index += 1;
            }
        }
        // SAFETY: as above.
        Some(unsafe { inner.slots.add(index) })
    }

    fn layout(slots: usize) -> Layout {
        Layout::array::<ChunkSlot>(slots).unwrap_or(Layout::new::<ChunkSlot>())
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Drop for RegionMapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; slots own nothing, and no frame refers to one.
        unsafe { dealloc(self.slots.as_ptr().cast(), Region::layout(self.grains.len())) };
    }
}

#[cfg(all(test, not(loom)))]
#[path = "region_tests.rs"]
mod tests;
