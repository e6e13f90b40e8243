//! The data of a packet in a capture file: its interface and the options of its block. They are
//! stored after the packet.
//!
//! ```text
//!   │ headroom │ packet │  room to grow  │ interface │ length │ options │
//!                                        ▲ the end of the room
//! ```
//!
//! The room of the frame ends before them, so changes of the packet in its memory do not overwrite
//! them. A copy of the packet in another frame does not have them.
//!
//! For a frame without such data, the check costs a test of one flag.
#![allow(unsafe_code)]

use super::handle::Frame;
use super::marks::Marks;

/// Bytes of the interface and the length.
const HEADER: usize = 8;

impl Frame {
    /// Stores the number of its interface in its file, and the options of its block. False, without
    /// a change, if they do not fit after the packet, or if it has them already.
    #[cold]
    #[must_use = "without room nothing was changed"]
    pub(crate) fn attach(&mut self, interface: u32, options: &[u8]) -> bool {
        let meta = self.meta_mut();
        let Some(left) = (meta.room as usize).checked_sub(HEADER + options.len()) else {
            return false;
        };
        if left < meta.len as usize || meta.marks.has(Marks::ATTACHED) {
            return false;
        }
        meta.room = left as u32;
        meta.marks = meta.marks.with(Marks::ATTACHED);
        let len = options.len() as u32;
        // SAFETY: `HEADER + options.len()` bytes after the reduced room were room before, so that
        // they belong to this frame.
        unsafe {
            let place = meta.data.add(left).as_ptr();
            place.cast::<[u8; 4]>().write(interface.to_ne_bytes());
            place.add(4).cast::<[u8; 4]>().write(len.to_ne_bytes());
            place.add(HEADER).copy_from_nonoverlapping(options.as_ptr(), options.len());
        }
        true
    }

    /// Whether [`Frame::attached`] returns data.
    #[inline(always)]
    pub(crate) fn has_attached(&self) -> bool {
        self.meta().marks.has(Marks::ATTACHED)
    }

    /// Whether it has hints of an interface or data of a file.
    #[inline(always)]
    pub(crate) fn says_more(&self) -> bool {
        self.meta().marks.has(Marks::HINTS.with(Marks::ATTACHED))
    }

    /// The options of its packet in a capture file, encoded in the byte order of this machine.
    /// Empty if there are none, or if it was not read from a file.
    #[inline]
    pub fn options(&self) -> &[u8] {
        self.attached().map_or(&[], |(_, options)| options)
    }

    /// The number of its interface in its file, and the encoded options of its block; `None` if
    /// none were stored.
    #[inline]
    pub(crate) fn attached(&self) -> Option<(u32, &[u8])> {
        if !self.has_attached() {
            return None;
        }
        let meta = self.meta();
        // SAFETY: `attach` has written both numbers and as many bytes where the room ends, and the
        // mark goes as soon as the memory has another packet.
        unsafe {
            let place = meta.data.add(meta.room as usize).as_ptr();
            let interface = u32::from_ne_bytes(place.cast::<[u8; 4]>().read());
            let len = u32::from_ne_bytes(place.add(4).cast::<[u8; 4]>().read());
            Some((interface, std::slice::from_raw_parts(place.add(HEADER), len as usize)))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::pool::{Pool, PoolConfig};

    #[test]
    fn it_stays_behind_the_packet_and_goes_with_it() {
        let config = PoolConfig { chunks: 1, chunk_size: 256, headroom: 64, numa_node: None };
        let mut pool = Pool::new(config).unwrap();
        for round in 0..2 {
            let mut frame = pool.take_one().unwrap();
            assert!(!frame.has_attached() && frame.attached().is_none());
            assert!(frame.fill(&[7; 60]) && frame.capacity() == 192);
            assert!(!frame.attach(1, &[1; 125]), "{round}");
            assert!(frame.attach(9, &[1; 64]) && !frame.attach(1, &[]));
            assert_eq!(frame.capacity(), 120);
            // Every byte that the packet may have.
            assert!(frame.prepend(64) && frame.strip(3) && frame.set_len(181));
            frame.data_mut().fill(0xff);
            assert!(!frame.set_len(182));
            assert_eq!(frame.attached(), Some((9, &[1; 64][..])));
            // Another packet in the same memory has none.
            assert!(frame.fill(&[7; 5]) && frame.attached().is_none() && !frame.says_more());
        }
        let mut frame = pool.take_one().unwrap();
        assert!(frame.fill(&[1; 184]) && frame.attach(3, &[]));
        assert_eq!(frame.attached(), Some((3, &[][..])));
        assert!(frame.says_more());
    }
}
