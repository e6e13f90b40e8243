//! The mapped rings of a socket.

use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::uapi::{
    XDP_RING_NEED_WAKEUP, XdpDesc, XdpMmapOffsets, XdpRingOffset, option, page_offset,
};
use crate::error::{OsError, Result};
use crate::mmap::Mapping;

/// The kind of ring: [`Fill`], [`Rx`], [`Tx`] or [`Completion`].
pub trait RingKind: sealed::Sealed + 'static {
    /// The elements of the ring.
    type Element: Copy;
    #[doc(hidden)]
    const OPTION: (i32, &'static str);
    #[doc(hidden)]
    const PAGE: u64;
    #[doc(hidden)]
    fn offsets(all: &XdpMmapOffsets) -> XdpRingOffset;
}

/// A ring that user space fills and the kernel empties.
pub trait Produced: RingKind {}

/// A ring that the kernel fills and user space empties.
pub trait Consumed: RingKind {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! ring_kinds {
    ($($(#[$doc:meta])* $kind:ident: $side:ident<$element:ty>, $option:ident, $page:ident, $offset:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl sealed::Sealed for $kind {}
        impl $side for $kind {}
        impl RingKind for $kind {
            type Element = $element;
            const OPTION: (i32, &'static str) =
                (option::$option, concat!("setsockopt XDP_", stringify!($option)));
            const PAGE: u64 = page_offset::$page;

            fn offsets(all: &XdpMmapOffsets) -> XdpRingOffset {
                all.$offset
            }
        }
    )+};
}

ring_kinds! {
    /// Chunks to receive into, as addresses.
    Fill: Produced<u64>, UMEM_FILL_RING, FILL_RING, fr;
    /// Packets received.
    Rx: Consumed<XdpDesc>, RX_RING, RX_RING, rx;
    /// Packets to send.
    Tx: Produced<XdpDesc>, TX_RING, TX_RING, tx;
    /// Packets sent, as addresses.
    Completion: Consumed<u64>, UMEM_COMPLETION_RING, COMPLETION_RING, cr;
}

/// A ring shared with the kernel. It owns the mapping. The two indices decide which side may access
/// an element, and the wrapping type enforces that.
#[derive(Debug)]
pub struct MappedRing<K: RingKind> {
    _memory: Mapping,
    size: u32,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    elements: NonNull<K::Element>,
}

// SAFETY: it owns its mapping, and what it reads by itself is atomic.
unsafe impl<K: RingKind> Send for MappedRing<K> {}
// SAFETY: as above.
unsafe impl<K: RingKind> Sync for MappedRing<K> {}

impl<K: RingKind> MappedRing<K> {
    pub(super) fn new(fd: BorrowedFd<'_>, size: u32, offsets: &XdpMmapOffsets) -> Result<Self> {
        let offsets = K::offsets(offsets);
        let wrong = || OsError::from_errno("getsockopt XDP_MMAP_OFFSETS", "", libc::EINVAL);
        let position = |offset: u64| usize::try_from(offset).map_err(|_| wrong());
        let elements = position(offsets.desc)?;
        let bytes = size as usize * size_of::<K::Element>();
        let len = elements.checked_add(bytes).ok_or_else(wrong)?;
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let is_word = |offset: &u64| offset.is_multiple_of(4) && *offset < offsets.desc;
        if !words.iter().all(is_word) || elements % 8 != 0 || size == 0 {
            return Err(wrong());
        }
        let memory = Mapping::of_fd(fd, len, K::PAGE, true)?;
        let base = memory.as_non_null();
        let word = |offset| -> Result<NonNull<AtomicU32>> {
            // SAFETY: below `desc` and so inside the mapping, by the check above.
            Ok(unsafe { base.add(position(offset)?) }.cast())
        };
        Ok(Self {
            producer: word(offsets.producer)?,
            consumer: word(offsets.consumer)?,
            flags: word(offsets.flags)?,
            // SAFETY: the mapping is longer.
            elements: unsafe { base.add(elements) }.cast(),
            _memory: memory,
            size,
        })
    }

    /// The producer's index; valid as long as the ring.
    pub fn producer(&self) -> NonNull<AtomicU32> {
        self.producer
    }

    /// The consumer's index; valid as long as the ring.
    pub fn consumer(&self) -> NonNull<AtomicU32> {
        self.consumer
    }

    /// Number of elements, a power of two.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Elements produced and not consumed. Any thread may call this.
    pub fn occupied(&self) -> u32 {
        // SAFETY: words of the mapping, which the kernel uses as atomics, too.
        let (consumer, producer) = unsafe {
            let consumer = self.consumer.as_ref().load(Ordering::Acquire);
            (consumer, self.producer.as_ref().load(Ordering::Acquire))
        };
        producer.wrapping_sub(consumer).min(self.size)
    }

    /// Whether the kernel sleeps and must be woken up for this ring; valid only if the socket is
    /// bound with `XDP_USE_NEED_WAKEUP`.
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: a word of the mapping.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }
}

impl<K: Consumed> MappedRing<K> {
    /// The element in `slot`.
    ///
    /// # Safety
    /// The slot belongs to the ring, and its indices permit us to read it.
    #[inline(always)]
    pub unsafe fn read(&self, slot: usize) -> K::Element {
        debug_assert!(slot < self.size as usize);
        // SAFETY: inside the mapping and aligned; any bytes are a valid element.
        unsafe { self.elements.add(slot).read() }
    }
}

impl<K: Produced> MappedRing<K> {
    /// Writes the element in `slot`.
    ///
    /// # Safety
    /// The slot belongs to the ring, and its indices permit us to write it.
    #[inline(always)]
    pub unsafe fn write(&self, slot: usize, element: K::Element) {
        debug_assert!(slot < self.size as usize);
        // SAFETY: inside the mapping and aligned.
        unsafe { self.elements.add(slot).write(element) }
    }
}
