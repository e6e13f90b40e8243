//! The number of packets that a frame was merged from, stored in its headroom.

use super::handle::Frame;
use super::kept;
use super::marks::Marks;

struct Merged {
    packets: u32,
    /// Bytes on the wire, including all headers.
    bytes: u32,
}

impl Merged {
    fn into_bytes(self) -> [u8; kept::MERGED_BYTES] {
        (u64::from(self.bytes) << 32 | u64::from(self.packets)).to_ne_bytes()
    }

    fn from_bytes(bytes: [u8; kept::MERGED_BYTES]) -> Self {
        let both = u64::from_ne_bytes(bytes);
        Self { packets: both as u32, bytes: (both >> 32) as u32 }
    }
}

impl Frame {
    /// The number of packets that it was received as: more than one if a port merged them (`gro=`).
    #[inline]
    pub fn packets(&self) -> u64 {
        self.merged().map_or(1, |merged| merged.packets.into())
    }

    /// Bytes of these packets on the wire.
    #[inline]
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.merged().map_or(self.original_len(), |merged| merged.bytes).into()
    }

    #[inline]
    fn merged(&self) -> Option<Merged> {
        let kept = self.meta().marks.has(Marks::MERGED);
        kept.then(|| Merged::from_bytes(self.kept(kept::MERGED)))
    }

    /// Stores the number and bytes of its merged packets. False, without a change, if the headroom
    /// is too small.
    #[must_use = "without headroom nothing was changed"]
    pub(crate) fn set_merged(&mut self, packets: u32, bytes: u32) -> bool {
        let fits = self.keep(kept::MERGED, Merged { packets, bytes }.into_bytes());
        if fits {
            let meta = self.meta_mut();
            meta.marks = meta.marks.with(Marks::MERGED);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{Gso, Offload};
    use crate::pool::{Pool, PoolConfig};

    #[test]
    fn it_goes_with_the_packet() {
        for (headroom, fits) in [(128, true), (0, false)] {
            let config = PoolConfig { chunks: 1, chunk_size: 2048, headroom, numa_node: None };
            let mut pool = Pool::new(config).unwrap();
            let mut frame = pool.take_one().unwrap();
            assert!(frame.fill(&[7; 100]));
            assert_eq!((frame.packets(), frame.wire_bytes()), (1, 100));
            // The mark of a valid time of 0 and the mark of merged packets are independent.
            frame.keep_time();
            assert_eq!((frame.packets(), frame.wire_bytes()), (1, 100));
            assert_eq!(frame.set_merged(3, 184), fits);
            let said = if fits { (3, 184) } else { (1, 100) };
            assert_eq!((frame.packets(), frame.wire_bytes()), said);
            let offload = Offload { gso: Gso::Udp, size: 19, ..Offload::default() };
            assert_eq!(frame.set_offload(offload), fits);
            // Every byte of headroom that it admits to.
            let room = frame.headroom();
            assert!(frame.prepend(room) && !frame.prepend(1));
            frame.data_mut()[..room].fill(0xff);
            assert!(frame.strip(room));
            assert_eq!(frame.packets(), said.0);
            // Another packet is one.
            assert!(frame.fill(&[1; 60]));
            assert_eq!((frame.packets(), frame.wire_bytes()), (1, 60));
            assert!(!fits || frame.set_merged(2, 100) && !frame.has_time());
        }
    }
}
