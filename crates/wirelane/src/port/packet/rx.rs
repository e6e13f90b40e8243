//! The receiving end of one ring.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::time::Duration;

use wirelane_os::clock;
use wirelane_os::packet::{
    SOCKADDR_LL_OFFSET_V2, SOCKADDR_LL_OFFSET_V3, SockaddrLl, TP_STATUS_COPY,
    TP_STATUS_CSUMNOTREADY, TP_STATUS_VLAN_VALID, TPACKET3_HDRLEN, Tpacket3Hdr, TpacketBlockDesc,
    VIRTIO_NET_HDR_GSO_NONE, VirtioNetHdr,
};

use super::any::interfaces::{InterfaceLookup, PacketInterface};
use super::idle::IdlePolicy;
use super::link::LinkWatch;
use super::long::{HELD, Long};
use super::ring::{BlockStart, SLOT_META, VLAN_TAG};
use super::setup::{PacketLedger, PacketRxParts};
use super::slot::{
    MAC_LEAST, leave_cutting, prefetch, read_slot, restore_vlan, restore_vlan_of, timestamp,
};
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Left, Marks, Meta};
use crate::port::control::Passed;
use crate::port::device::ETHERNET;
use crate::port::rx::{Readiness, Receive};

/// Period of checking the socket's pending error without packets, in nanoseconds.
const ERROR_PERIOD: u64 = 10_000_000;
/// Period of reading the kernel's counters without packets, in nanoseconds.
const STATISTICS_PERIOD: u64 = 100_000_000;
/// Under load, the counters are read after this many blocks.
const STATISTICS_BLOCKS: u32 = 4096;
/// The longest sleep: other ends wait for the watermark, which must advance.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// The same when none of the port's rings has had packets for `IDLE_AFTER` nanoseconds: then no end
/// waits for another.
const LONGEST_IDLE_SLEEP: Duration = Duration::from_millis(500);
const IDLE_AFTER: u64 = 2_000_000_000;
/// How long the kernel may take to hand over counted packets, beyond its timer; in nanoseconds.
const END_GRACE: u64 = 5_000_000_000;

/// Delivers the packets of a ring.
pub(super) struct Receiver {
    setup: PacketRxParts,
    /// The block being read or, when `left` is 0, the next one.
    block: u32,
    /// The start of that block, while it is open.
    start: Option<BlockStart>,
    /// Packets of that block not delivered yet.
    left: u32,
    /// The offset of the next packet in the block.
    offset: u32,
    watermark: u64,
    /// When the ring was last seen empty, without a packet in the block that the kernel fills.
    empty_at: u64,
    /// Blocks were opened since the last call of `readiness`.
    is_active: bool,
    ledger: PacketLedger,
    idle: IdlePolicy,
    failure: Option<Error>,
    link: LinkWatch,
    long: Long,
    /// The end was reported, with or without an error.
    ended: bool,
    /// Monotonic time at which to stop waiting for packets that the kernel has counted.
    deadline: Option<u64>,
    next_error_check: u64,
}

impl Receiver {
    pub(super) fn new(setup: PacketRxParts) -> Self {
        let link = LinkWatch::new(setup.on_removal, setup.link_type);
        Self {
            setup,
            block: 0,
            start: None,
            left: 0,
            offset: 0,
            watermark: 0,
            empty_at: 0,
            is_active: true,
            ledger: PacketLedger::default(),
            idle: IdlePolicy::new(),
            failure: None,
            link,
            long: Long::new(),
            ended: false,
            deadline: None,
            next_error_check: 0,
        }
    }

    /// Opens the next block if the kernel has handed it over; false if not.
    fn open_block(&mut self) -> bool {
        if self.awaits_frame() {
            return false;
        }
        // SAFETY: only the receiver of a ring opens its blocks, and there is one.
        let opened = unsafe { self.setup.ring.open_block(self.block) };
        let Some(opened) = opened else { return false };
        self.start = Some(opened.start);
        self.left = opened.packets;
        self.offset = opened.first;
        self.ledger.blocks_since += 1;
        self.is_active = true;
        self.idle.opened(opened.is_full);
        // The head of the block reports lost packets. Reading the counter now is never in vain, and
        // may be the only chance if the receiver never waits.
        if opened.is_losing || self.ledger.blocks_since >= STATISTICS_BLOCKS {
            // `readiness` reports a failure to read.
            let _ = self.read_statistics();
        }
        if self.left == 0 {
            self.end_block();
        }
        true
    }

    /// Whether the next packet is long and no frame is free for it.
    #[inline(always)]
    fn awaits_frame(&mut self) -> bool {
        let ring = &self.setup.ring;
        ring.is_slots()
            && ring.is_filled(self.block)
            && ring.is_long(self.block)
            && !self.long.is_ready(ring, self.setup.snaplen)
    }

    /// Ends the open block and moves to the next one.
    #[inline]
    fn end_block(&mut self) {
        self.start = None;
        // SAFETY: it is open until here, and this is the receiver's own use of it.
        unsafe { self.setup.ring.close_block(self.block, 1) };
        self.block += 1;
        if self.block == self.setup.ring.block_count() {
            self.block = 0;
        }
    }

    /// The next packet of the open block; `None` if the contents are not a valid packet.
    #[inline(always)]
    fn next_frame(&mut self) -> Option<Frame> {
        let block_size = self.setup.ring.block_size();
        let end = block_size.checked_sub(self.offset)? as usize;
        if end < size_of::<Tpacket3Hdr>() {
            return None;
        }
        let is_slot = self.setup.ring.is_slots();
        // SAFETY: inside the open block by the check above, and 8-byte aligned as the kernel lays
        // packets out (`V3_ALIGNMENT`); any bytes are a valid header.
        let (start, header) = unsafe {
            let start = self.start?.0.add(self.offset as usize);
            (start, if is_slot { read_slot(start) } else { start.cast().read() })
        };
        let front = if is_slot { SLOT_META } else { 0 };
        let (mac, captured) = (usize::from(header.mac), header.snaplen as usize);
        // The last packet of a block has no next one (`prb_close_block`).
        let slot = match header.next_offset as usize {
            _ if is_slot => end,
            0 => (mac + captured).next_multiple_of(8),
            next => next,
        };
        let vnet_header = self.setup.ring.vnet_header;
        if mac < front + MAC_LEAST + vnet_header
            || mac + captured > slot
            || slot > end
            || slot % 8 != 0
        {
            return None;
        }
        self.offset += slot as u32;
        prefetch(start, slot);
        // The kernel silently truncates a packet to its block (`max_frame_len` in `tpacket_rcv`).
        let descriptor = if is_slot { 0 } else { size_of::<TpacketBlockDesc>() };
        let is_cut =
            header.snaplen < header.len && mac + captured + descriptor >= block_size as usize;
        let is_long = is_slot && header.status & TP_STATUS_COPY != 0;
        if is_cut && !is_long {
            if is_slot {
                // There was no room to queue it on the socket.
                return None;
            }
            self.ledger.cut += 1;
        }
        let place = match &mut self.setup.interfaces {
            Some(_) if mac < TPACKET3_HDRLEN => return None,
            Some(interfaces) => {
                let offset = if is_slot { SOCKADDR_LL_OFFSET_V2 } else { SOCKADDR_LL_OFFSET_V3 };
                // SAFETY: it lies between the header and the packet, by the check above; any bytes
                // are a valid one.
                let address = unsafe { start.add(offset).cast::<SockaddrLl>().read() };
                Some(interfaces.look_up(&address))
            }
            None => None,
        };
        let is_ethernet = match &place {
            Some(place) => place.is_ethernet,
            None => self.setup.link_type == ETHERNET,
        };
        if is_long {
            return self.long_frame(start, &header, place, is_ethernet);
        }
        let selection = &self.setup.ring.selection;
        let mut meta = Meta {
            owner: self.setup.ring.owner(),
            // SAFETY: `mac` lies in the slot.
            data: unsafe { start.add(mac) },
            timestamp: timestamp(&header),
            len: header.snaplen,
            original_len: header.len,
            headroom: (mac - front - size_of::<Meta>()) as u32,
            room: (slot - mac) as u32,
            index: self.block,
            queue: selection.queue,
            class: selection.class,
            marks: Marks::NONE.with_left(if header.status & TP_STATUS_CSUMNOTREADY != 0 {
                Left::Checksum
            } else {
                Left::Nothing
            }),
        };
        let vnet = if vnet_header > 0 {
            // SAFETY: it lies right before the packet, behind the header (`tpacket_rcv`); any bytes
            // are a valid one.
            unsafe { meta.data.sub(vnet_header).cast::<VirtioNetHdr>().read_unaligned() }
        } else {
            VirtioNetHdr::default()
        };
        if header.status & TP_STATUS_VLAN_VALID != 0 && is_ethernet {
            // SAFETY: the packet is ours, with `VLAN_TAG` bytes before it (`MAC_LEAST`).
            unsafe { restore_vlan(&mut meta, &header, self.setup.snaplen) };
        }
        if let (Some(place), Some(interfaces)) = (place, &self.setup.interfaces) {
            (meta.class, meta.queue) = (place.class, place.number);
            interfaces.count(&place, meta.original_len);
        }
        let moved = (mac - front - size_of::<Meta>()) as u32 - meta.headroom;
        // SAFETY: the header has been read, and `Meta` fits before the packet (`MAC_LEAST`). The
        // frame is the only handle to this slot: each is passed once per opening of the block,
        // which counts it as a user.
        let mut frame = unsafe {
            let place = start.add(front).cast::<Meta>();
            place.write(meta);
            Frame::new(place)
        };
        if vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE {
            leave_cutting(&mut frame, &vnet, moved as u16);
        }
        Some(frame)
    }

    /// The packet that is too long for the open slot at `start`, in a separate frame.
    #[cold]
    fn long_frame(
        &mut self,
        start: NonNull<u8>,
        header: &Tpacket3Hdr,
        place: Option<PacketInterface>,
        is_ethernet: bool,
    ) -> Option<Frame> {
        let Self { setup, long, link, .. } = self;
        let ring = &setup.ring;
        setup.counters.system_calls.add(1);
        let (mut vnet, vnet_header) = (VirtioNetHdr::default(), ring.vnet_header);
        // SAFETY: these bytes lie in the slot, as `next_frame` has found out, and are ours.
        let seen = unsafe {
            let begin = start.add(header.mac.into()).as_ptr();
            std::slice::from_raw_parts(begin, header.snaplen as usize)
        };
        let of = (seen, header.len as usize);
        let vnet_space = (&mut vnet, vnet_header);
        let mut frame = long.read(ring.socket(), vnet_space, of, &mut link.pending)?;
        let selection = &ring.selection;
        let (class, queue) = place
            .as_ref()
            .map_or((selection.class, selection.queue), |place| (place.class, place.number));
        frame.stamp(timestamp(header), queue, class);
        frame.set_original_len(header.len);
        if header.status & TP_STATUS_CSUMNOTREADY != 0 {
            frame.leave_checksum();
        }
        let is_tagged = header.status & TP_STATUS_VLAN_VALID != 0 && is_ethernet;
        if is_tagged {
            restore_vlan_of(&mut frame, header);
        }
        frame.truncate(setup.snaplen as usize);
        if let (Some(place), Some(interfaces)) = (&place, &setup.interfaces) {
            interfaces.count(place, frame.original_len());
        }
        if vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE {
            leave_cutting(&mut frame, &vnet, if is_tagged { VLAN_TAG as u16 } else { 0 });
        }
        // SAFETY: it is open, and its packet is not handed out.
        unsafe { ring.close_block(self.block, 1) };
        Some(frame)
    }

    /// Gives up the rest of the open block, whose contents are invalid.
    #[cold]
    fn abandon_block(&mut self) {
        let lost = std::mem::take(&mut self.left);
        // SAFETY: it is open, and these packets are not handed out.
        unsafe { self.setup.ring.close_block(self.block, lost) };
        self.ledger.delivered += u64::from(lost);
        let counter = &self.setup.counters.ring_full;
        counter.add(u64::from(lost));
        self.end_block();
    }

    /// Updates the counters from the kernel's counters, and returns the latter.
    fn read_statistics(&mut self) -> Result<Passed> {
        self.setup.counters.system_calls.add(1);
        // In this order: a packet passed later may be accepted, but is not in `let_in`. No packet
        // followed the removal of an interface before the socket was notified (`dev_close_many`).
        let is_shut = self.setup.progress.stopped_at().is_some() || self.failure.is_some();
        let let_in = self.setup.rejections.as_mut().map(|rejections| rejections.read(is_shut));
        let counted = self.setup.ring.count();
        let counted = counted.map_err(|error| Error::os(self.setup.interface.as_ref(), error))?;
        self.ledger.blocks_since = 0;
        self.setup.counters.kernel.set(counted.dropped);
        if let Some(let_in) = let_in {
            let rejected = &self.setup.counters.filtered_kernel;
            rejected.set(let_in.rejected(counted.packets).max(rejected.value()));
        }
        self.setup.interfaces.iter().for_each(InterfaceLookup::sum_losses);
        Ok(counted)
    }

    /// Whether every packet that the kernel counted has been received, or can no longer be.
    fn check_end(&mut self, now: u64) -> Result<bool> {
        let since = match self.setup.progress.stopped_at() {
            Some(at) => at,
            None if self.failure.is_some() => now,
            None => return Ok(false),
        };
        // From the first check: this thread, and the kernel's timer, may have been delayed.
        let grace = 2 * self.setup.times.retire + END_GRACE;
        let deadline = *self.deadline.get_or_insert(since.max(now).saturating_add(grace));
        let counted = self.read_statistics()?;
        let missing = counted.packets.saturating_sub(self.ledger.delivered + counted.dropped);
        // A block may have been handed over since the caller's check.
        if missing > 0 && (now < deadline || self.setup.ring.is_filled(self.block)) {
            return Ok(false);
        }
        if missing > 0 {
            self.setup.ring.lose(missing);
            self.setup.counters.kernel.set(counted.dropped + missing);
            self.setup.interfaces.iter().for_each(InterfaceLookup::sum_losses);
            self.setup.note_missing(missing);
        }
        if self.ledger.cut > 0 {
            self.setup.note_cut(self.ledger.cut);
        }
        self.ended = true;
        self.link.report(self.setup.ring.socket(), &self.setup.progress);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(true),
        }
    }
}

impl Receive for Receiver {
    fn ring_bytes(&self) -> Option<usize> {
        let ring = &self.setup.ring;
        (ring.block_size() as usize).checked_mul(ring.block_count() as usize)
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let mut room = batch.room();
        let before = batch.len();
        if let Some(interfaces) = &mut self.setup.interfaces {
            interfaces.begin();
        }
        while room > 0 {
            if self.left == 0 && !self.open_block() {
                break;
            }
            let n = (self.left as usize).min(room);
            let frames = batch.as_vec();
            let length = frames.len();
            frames.extend((0..n).map_while(|_| self.next_frame()));
            let got = frames.len() - length;
            room -= got;
            self.left -= got as u32;
            self.ledger.delivered += got as u64;
            if self.left == 0 && n > 0 {
                self.end_block();
            } else if got < n {
                self.abandon_block();
            }
        }
        if let Some(last) = batch[before..].last() {
            self.watermark =
                self.watermark.max(last.timestamp().saturating_sub(self.setup.times.disorder));
        }
        if self.setup.interfaces.is_some() {
            let frames = batch.as_vec();
            let mut place = 0..;
            frames.retain(|frame| {
                let is_new = place.next().is_some_and(|place| place >= before);
                !is_new || PacketInterface::is_taken(frame.queue_number())
            });
        }
        batch.len() - before
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        // Taken before the ring is read: a later packet may be in the ring unseen.
        let time = clock::realtime_ns();
        if self.left > 0 {
            return Ok(Readiness::Now);
        }
        if self.ended {
            return Ok(Readiness::End);
        }
        // The consumer holds frames of the whole ring; more packets may be waiting for room.
        let full = self.setup.ring.is_open(self.block);
        if self.setup.ring.is_filled(self.block) {
            let held = self.awaits_frame();
            return Ok(if held { Readiness::After(HELD) } else { Readiness::Now });
        }
        // Packets in a block have their own timestamps, even if the kernel's timer hands the block
        // over late.
        if !full && !self.setup.ring.is_begun(self.block) {
            self.empty_at = time;
            self.watermark = self.watermark.max(time.saturating_sub(self.setup.times.lateness));
        }
        let now = clock::monotonic_ns();
        if std::mem::take(&mut self.is_active) {
            self.setup.progress.be_active(now);
        }
        if self.failure.is_none() && now >= self.next_error_check {
            self.next_error_check = now + ERROR_PERIOD;
            let (socket, progress) = (self.setup.ring.socket(), &self.setup.progress);
            let name = self.setup.interface.as_ref();
            self.failure = self.link.check(socket, name, &self.setup.counters, progress).err();
        }
        if now >= self.ledger.next_reading {
            self.ledger.next_reading = now + STATISTICS_PERIOD;
            self.read_statistics()?;
        }
        let ending = self.setup.progress.stopped_at().is_some() || self.failure.is_some();
        if ending && self.check_end(now)? {
            return Ok(Readiness::End);
        }
        let retire = Duration::from_nanos(self.setup.times.retire);
        if self.link.is_gone() && !ending {
            return Ok(Readiness::After(Duration::from_nanos(ERROR_PERIOD)));
        }
        if ending {
            let nap = (retire / 8).clamp(Duration::from_micros(50), Duration::from_millis(1));
            return Ok(Readiness::After(nap));
        }
        if let Some(nap) = self.idle.next(now, self.setup.times.nap, self.setup.ring.block_count())
        {
            return Ok(Readiness::After(nap));
        }
        // `packet_poll` reports a socket readable unless the kernel owns the block before the one
        // that it fills. While frames of that block are held, poll would spin.
        let last = self.block.checked_sub(1).unwrap_or(self.setup.ring.block_count() - 1);
        if full || self.setup.ring.is_open(last) {
            let nap = (retire / 8).clamp(Duration::from_micros(500), Duration::from_millis(5));
            return Ok(Readiness::After(nap));
        }
        // With slots, a receiver that waits for several ends polls all of them.
        let is_awaited = self.setup.times.is_prompt && !self.setup.ring.is_slots();
        let is_idle = self.setup.progress.idle_since(now) >= IDLE_AFTER && !is_awaited;
        let longest = if is_idle { LONGEST_IDLE_SLEEP } else { LONGEST_SLEEP };
        Ok(Readiness::Descriptor(self.setup.ring.fd(), longest))
    }

    fn watermark(&self) -> u64 {
        self.watermark
    }

    fn empty_at(&self) -> u64 {
        self.empty_at
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.left > 0 {
            // SAFETY: it is open while packets of it are left, which are not handed out.
            unsafe { self.setup.ring.close_block(self.block, self.left + 1) };
        }
    }
}
