//! How many packets a frame was put together from. Kept at the start of its headroom, behind what else is kept there.

use super::{Frame, Hints, Marks};
use crate::segment::Offload;

/// As it lies in memory.
#[derive(Clone, Copy)]
pub(super) struct Merged {
    packets: u32,
    /// On the wire, all headers included.
    bytes: u32,
}

impl Frame {
    /// How many packets it was received as: more than one if it was put together on the way in (`gro=`).
    #[inline]
    pub fn packets(&self) -> u64 {
        self.merged().map_or(1, |merged| merged.packets.into())
    }

    /// Their bytes on the wire.
    #[inline]
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.merged().map_or(self.original_len(), |merged| merged.bytes).into()
    }

    #[inline]
    fn merged(&self) -> Option<Merged> {
        self.meta().marks.is_merged().then(|| {
            // SAFETY: `set_merged` wrote it there, and no packet has covered it since.
            unsafe { self.start().add(KEPT_AT).cast::<Merged>().read_unaligned() }
        })
    }

    /// Says that it was put together from packets. False, and nothing changed, if the headroom has no room for that.
    #[must_use = "without headroom nothing was changed"]
    pub(crate) fn set_merged(&mut self, packets: u32, bytes: u32) -> bool {
        let fits = self.before() >= Self::MERGED_END;
        if fits {
            // SAFETY: this much of the headroom belongs to this frame.
            let place = unsafe { self.start().add(KEPT_AT) };
            // SAFETY: as above.
            unsafe { place.cast::<Merged>().write_unaligned(Merged { packets, bytes }) };
            let meta = self.meta_mut();
            meta.marks = meta.marks.with_merged();
        }
        fits
    }

    /// Bytes of the headroom up to its end.
    pub(super) const MERGED_END: usize = KEPT_AT + size_of::<Merged>();
}

impl Marks {
    const MERGED: u8 = 8;

    /// Whether it was put together from several packets.
    #[inline(always)]
    pub(super) fn is_merged(self) -> bool {
        self.0 & Self::MERGED != 0
    }

    #[inline(always)]
    #[must_use]
    fn with_merged(self) -> Self {
        Self(self.0 | Self::MERGED)
    }
}

/// Where it is kept in the headroom.
const KEPT_AT: usize = size_of::<Offload>() + Hints::BYTES;

#[cfg(test)]
mod tests {
    use crate::pool::{Pool, PoolConfig};
    use crate::segment::{Gso, Offload};

    #[test]
    fn it_goes_with_the_packet() {
        for (headroom, fits) in [(128, true), (0, false)] {
            let config = PoolConfig { chunks: 1, chunk_size: 2048, headroom, numa_node: None };
            let mut pool = Pool::new(config).unwrap();
            let mut frame = pool.take_one().unwrap();
            assert!(frame.fill(&[7; 100]));
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
        }
    }
}
