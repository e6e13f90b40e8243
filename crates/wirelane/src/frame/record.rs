//! The records of frames, for other languages.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::ptr::NonNull;

use super::batch::Batch;
use super::handle::Frame;
use super::meta::Meta;

/// The offsets of a frame record's fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLayout {
    /// The address of the packet's first byte.
    pub data: usize,
    /// `u64`: the time, like [`Frame::timestamp`].
    pub timestamp: usize,
    /// `u32`: captured bytes, like [`Frame::len`].
    pub len: usize,
    /// `u32`: bytes on the wire, like [`Frame::original_len`].
    pub original_len: usize,
    /// `u16`: the queue, like [`Frame::queue`] if there is one.
    pub queue: usize,
    /// `u8`: the [`Class`](crate::Class).
    pub class: usize,
}

impl RecordLayout {
    /// The layout of this version.
    pub const THIS: Self = Self {
        data: offset_of!(Meta, data),
        timestamp: offset_of!(Meta, timestamp),
        len: offset_of!(Meta, len),
        original_len: offset_of!(Meta, original_len),
        queue: offset_of!(Meta, queue),
        class: offset_of!(Meta, class),
    };
}

impl Batch {
    /// The records of its frames, in order, with the layout [`RecordLayout::THIS`], so that an
    /// interface for another language can show them without copying. They change with their frames
    /// and are valid until these leave the batch.
    #[inline]
    #[doc(hidden)]
    pub fn records(&self) -> &[NonNull<()>] {
        let frames: &[Frame] = self;
        // SAFETY: a frame is a transparent pointer to its meta.
        unsafe { std::slice::from_raw_parts(frames.as_ptr().cast(), frames.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Class;
    use crate::pool::{Pool, PoolConfig};

    #[test]
    fn a_record_says_what_its_frame_says() {
        let config = PoolConfig { chunks: 2, chunk_size: 2048, headroom: 64, numa_node: None };
        let mut pool = Pool::new(config).unwrap();
        let mut batch = Batch::new(2);
        assert_eq!(pool.take(&mut batch, 2), 2);
        let frame = batch.last_mut().unwrap();
        assert!(frame.fill(&[7; 60]));
        frame.stamp(5, 3, Class::Other);
        frame.set_original_len(99);
        let record = batch.records()[1].cast::<u8>();
        let at = RecordLayout::THIS;
        // SAFETY: the record is there, and has these fields.
        let (data, time, len, original, queue, class) = unsafe {
            (
                record.add(at.data).cast::<NonNull<u8>>().read(),
                record.add(at.timestamp).cast::<u64>().read(),
                record.add(at.len).cast::<u32>().read(),
                record.add(at.original_len).cast::<u32>().read(),
                record.add(at.queue).cast::<u16>().read(),
                record.add(at.class).read(),
            )
        };
        assert_eq!(data.as_ptr().cast_const(), batch[1].data().as_ptr());
        assert_eq!((time, len, original, queue, class), (5, 60, 99, 3, Class::Other as u8));
        assert_eq!(batch.records().len(), 2);
    }
}
