//! The packets of a batch, in the layout for C.

use std::ffi::c_void;
use std::mem::offset_of;

use wirelane::internal::frame::RecordLayout;
use wirelane::{Batch, Frame};

use crate::error::{CallFailure, Result};

/// One packet of a batch, in the library's own record, for reading. It changes with the packet, and
/// is valid until the packet leaves the batch.
#[repr(C)]
pub struct Packet {
    /// Private to the library.
    pub owner: *const c_void,
    /// Its bytes, from the Ethernet header on, without the frame check sequence. The program may
    /// change them.
    pub data: *mut u8,
    /// Time of capture in nanoseconds since 1970; 0 if the port has no time.
    pub timestamp: u64,
    /// Number of bytes at `data`.
    pub len: u32,
    /// Bytes on the wire; more than `len` if the snap length cut it.
    pub original_len: u32,
    /// Private to the library.
    pub reserved: [u32; 3],
    /// Its queue, unless `queue_class` is WIRELANE_OTHER.
    pub queue: u16,
    /// WIRELANE_RX, WIRELANE_TX or WIRELANE_OTHER.
    pub queue_class: u8,
    /// Private to the library.
    pub marks: u8,
}

const _: () = {
    let record = RecordLayout::THIS;
    assert!(record.data == offset_of!(Packet, data));
    assert!(record.timestamp == offset_of!(Packet, timestamp));
    assert!(record.len == offset_of!(Packet, len));
    assert!(record.original_len == offset_of!(Packet, original_len));
    assert!(record.queue == offset_of!(Packet, queue));
    assert!(record.class == offset_of!(Packet, queue_class));
};

/// One frame of a batch.
pub(crate) fn frame(batch: &mut Batch, index: usize) -> Result<&mut Frame> {
    batch.get_mut(index).ok_or(CallFailure::Argument("the batch has no such packet"))
}
