//! The handle to one packet: whoever has it owns the bytes.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use super::marks::Marks;
use super::meta::{Meta, release_run};
use crate::mask::Class;

/// One received or to-be-sent packet. See the [module documentation](crate::frame).
#[repr(transparent)]
pub struct Frame(NonNull<Meta>);

// SAFETY: a frame is the only handle to its meta and chunk, and owners take memory back from any
// thread.
unsafe impl Send for Frame {}
// SAFETY: through a shared reference everything is read-only.
unsafe impl Sync for Frame {}

impl Frame {
    /// Makes the handle for `meta`.
    ///
    /// # Safety
    /// `meta` is initialised, describes memory that nobody else uses, and no other handle to it
    /// exists until its owner has it back.
    #[inline(always)]
    pub(crate) unsafe fn new(meta: NonNull<Meta>) -> Self {
        Self(meta)
    }

    #[inline(always)]
    pub(super) fn meta(&self) -> &Meta {
        // SAFETY: valid and ours by `new`'s contract.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(super) fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: valid and only ours by `new`'s contract.
        unsafe { self.0.as_mut() }
    }

    /// Gives up the handle but keeps the memory: the receiver of the pointer owns the frame until
    /// [`Frame::new`] makes it one again.
    #[inline(always)]
    pub(crate) fn into_meta(self) -> NonNull<Meta> {
        std::mem::ManuallyDrop::new(self).0
    }

    /// The bytes of the packet, from the Ethernet header on, without the frame check sequence.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        let meta = self.meta();
        // SAFETY: `data .. data + len` lies in memory that this handle owns.
        unsafe { std::slice::from_raw_parts(meta.data.as_ptr(), meta.len as usize) }
    }

    /// The bytes of the packet, writable.
    ///
    /// A checksum may be *partial*: then its field holds the sum of the pseudo-header, and a device
    /// or a segmenter completes it ([`Frame::offload`]). To change addresses or ports use the
    /// setters, such as [`Frame::set_ipv4_source`], or [`Frame::packet_mut`]: they keep both kinds
    /// right. After changes to a packet with a partial checksum by other means, that sum must still
    /// be the one of the pseudo-header.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let meta = self.meta_mut();
        // SAFETY: `data .. data + len` lies in memory that this handle alone owns.
        unsafe { std::slice::from_raw_parts_mut(meta.data.as_ptr(), meta.len as usize) }
    }

    /// Bytes present.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether no byte is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the packet had on the wire; more than [`Frame::len`] if the snap length cut it.
    #[inline(always)]
    pub fn original_len(&self) -> u32 {
        self.meta().original_len
    }

    /// When the port saw it: nanoseconds since the Unix epoch, 0 if the port keeps no time.
    #[inline(always)]
    pub fn timestamp(&self) -> u64 {
        self.meta().timestamp
    }

    /// The queue it came through; `None` for a packet that is tied to no queue ([`Class::Other`]).
    #[inline(always)]
    pub fn queue(&self) -> Option<u16> {
        (self.class() != Class::Other).then_some(self.queue_number())
    }

    /// As [`Frame::queue`], and the number under which its port has it if it is tied to none.
    #[inline(always)]
    pub(crate) fn queue_number(&self) -> u16 {
        self.meta().queue
    }

    /// Whether it was received, transmitted by the host, or tied to no queue.
    #[inline(always)]
    pub fn class(&self) -> Class {
        self.meta().class
    }

    /// Bytes before the packet that belong to the frame, including metadata kept there.
    #[inline(always)]
    pub(crate) fn before(&self) -> usize {
        self.meta().headroom as usize
    }

    /// The first byte of the headroom.
    #[inline(always)]
    pub(super) fn start(&self) -> NonNull<u8> {
        let meta = self.meta();
        // SAFETY: `headroom` bytes before `data` belong to this frame.
        unsafe { meta.data.sub(meta.headroom as usize) }
    }

    /// Bytes that [`Frame::set_len`] can reach.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.meta().room as usize
    }

    /// Makes the packet `len` bytes long, cutting or extending it at the end. Bytes gained have
    /// no defined content, but are initialised. Returns false, and changes nothing, if `len`
    /// exceeds [`Frame::capacity`].
    #[inline]
    #[must_use = "a frame that is too long was not changed"]
    pub fn set_len(&mut self, len: usize) -> bool {
        let meta = self.meta_mut();
        let fits = len <= meta.room as usize;
        if fits {
            meta.len = len as u32;
            meta.original_len = len as u32;
        }
        fits
    }

    /// Replaces the packet by `bytes`, without pending offloads or hints. False, and nothing
    /// changed, if they do not fit.
    #[must_use = "bytes that do not fit were not copied"]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let fits = self.set_len(bytes.len());
        if fits {
            self.data_mut().copy_from_slice(bytes);
            self.meta_mut().marks = Marks::NONE;
        }
        fits
    }

    /// Sets the time of a packet that a program has made, in nanoseconds since 1970: a file that it
    /// is sent to keeps it.
    #[inline]
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.meta_mut().timestamp = timestamp;
    }

    /// Sets the metadata that a port or generator knows.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, timestamp: u64, queue: u16, class: Class) {
        let meta = self.meta_mut();
        meta.timestamp = timestamp;
        meta.queue = queue;
        meta.class = class;
    }

    /// The time is valid although it is 0: the beginning of 1970.
    #[cold]
    pub(crate) fn keep_time(&mut self) {
        let meta = self.meta_mut();
        meta.marks = meta.marks.with(Marks::TIMED);
    }

    /// Whether a port has set the time.
    pub(crate) fn has_time(&self) -> bool {
        self.meta().timestamp != 0 || self.meta().marks.has(Marks::TIMED)
    }

    /// Sets the wire length of a packet that was truncated before.
    #[inline(always)]
    pub(crate) fn set_original_len(&mut self, len: u32) {
        self.meta_mut().original_len = len;
    }

    /// Keeps the wire length while the bytes are cut to a snap length.
    pub(crate) fn truncate(&mut self, snaplen: usize) {
        let meta = self.meta_mut();
        meta.len = meta.len.min(u32::try_from(snaplen).unwrap_or(u32::MAX));
    }
}

impl AsMut<[u8]> for Frame {
    /// As [`Frame::data_mut`].
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the handle goes.
        unsafe { release_run(&[self.0]) };
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("len", &self.len())
            .field("class", &self.class())
            .field("queue", &self.queue())
            .field("timestamp", &self.timestamp())
            .finish_non_exhaustive()
    }
}
