//! The metadata of a packet, and the owner of its memory.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::marks::Marks;
use crate::mask::Class;

/// Takes back the memory of frames. It is the first field of every concrete owner (`repr(C)`).
#[repr(C)]
pub(crate) struct Owner {
    /// Takes back `frames`, which all belong to this owner. The caller gives up their handles.
    pub(crate) release: unsafe fn(owner: NonNull<Owner>, frames: &[NonNull<Meta>]),
}

/// The metadata of a packet. It fits one cache line.
///
/// Alignment is 8 and not 64 because a mapped kernel ring turns the kernel's packet header into
/// this structure in place, and the kernel aligns those headers to 8 bytes.
#[repr(C, align(8))]
pub(crate) struct Meta {
    pub(crate) owner: NonNull<Owner>,
    /// First byte of the packet.
    pub(crate) data: NonNull<u8>,
    /// Nanoseconds since the Unix epoch; 0 if the port has no time.
    pub(crate) timestamp: u64,
    /// Number of bytes at `data`.
    pub(crate) len: u32,
    /// Length of the packet on the wire.
    pub(crate) original_len: u32,
    /// Writable bytes before `data`.
    pub(crate) headroom: u32,
    /// Writable bytes from `data` on, including the packet.
    pub(crate) room: u32,
    /// The owner's number for the memory: a chunk or block index.
    pub(crate) index: u32,
    pub(crate) queue: u16,
    pub(crate) class: Class,
    pub(crate) marks: Marks,
}

const _: () = assert!(size_of::<Meta>() <= 64 && align_of::<Meta>() == 8);

/// Returns frames to their owners, in runs of the same owner.
///
/// # Safety
/// The caller gives up the handles of these frames.
pub(super) unsafe fn release_runs(frames: &[NonNull<Meta>]) {
    let mut rest = frames;
    while let [first, ..] = rest {
        // SAFETY: frames are valid until they are returned.
        let owner = |meta: &NonNull<Meta>| unsafe { meta.as_ref() }.owner;
        let run = rest.iter().position(|m| owner(m) != owner(first)).unwrap_or(rest.len());
        // SAFETY: given up by contract, and of one owner.
        unsafe { release_run(&rest[..run]) };
        rest = &rest[run..];
    }
}

/// Returns frames to their owner.
///
/// # Safety
/// The caller gives up the handles of these frames, which have one owner.
#[inline]
pub(super) unsafe fn release_run(frames: &[NonNull<Meta>]) {
    let Some(first) = frames.first() else { return };
    // SAFETY: by contract; a frame's meta and owner are valid until it is returned.
    unsafe {
        let owner = first.as_ref().owner;
        (owner.as_ref().release)(owner, frames);
    }
}
