//! A ring of slots that the kernel sends from.
//!
//! ```text
//!      oldest ──────────▶ next
//!   ┌────┬────┬────┬────┬────┬────┐   AVAILABLE (ours) ── copy a frame ──▶ SEND_REQUEST
//!   │SENT│ing │ing │req │    │    │   SEND_REQUEST ──── one sendto per batch ──▶ SENDING
//!   └────┴────┴────┴────┴────┴────┘   SENDING ──── the device is done ──▶ AVAILABLE
//! ```
//!
//! The ring has version 2: on transmit, version 3 does the same with longer headers. Frames are
//! copied into slots, which the kernel then reads without another copy. Slots are not used as
//! frames, because the kernel takes them in ring order, and one frame that a program keeps would
//! delay all others.
//!
//! A veth pair cannot pass on the pages of a ring: it copies them into new pages
//! (`skb_orphan_frags` in `____dev_forward_skb`), with one page allocated and freed per packet. For
//! it the `virtio_net_hdr` declares the whole packet a header: the kernel copies headers into the
//! buffer that it allocates in any case, so no page is copied.
//!
//! A device that passes a packet's pages to a receiver on the same host (veth, loopback) reports
//! the packet as sent before that receiver has read it (`skb_orphan`). So a slot is used again only
//! after all others, and rings have more slots than such a device queues.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use wirelane_os::mmap::{Mapping, page_size};
use wirelane_os::packet::{
    PacketSocket, SlotRingRequest, TP_STATUS_AVAILABLE, TP_STATUS_SEND_REQUEST, TP_STATUS_SENDING,
    TP_STATUS_WRONG_FORMAT, Tpacket2Hdr, Version, VirtioNetHdr,
};

use crate::error::{Error, Result};
use crate::frame::PartialChecksum;
use crate::port::offload::limits::complete;

/// More than the capacity of `net.core.netdev_max_backlog` (1000) and veth's queue (256).
const SLOTS: u32 = 2048;
const BLOCK: usize = 256 << 10;
/// Slots for a driver that copies: they are free after the call. The number in flight at once that
/// fits a core's cache.
const COPIED_SLOTS: u32 = 512;
/// The part of a packet declared a header for drivers that copy. The kernel needs contiguous memory
/// for it, and finds larger pieces less easily.
const COPIED: usize = 16 << 10;
/// Offset of a packet, or of its `virtio_net_hdr`, in its slot.
const DATA: usize = Version::V2.tx_data_offset();

/// The slots and their owners.
pub(super) struct TxRing {
    memory: Mapping,
    request: SlotRingRequest,
    /// Bytes of the `virtio_net_hdr` in front of each packet; 0 without one.
    vnet_header: usize,
    /// The part of a packet declared a header.
    copied: usize,
    slots: u32,
    /// The slot to fill next, and the number of slots before it that are not reclaimed.
    next: u32,
    used: u32,
    /// Slots that the kernel may not have taken yet; an upper bound.
    unsent: u32,
}

impl TxRing {
    /// Sets up a ring on an unbound socket, for packets of up to `longest` bytes; `is_copying` for
    /// a driver that copies foreign pages.
    ///
    /// # Errors
    /// The kernel has no memory, or the packets are too long.
    pub(super) fn new(
        socket: &PacketSocket,
        interface: &str,
        longest: usize,
        is_copying: bool,
    ) -> Result<Self> {
        let os = |error| Error::os(interface, error);
        let vnet = socket.set_vnet_hdr(true).is_ok();
        let vnet_header = if vnet { size_of::<VirtioNetHdr>() } else { 0 };
        let (copied, slots) = if vnet && is_copying { (COPIED, COPIED_SLOTS) } else { (0, SLOTS) };
        let frame_size = (DATA + vnet_header + longest).next_multiple_of(64);
        let block = BLOCK.max(frame_size).next_multiple_of(page_size());
        let per_block = (block / frame_size).max(1);
        let request = SlotRingRequest {
            block_size: u32::try_from(block).unwrap_or(u32::MAX),
            block_count: slots.div_ceil(u32::try_from(per_block).unwrap_or(1)),
            frame_size: u32::try_from(frame_size).unwrap_or(u32::MAX),
        };
        let too_large = || Error::failed(interface, "no ring for an MTU of this size");
        let slots = request.frames().ok_or_else(too_large)?;
        let bytes = request.bytes().ok_or_else(too_large)?;
        socket.set_tx_ring(Version::V2, &request).map_err(os)?;
        // Packets in flight count against the send buffer; a smaller buffer only causes more calls.
        let _ = socket.set_send_buffer(bytes);
        let memory = socket.map(bytes).map_err(os)?;
        Ok(Self { memory, request, vnet_header, copied, slots, next: 0, used: 0, unsent: 0 })
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots that are not reclaimed.
    #[inline(always)]
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// Slots that can be filled.
    #[inline(always)]
    pub(super) fn free(&self) -> u32 {
        self.slots - self.used
    }

    /// Whether there are slots that the kernel may not have taken yet.
    #[inline(always)]
    pub(super) fn is_unsent(&self) -> bool {
        self.unsent > 0
    }

    /// The number of such slots, at most.
    #[inline(always)]
    pub(super) fn unsent(&self) -> u32 {
        self.unsent
    }

    /// Whether each packet has a `virtio_net_hdr`.
    #[inline(always)]
    pub(super) fn has_vnet_header(&self) -> bool {
        self.vnet_header > 0
    }

    /// Checks, after a send call, whether the kernel has taken all slots.
    pub(super) fn look_whether_sent(&mut self) {
        let last = self.status(self.slot_before(1)).load(Ordering::Acquire);
        if self.used == 0 || last & TP_STATUS_SEND_REQUEST == 0 {
            self.unsent = 0;
        }
    }

    /// The slot `back` positions before the next one.
    fn slot_before(&self, back: u32) -> u32 {
        (self.next + self.slots - back) % self.slots
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> NonNull<u8> {
        let offset = self.request.frame_offset(slot).unwrap_or(0);
        // SAFETY: `frame_offset` knows the ring's slots, all of which are mapped.
        unsafe { self.memory.as_non_null().add(offset) }
    }

    #[inline(always)]
    fn status(&self, slot: u32) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and used by the kernel as an atomic word.
        unsafe { AtomicU32::from_ptr(self.slot(slot).cast().as_ptr()) }
    }

    /// Copies a packet into the next slot and completes its checksum at `place` there.
    #[inline]
    pub(super) fn put(&mut self, packet: &[u8], place: Option<PartialChecksum>) {
        // The room is longer than the longest packet that `FrameLimits` allows.
        let Some(copy) = self.room().get_mut(..packet.len()) else { return };
        copy.copy_from_slice(packet);
        if let Some(place) = place {
            complete(copy, place);
        }
        self.commit(packet.len());
    }

    /// The room for the packet of the next slot; empty if all slots are in use.
    #[inline(always)]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.free() == 0 {
            return &mut [];
        }
        let before = DATA + self.vnet_header;
        let length = self.request.frame_size as usize - before;
        // SAFETY: the slot is ours (it is not counted in `used`), mapped and of that size.
        unsafe { std::slice::from_raw_parts_mut(self.slot(self.next).add(before).as_ptr(), length) }
    }

    /// Submits the next slot, whose room contains a packet of `length` bytes, to the kernel. Does
    /// nothing if all slots are in use.
    #[inline]
    pub(super) fn commit(&mut self, length: usize) {
        if self.free() == 0 {
            return;
        }
        let start = self.slot(self.next);
        // SAFETY: the slot is ours until its status says otherwise; both headers lie in front of
        // the packet.
        unsafe {
            (*start.cast::<Tpacket2Hdr>().as_ptr()).len = (self.vnet_header + length) as u32;
            if self.vnet_header > 0 {
                let hdr_len = length.min(self.copied) as u16;
                let header = VirtioNetHdr { hdr_len, ..VirtioNetHdr::default() };
                start.add(DATA).cast::<VirtioNetHdr>().write_unaligned(header);
            }
        }
        self.status(self.next).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = if self.next + 1 == self.slots { 0 } else { self.next + 1 };
        self.used += 1;
        self.unsent += 1;
    }

    /// Takes back the slots whose packets were sent; returns their number and bytes.
    pub(super) fn reclaim(&mut self) -> (u64, u64) {
        let (mut packets, mut bytes) = (0, 0);
        while self.used > 0 {
            let slot = self.slot_before(self.used);
            let busy = TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING | TP_STATUS_WRONG_FORMAT;
            if self.status(slot).load(Ordering::Acquire) & busy != TP_STATUS_AVAILABLE {
                break;
            }
            // SAFETY: an available slot is ours.
            bytes += u64::from(unsafe { self.slot(slot).cast::<Tpacket2Hdr>().as_ref() }.len);
            packets += 1;
            self.used -= 1;
        }
        (packets, bytes - packets * self.vnet_header as u64)
    }

    /// The slot that the kernel takes next.
    #[cold]
    pub(super) fn head(&self) -> Option<u32> {
        self.untaken().map(|back| self.slot_before(back))
    }

    /// The distance from the next free slot back to the first slot that the kernel has not taken.
    fn untaken(&self) -> Option<u32> {
        let is_taken = |back: u32| {
            let status = self.status(self.slot_before(back)).load(Ordering::Acquire);
            status & TP_STATUS_SEND_REQUEST == 0
        };
        // It takes them in order.
        let (mut taken, mut next) = (self.used + 1, 0);
        while taken - next > 1 {
            let middle = next + (taken - next) / 2;
            if is_taken(middle) { taken = middle } else { next = middle }
        }
        (next > 0).then_some(next)
    }

    /// Removes the packet that the kernel has marked as wrong, and moves later packets up: the
    /// kernel continues at the same slot. False if there is none.
    #[cold]
    pub(super) fn remove_wrong(&mut self) -> bool {
        let wrong = (1..=self.used).rev().find(|back| {
            let status = self.status(self.slot_before(*back)).load(Ordering::Acquire);
            status & TP_STATUS_WRONG_FORMAT != 0
        });
        wrong.is_some_and(|back| {
            self.remove(back);
            true
        })
    }

    /// Removes the packet that the kernel would take next.
    #[cold]
    pub(super) fn remove_head(&mut self) {
        if let Some(head) = self.untaken() {
            self.remove(head);
        }
    }

    /// Removes the packet `refused` positions before the next free slot, which the kernel would
    /// take next.
    fn remove(&mut self, refused: u32) {
        for back in (1..refused).rev() {
            let (to, from) = (self.slot_before(back + 1), self.slot_before(back));
            // SAFETY: neither slot is with the device, as the kernel has not got beyond the first,
            // and both are of the ring's frame size. The status words are left out.
            unsafe {
                let skip = size_of::<u32>();
                let length = self.slot(from).cast::<Tpacket2Hdr>().as_ref().len as usize;
                let n = (DATA + length).min(self.request.frame_size as usize) - skip;
                let (to, from) = (self.slot(to).add(skip), self.slot(from).add(skip));
                std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), n);
            }
            self.status(to).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.next = self.slot_before(1);
        self.status(self.next).store(TP_STATUS_AVAILABLE, Ordering::Release);
        self.used -= 1;
        self.unsent = self.used;
    }
}
