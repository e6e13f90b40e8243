//! The move-only frame: one packet, and the ownership of the memory it lies in.
//!
//! ```text
//!      Frame (8 bytes)
//!        │
//!        ▼
//!   ┌── Meta (one cache line) ──┐        ┌────────── chunk ──────────┐
//!   │ owner  data  len  time …  │───────▶│ headroom │ packet │ rest  │
//!   └───┬───────────────────────┘        └───────────────────────────┘
//!       ▼
//!     Owner: the pool or mapped ring that takes the memory back
//! ```
//!
//! Whoever holds a [`Frame`] owns its bytes: it can be read, written, sent or dropped, once.
//! There is no way to copy the handle or to make one up, so no packet can be sent twice and no
//! chunk can be in two places. Dropping gives the memory back to its owner, from any thread.
#![allow(unsafe_code)]

mod hints;
mod merged;
mod rewrite;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

pub(crate) use self::hints::Hints;
pub use self::hints::{RxHash, RxHashKind};
use crate::mask::Class;
use crate::segment::{Gso, Offload, PartialChecksum, Tunnel};

/// Takes back the memory of frames. The first field of every concrete owner (`repr(C)`).
#[repr(C)]
pub(crate) struct Owner {
    /// Takes back `frames`, which all belong to the owner at `self`.
    ///
    /// Contract for callers: the pointers come from frames that are forgotten, each passed once.
    pub(crate) release: unsafe fn(owner: NonNull<Owner>, frames: &[NonNull<Meta>]),
}

/// What is known of a packet, beside its bytes. One cache line.
///
/// Alignment is 8 and not 64 because a mapped kernel ring turns the kernel's packet header into
/// this very structure, in place, and the kernel aligns those headers to 8 bytes.
#[repr(C, align(8))]
pub(crate) struct Meta {
    pub(crate) owner: NonNull<Owner>,
    /// First byte of the packet.
    pub(crate) data: NonNull<u8>,
    /// Nanoseconds since the Unix epoch; 0 when the port has none.
    pub(crate) timestamp: u64,
    /// Bytes present at `data`.
    pub(crate) len: u32,
    /// Bytes the packet had on the wire.
    pub(crate) original_len: u32,
    /// Writable bytes before `data`.
    pub(crate) headroom: u32,
    /// Writable bytes from `data` on, the packet included.
    pub(crate) room: u32,
    /// The owner's own name for the memory: a chunk or block index.
    pub(crate) index: u32,
    pub(crate) queue: u16,
    pub(crate) class: Class,
    pub(crate) marks: Marks,
}

/// What else there is of a packet, and where: one byte, so that a fresh packet has none of it by one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Marks(u8);

impl Marks {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    const LEFT: u8 = 3;
    const HINTS: u8 = 4;
    const TIMED: u8 = 8;

    /// Where it stands what is left to do.
    #[inline(always)]
    fn left(self) -> Left {
        match self.0 & Self::LEFT {
            0 => Left::Nothing,
            1 => Left::Offload,
            2 => Left::Checksum,
            _ => Left::Perhaps,
        }
    }

    #[inline(always)]
    #[must_use]
    pub(crate) fn with_left(self, left: Left) -> Self {
        Self(self.0 & !Self::LEFT | left as u8)
    }

    /// Whether there is what the interface has said of it.
    #[inline(always)]
    fn has_hints(self) -> bool {
        self.0 & Self::HINTS != 0
    }

    /// Whether its time is one although it is 0.
    #[inline(always)]
    fn is_timed(self) -> bool {
        self.0 & Self::TIMED != 0
    }

    #[inline(always)]
    #[must_use]
    fn with_time(self) -> Self {
        Self(self.0 | Self::TIMED)
    }

    #[inline(always)]
    #[must_use]
    fn with_hints(self) -> Self {
        Self(self.0 | Self::HINTS)
    }
}

/// Where it stands what is left to do to a packet before it may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Left {
    /// Nothing is.
    Nothing,
    /// In an [`Offload`] with which the headroom begins.
    Offload,
    /// A checksum is, which the packet itself shows.
    Checksum,
    /// A checksum is, if the packet shows one.
    Perhaps,
}

const _: () = assert!(size_of::<Meta>() <= 64 && align_of::<Meta>() == 8);

/// One received or to-be-sent packet. See the [module documentation](self).
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
    fn meta(&self) -> &Meta {
        // SAFETY: valid and ours by `new`'s contract.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: valid and only ours by `new`'s contract.
        unsafe { self.0.as_mut() }
    }

    /// Gives the handle up without giving the memory back: whoever gets the pointer stands for the
    /// frame until [`Frame::new`] makes it one again.
    #[inline(always)]
    pub(crate) fn into_meta(self) -> NonNull<Meta> {
        std::mem::ManuallyDrop::new(self).0
    }

    /// The owner that would take this frame back: tells a port its own frames from foreign ones.
    #[inline(always)]
    pub(crate) fn owner(&self) -> NonNull<Owner> {
        self.meta().owner
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
    /// A checksum may be *partial*: then its field holds the sum of the pseudo-header, and a device or a
    /// segmenter completes it ([`Frame::offload`]). To change addresses or ports use the setters, such as
    /// [`Frame::set_ipv4_source`], or [`Frame::packet_mut`]: they keep both kinds right. After changes to a
    /// packet with a partial checksum by other means, that sum must still be the one of the pseudo-header.
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

    /// The queue it came through. Without meaning when [`Frame::class`] is [`Class::Other`].
    #[inline(always)]
    pub fn queue(&self) -> u16 {
        self.meta().queue
    }

    /// Whether it was received, transmitted by the host, or tied to no queue.
    #[inline(always)]
    pub fn class(&self) -> Class {
        self.meta().class
    }

    /// Bytes that can still be prepended.
    pub fn headroom(&self) -> usize {
        let meta = self.meta();
        (meta.headroom as usize).saturating_sub(meta.marks.kept())
    }

    /// What is left to do to the packet before it may go out, such as to cut it; `None` if nothing is.
    #[inline(always)]
    pub fn offload(&self) -> Option<Offload> {
        match self.meta().marks.left() {
            Left::Nothing => None,
            // SAFETY: `set_offload` wrote it there, and no packet has covered it since.
            Left::Offload => Some(unsafe { self.start().cast::<Offload>().read_unaligned() }),
            Left::Checksum | Left::Perhaps => self.found_checksum(),
        }
    }

    /// The checksum that the packet shows to be left to do.
    fn found_checksum(&self) -> Option<Offload> {
        let found = PartialChecksum::find(self.data());
        let unknown = Some(PartialChecksum::UNKNOWN);
        let checksum =
            found.or(if self.meta().marks.left() == Left::Checksum { unknown } else { None });
        checksum.map(|place| Offload { checksum: Some(place), ..Offload::default() })
    }

    /// Its checksum may be left to do: then it holds the sum of the pseudo-header.
    #[inline(always)]
    pub(crate) fn suspect_checksum(&mut self) {
        self.set_left(Left::Perhaps);
    }

    #[inline(always)]
    fn set_left(&mut self, left: Left) {
        let meta = self.meta_mut();
        meta.marks = meta.marks.with_left(left);
    }

    /// Whether anything may be left to do.
    #[inline(always)]
    pub(crate) fn is_unfinished(&self) -> bool {
        self.meta().marks.left() != Left::Nothing
    }

    /// Completes the checksum, if one is left to do. False, and nothing changed, if that cannot be done, or is
    /// not all that is left.
    pub(crate) fn finish(&mut self) -> bool {
        let finished = match self.offload() {
            None => true,
            Some(Offload { gso: Gso::None, checksum: Some(place), .. }) => {
                place.complete(self.data_mut()).is_ok()
            }
            Some(_) => false,
        };
        if finished {
            self.set_left(Left::Nothing);
        }
        finished
    }

    /// The checksum that is left to do.
    #[inline(always)]
    pub(crate) fn checksum(&self) -> Option<PartialChecksum> {
        self.offload().and_then(|offload| offload.checksum)
    }

    /// Says what is left to do to the packet, with places counted from its first byte. Kept in the
    /// headroom: false, and nothing changed, if that has too few bytes.
    #[must_use = "without headroom nothing was changed"]
    pub fn set_offload(&mut self, offload: Offload) -> bool {
        if offload.is_none() {
            self.set_left(Left::Nothing);
            return true;
        }
        let fits = self.meta().headroom as usize >= size_of::<Offload>();
        if fits {
            // SAFETY: `headroom` bytes before `data` belong to this frame.
            unsafe { self.start().cast::<Offload>().write_unaligned(offload) };
            self.set_left(Left::Offload);
        }
        fits
    }

    /// Bytes before the packet that belong to the frame, what is kept there included.
    #[inline(always)]
    pub(crate) fn before(&self) -> usize {
        self.meta().headroom as usize
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

    /// Writes `bytes` where they end at the first byte of the packet; what else was known of it may lie there,
    /// and is forgotten. False, and nothing changed, if the headroom is smaller.
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

    /// The first byte of the headroom.
    #[inline(always)]
    fn start(&self) -> NonNull<u8> {
        let meta = self.meta();
        // SAFETY: `headroom` bytes before `data` belong to this frame.
        unsafe { meta.data.sub(meta.headroom as usize) }
    }

    /// Moves the places that the offload names by `n` bytes, as the packet's first byte moves.
    fn shift_offload(&mut self, n: isize) {
        if self.meta().marks.left() != Left::Offload {
            return;
        }
        let Some(mut offload) = self.offload() else { return };
        let moved = |place: u16| place.saturating_add_signed(n.try_into().unwrap_or(0));
        if let Some(checksum) = &mut offload.checksum {
            checksum.start = moved(checksum.start);
        }
        if let Some(Tunnel::Udp { transport, network }) = &mut offload.tunnel {
            (*transport, *network) = (moved(*transport), moved(*network));
        }
        let fits = self.set_offload(offload);
        debug_assert!(fits);
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

    /// Opens `n` bytes before the packet, for a header. False, and nothing changed, if the
    /// headroom is smaller.
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

    /// Takes `n` bytes off the front. False, and nothing changed, if the packet is shorter.
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

    /// Replaces the packet by `bytes`, to which nothing is left to do, and of which no interface has said anything. False,
    /// and nothing changed, if they do not fit.
    #[must_use = "bytes that do not fit were not copied"]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let fits = self.set_len(bytes.len());
        if fits {
            self.data_mut().copy_from_slice(bytes);
            self.meta_mut().marks = Marks::NONE;
        }
        fits
    }

    /// Sets what a port or generator knows of the packet beside its bytes.
    #[inline(always)]
    pub(crate) fn stamp(&mut self, timestamp: u64, queue: u16, class: Class) {
        let meta = self.meta_mut();
        meta.timestamp = timestamp;
        meta.queue = queue;
        meta.class = class;
    }

    /// The time is meant, although it is 0: the beginning of 1970.
    #[cold]
    pub(crate) fn keep_time(&mut self) {
        let meta = self.meta_mut();
        meta.marks = meta.marks.with_time();
    }

    /// Whether a port has said when it saw the packet.
    pub(crate) fn has_time(&self) -> bool {
        self.meta().timestamp != 0 || self.meta().marks.is_timed()
    }

    /// Sets the wire length of a packet that was cut before it got here.
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

impl Drop for Frame {
    fn drop(&mut self) {
        release_run(&[self.0]);
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

    /// Holds at most `n` frames from now on, and never more than the batch was made for. Frames
    /// already in it stay.
    #[inline]
    pub fn limit(&mut self, n: usize) {
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
        // SAFETY: `Frame` is a transparent `NonNull<Meta>`.
        let metas =
            unsafe { std::slice::from_raw_parts(self.frames.as_ptr().cast::<NonNull<Meta>>(), n) };
        release_runs(metas);
        let left = self.frames.len() - n;
        // SAFETY: the first `n` handles are given back above and must not be dropped again; the
        // others move to the front, and the length says so.
        unsafe {
            let base = self.frames.as_mut_ptr();
            std::ptr::copy(base.add(n), base, left);
            self.frames.set_len(left);
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
        let left = first + kept.min(end)..first + end;
        // SAFETY: `Frame` is a transparent `NonNull<Meta>`.
        let metas = unsafe {
            std::slice::from_raw_parts(
                self.frames.as_ptr().cast::<NonNull<Meta>>(),
                self.frames.len(),
            )
        };
        release_runs(metas.get(left.clone()).unwrap_or_default());
        let rest = self.frames.len() - left.end;
        // SAFETY: the handles in `left` are given back above and must not be dropped again; those
        // behind them move up, and the length says so.
        unsafe {
            let base = self.frames.as_mut_ptr();
            std::ptr::copy(base.add(left.end), base.add(left.start), rest);
            self.frames.set_len(left.start + rest);
        }
    }

    /// Moves all frames of `other` that fit to the end of this batch.
    pub fn append(&mut self, other: &mut Batch) {
        let n = self.room().min(other.frames.len());
        self.frames.extend(other.frames.drain(..n));
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

    /// The frames as a vector, for [`crate::ring::Sender::send`].
    pub fn as_vec(&mut self) -> &mut Vec<Frame> {
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

/// Gives frames back to their owners, run by run. The caller gives up the handles.
fn release_runs(frames: &[NonNull<Meta>]) {
    let mut rest = frames;
    while let [first, ..] = rest {
        // SAFETY: frames are valid until they are given back.
        let owner = |meta: &NonNull<Meta>| unsafe { meta.as_ref() }.owner;
        let run = rest.iter().position(|m| owner(m) != owner(first)).unwrap_or(rest.len());
        release_run(&rest[..run]);
        rest = &rest[run..];
    }
}

/// Gives frames of one owner back to it.
#[inline]
fn release_run(frames: &[NonNull<Meta>]) {
    let Some(first) = frames.first() else { return };
    // SAFETY: the caller gives up these handles; a frame's meta and owner are valid, and all
    // frames of a run have the same owner.
    unsafe {
        let owner = first.as_ref().owner;
        (owner.as_ref().release)(owner, frames);
    }
}
