//! The pending offload of a packet, and where its frame stores it.

use super::handle::Frame;
use super::kept;
use super::marks::Left;
use super::offload::{Gso, Offload, PartialChecksum, Tunnel};

impl Frame {
    /// Offloads to complete before the packet is sent, such as segmentation; `None` if there are
    /// none.
    #[inline(always)]
    pub fn offload(&self) -> Option<Offload> {
        match self.meta().marks.left() {
            Left::Nothing => None,
            Left::Offload => Some(Offload::from_bytes(self.kept(kept::OFFLOAD))),
            Left::Checksum | Left::Perhaps => self.found_checksum(),
        }
    }

    /// The partial checksum found in the packet.
    fn found_checksum(&self) -> Option<Offload> {
        let found = PartialChecksum::find(self.data());
        let unknown = Some(PartialChecksum::UNKNOWN);
        let checksum =
            found.or(if self.meta().marks.left() == Left::Checksum { unknown } else { None });
        checksum.map(|place| Offload { checksum: Some(place), ..Offload::default() })
    }

    /// Its checksum may be partial: then it contains the sum of the pseudo-header.
    #[inline(always)]
    pub(crate) fn suspect_checksum(&mut self) {
        self.set_left(Left::Perhaps);
    }

    /// Its checksum is partial.
    pub(crate) fn leave_checksum(&mut self) {
        self.set_left(Left::Checksum);
    }

    #[inline(always)]
    fn set_left(&mut self, left: Left) {
        let meta = self.meta_mut();
        meta.marks = meta.marks.with_left(left);
    }

    /// Whether an offload may be pending.
    #[inline(always)]
    pub(crate) fn is_unfinished(&self) -> bool {
        self.meta().marks.left() != Left::Nothing
    }

    /// Completes a partial checksum, if there is one. False, without a change, if that is
    /// impossible or other offloads are pending.
    pub(crate) fn finish(&mut self) -> bool {
        let finished = match self.offload() {
            None => true,
            Some(Offload { gso: Gso::None, checksum: Some(place), .. }) => {
                place.complete(self.data_mut())
            }
            Some(_) => false,
        };
        if finished {
            self.set_left(Left::Nothing);
        }
        finished
    }

    /// The partial checksum.
    #[inline(always)]
    pub(crate) fn checksum(&self) -> Option<PartialChecksum> {
        self.offload().and_then(|offload| offload.checksum)
    }

    /// Sets the pending offload, with offsets from the packet's first byte. It is stored in the
    /// headroom: false, without a change, if that is too small.
    #[must_use = "without headroom nothing was changed"]
    pub fn set_offload(&mut self, offload: Offload) -> bool {
        if offload.is_none() {
            self.set_left(Left::Nothing);
            return true;
        }
        let fits = self.keep(kept::OFFLOAD, offload.to_bytes());
        if fits {
            self.set_left(Left::Offload);
        }
        fits
    }

    /// Moves the offsets of the offload by `n` bytes, together with the packet's first byte.
    pub(super) fn shift_offload(&mut self, n: isize) {
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
}
