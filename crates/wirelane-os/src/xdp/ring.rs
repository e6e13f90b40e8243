//! The rings of a socket, as the kernel maps them.

use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::uapi::{XDP_RING_NEED_WAKEUP, XdpDesc, XdpMmapOffsets, option, page_offset};
use crate::error::{OsError, Result};
use crate::mmap::Mapping;

/// Which of the four rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// Chunks to receive into; we produce addresses.
    Fill,
    /// Packets received; we consume descriptors.
    Rx,
    /// Packets to send; we produce descriptors.
    Tx,
    /// Packets sent; we consume addresses.
    Completion,
}

impl RingKind {
    pub(super) fn option(self) -> (i32, &'static str) {
        match self {
            Self::Fill => (option::UMEM_FILL_RING, "setsockopt XDP_UMEM_FILL_RING"),
            Self::Rx => (option::RX_RING, "setsockopt XDP_RX_RING"),
            Self::Tx => (option::TX_RING, "setsockopt XDP_TX_RING"),
            Self::Completion => {
                (option::UMEM_COMPLETION_RING, "setsockopt XDP_UMEM_COMPLETION_RING")
            }
        }
    }

    /// Bytes of an element.
    const fn element(self) -> usize {
        match self {
            Self::Fill | Self::Completion => size_of::<u64>(),
            Self::Rx | Self::Tx => size_of::<XdpDesc>(),
        }
    }
}

/// A ring shared with the kernel. It owns the mapping; who may touch which element is decided by the two
/// indices, and is the business of whoever wraps it.
#[derive(Debug)]
pub struct MappedRing {
    _memory: Mapping,
    kind: RingKind,
    size: u32,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    elements: NonNull<u8>,
}

// SAFETY: it owns its mapping, and what it reads by itself is atomic.
unsafe impl Send for MappedRing {}
// SAFETY: as above.
unsafe impl Sync for MappedRing {}

impl MappedRing {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
        offsets: &XdpMmapOffsets,
    ) -> Result<Self> {
        let (offsets, page) = match kind {
            RingKind::Fill => (offsets.fr, page_offset::FILL_RING),
            RingKind::Rx => (offsets.rx, page_offset::RX_RING),
            RingKind::Tx => (offsets.tx, page_offset::TX_RING),
            RingKind::Completion => (offsets.cr, page_offset::COMPLETION_RING),
        };
        let wrong = || OsError::from_errno("getsockopt XDP_MMAP_OFFSETS", "", libc::EINVAL);
        let position = |offset: u64| usize::try_from(offset).map_err(|_| wrong());
        let elements = position(offsets.desc)?;
        let bytes = size as usize * kind.element();
        let len = elements.checked_add(bytes).ok_or_else(wrong)?;
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let is_word = |offset: &u64| offset.is_multiple_of(4) && *offset < offsets.desc;
        if !words.iter().all(is_word) || elements % 8 != 0 || size == 0 {
            return Err(wrong());
        }
        let memory = Mapping::of_fd(fd, len, page, true)?;
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
            elements: unsafe { base.add(elements) },
            _memory: memory,
            kind,
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

    /// Elements produced and not consumed, as anybody may ask.
    pub fn occupied(&self) -> u32 {
        // SAFETY: words of the mapping, which the kernel uses as atomics, too.
        let (consumer, producer) = unsafe {
            let consumer = self.consumer.as_ref().load(Ordering::Acquire);
            (consumer, self.producer.as_ref().load(Ordering::Acquire))
        };
        producer.wrapping_sub(consumer).min(self.size)
    }

    /// Whether the kernel sleeps and must be woken up for this ring; only meant if the socket is bound with
    /// `XDP_USE_NEED_WAKEUP`.
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        // SAFETY: a word of the mapping.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }

    /// The descriptor in `slot` of an RX ring.
    ///
    /// # Safety
    /// The ring is one of descriptors, and by its indices the slot is the caller's to read.
    #[inline(always)]
    pub unsafe fn descriptor(&self, slot: usize) -> XdpDesc {
        debug_assert!(slot < self.size as usize && self.kind == RingKind::Rx);
        // SAFETY: inside the mapping and aligned; any bytes are a valid descriptor.
        unsafe { self.elements.cast::<XdpDesc>().add(slot).read() }
    }

    /// Writes the descriptor in `slot` of a TX ring.
    ///
    /// # Safety
    /// The ring is one of descriptors, and by its indices the slot is the caller's to write.
    #[inline(always)]
    pub unsafe fn set_descriptor(&self, slot: usize, descriptor: XdpDesc) {
        debug_assert!(slot < self.size as usize && self.kind == RingKind::Tx);
        // SAFETY: inside the mapping and aligned.
        unsafe { self.elements.cast::<XdpDesc>().add(slot).write(descriptor) }
    }

    /// The address in `slot` of a completion ring.
    ///
    /// # Safety
    /// The ring is one of addresses, and by its indices the slot is the caller's to read.
    #[inline(always)]
    pub unsafe fn address(&self, slot: usize) -> u64 {
        debug_assert!(slot < self.size as usize && self.kind == RingKind::Completion);
        // SAFETY: inside the mapping and aligned.
        unsafe { self.elements.cast::<u64>().add(slot).read() }
    }

    /// Writes the address in `slot` of a fill ring.
    ///
    /// # Safety
    /// The ring is one of addresses, and by its indices the slot is the caller's to write.
    #[inline(always)]
    pub unsafe fn set_address(&self, slot: usize, address: u64) {
        debug_assert!(slot < self.size as usize && self.kind == RingKind::Fill);
        // SAFETY: inside the mapping and aligned.
        unsafe { self.elements.cast::<u64>().add(slot).write(address) }
    }
}
