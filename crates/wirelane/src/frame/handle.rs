//! The handle to one packet, which owns the packet's memory.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;

use super::marks::Marks;
use super::meta::{Meta, release_run};
use crate::mask::Class;
use crate::pcap::{Direction, Record};

/// A packet. See the [module documentation](crate::frame).
#[repr(transparent)]
pub struct Frame(NonNull<Meta>);

// SAFETY: a frame is the only handle to its meta and chunk, and owners take memory back from any
// thread.
unsafe impl Send for Frame {}
// SAFETY: through a shared reference everything is read-only.
unsafe impl Sync for Frame {}

impl Frame {
    /// Creates the handle for `meta`.
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

    /// Gives up the handle and keeps the memory: the receiver of the pointer owns the frame, and
    /// [`Frame::new`] creates its handle again.
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

    /// The bytes of the packet, for writing.
    ///
    /// A checksum may be *partial*: its field then contains the sum of the pseudo-header, and a
    /// device or a segmenter completes it ([`Frame::offload`]). To change addresses or ports, use
    /// the setters, such as [`Frame::set_ipv4_source`], or [`Frame::packet_mut`]: they update both
    /// kinds. If other code changes a packet with a partial checksum, the field must still contain
    /// the sum of the pseudo-header.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let meta = self.meta_mut();
        // SAFETY: `data .. data + len` lies in memory that this handle alone owns.
        unsafe { std::slice::from_raw_parts_mut(meta.data.as_ptr(), meta.len as usize) }
    }

    /// Number of captured bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length on the wire; more than [`Frame::len`] if the snap length truncated it.
    #[inline(always)]
    pub fn original_len(&self) -> u32 {
        self.meta().original_len
    }

    /// Time of capture in nanoseconds since the Unix epoch; 0 if the port has no time.
    #[inline(always)]
    pub fn timestamp(&self) -> u64 {
        self.meta().timestamp
    }

    /// The queue that it passed; `None` for a packet without a queue ([`Class::Other`]).
    #[inline(always)]
    pub fn queue(&self) -> Option<u16> {
        (self.class() != Class::Other).then_some(self.queue_number())
    }

    /// Like [`Frame::queue`], or the port's number for packets without a queue.
    #[inline(always)]
    pub(crate) fn queue_number(&self) -> u16 {
        self.meta().queue
    }

    /// Whether it was received, transmitted by the host, or has no queue.
    #[inline(always)]
    pub fn class(&self) -> Class {
        self.meta().class
    }

    /// The packet of a capture file, for
    /// [`CaptureWriter::write`](crate::pcap::CaptureWriter::write). `interface` is the index of its
    /// interface in the file.
    pub fn as_record(&self, interface: u32) -> Record<'_> {
        Record {
            interface,
            timestamp: self.timestamp(),
            original_len: self.original_len(),
            direction: match self.class() {
                Class::Rx => Direction::Inbound,
                Class::Tx => Direction::Outbound,
                Class::Other => Direction::Unknown,
            },
            data: self.data(),
        }
    }

    /// Bytes before the packet that belong to the frame, including stored metadata.
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

    /// The largest length for [`Frame::set_len`].
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.meta().room as usize
    }

    /// Truncates or extends the packet at its end to `len` bytes. Added bytes have no defined
    /// content, but are initialised. False, without a change, if `len` exceeds [`Frame::capacity`].
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

    /// Replaces the packet by `bytes`, without pending offloads or hints. False, without a change,
    /// if they do not fit.
    #[must_use = "bytes that do not fit were not copied"]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let fits = self.set_len(bytes.len());
        if fits {
            self.data_mut().copy_from_slice(bytes);
            self.meta_mut().marks = Marks::NONE;
        }
        fits
    }

    /// Sets the time of a packet, in nanoseconds since 1970, for packets that a program makes. A
    /// capture file stores it.
    #[inline]
    pub fn set_timestamp(&mut self, timestamp: u64) {
        self.meta_mut().timestamp = timestamp;
    }

    /// Sets the metadata of a port or generator.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, timestamp: u64, queue: u16, class: Class) {
        let meta = self.meta_mut();
        meta.timestamp = timestamp;
        meta.queue = queue;
        meta.class = class;
    }

    /// Marks a time of 0 as valid: the beginning of 1970.
    #[cold]
    pub(crate) fn keep_time(&mut self) {
        let meta = self.meta_mut();
        meta.marks = meta.marks.with(Marks::TIMED);
    }

    /// Whether a port has set the time.
    pub(crate) fn has_time(&self) -> bool {
        self.meta().timestamp != 0 || self.meta().marks.has(Marks::TIMED)
    }

    /// Sets the wire length of a truncated packet.
    #[inline(always)]
    pub(crate) fn set_original_len(&mut self, len: u32) {
        self.meta_mut().original_len = len;
    }

    /// Truncates the bytes to a snap length, and keeps the wire length.
    pub(crate) fn truncate(&mut self, snaplen: usize) {
        let meta = self.meta_mut();
        meta.len = meta.len.min(u32::try_from(snaplen).unwrap_or(u32::MAX));
    }
}

impl AsMut<[u8]> for Frame {
    /// Like [`Frame::data_mut`].
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
