//! The transmitting end of one queue: a ring of slots that the kernel sends from.
//!
//! ```text
//!      oldest ──────────▶ next
//!   ┌────┬────┬────┬────┬────┬────┐   AVAILABLE (ours) ── copy a frame ──▶ SEND_REQUEST
//!   │SENT│ing │ing │req │    │    │   SEND_REQUEST ──── one sendto per batch ──▶ SENDING
//!   └────┴────┴────┴────┴────┴────┘   SENDING ──── the device is done ──▶ AVAILABLE
//! ```
//!
//! The ring has version 2: on transmit, version 3 does the same with longer headers. Frames are
//! copied into slots, which the kernel then reads without another copy; slots are not given out
//! as frames themselves, because the kernel takes them in ring order only, and one frame that a
//! program keeps would hold up all others.
//!
//! Each packet has a `virtio_net_hdr` in front (PACKET_VNET_HDR, since Linux 4.6). With it the
//! kernel does not compare lengths with the MTU (`tpacket_snd`), where it allows for one tag only.
//! So we do, with the current MTU, which is read once per batch for the kernel.
//!
//! A veth pair takes no pages of a ring: it copies them into its own (`skb_orphan_frags` in
//! `____dev_forward_skb`), with one page allocated and freed per packet. For it the
//! `virtio_net_hdr` declares the whole packet a header: the kernel copies headers into the buffer
//! that it allocates in any case, so no page is copied.
//!
//! A frame that the device cuts itself (with `vnet=on`, every frame to be cut) goes to the kernel
//! whole, by a call and a socket of its own, behind the frames in the ring. The kernel cuts it just
//! before the driver, or the device does. One call for 64 KB costs less than cutting and sending 44
//! packets. A partial checksum is completed in the slot.
//!
//! The kernel chooses the TX queue of each packet, where there are several: by its flow, or by the
//! CPU that sends where that is set up (XPS) and with `bypass=on` (`netdev_pick_tx`,
//! `packet_pick_tx_queue`). So after the sending thread has moved to another CPU, nothing is sent
//! until all earlier packets have left, or it could overtake them. The kernel waits in the same way
//! before it changes the queue of a socket (`ooo_okay`). A call that is interrupted and continues
//! on another CPU can still reorder packets: pin the thread to avoid that.
//!
//! A device that gives a packet's pages to a receiver on the same host (veth, loopback) reports it
//! as sent before that receiver has read it (`skb_orphan`). A slot is therefore used again only
//! after all others, and rings have more slots than such a device queues.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::affinity;
use wirelane_os::mmap::{Mapping, page_size};
use wirelane_os::packet::{
    PacketSocket, TP_STATUS_AVAILABLE, TP_STATUS_SEND_REQUEST, TP_STATUS_SENDING,
    TP_STATUS_WRONG_FORMAT, Tpacket2Hdr, TxRingRequest, Version, VirtioNetHdr,
};

use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Gso, Offload, PartialChecksum};
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge, Region};
use crate::port::accounting::FrameCounts;
use crate::port::device::{Device, removed};
use crate::port::limits::{ETHERNET_HEADER, FrameLimits, VLAN_TAG, complete};
use crate::port::tx::Transmit;
use crate::stats::TxCounters;

/// More than `net.core.netdev_max_backlog` (1000) and veth's queue (256) hold.
const SLOTS: u32 = 2048;
const BLOCK: usize = 256 << 10;
/// Slots for a driver that copies: free after the call. As many as are in flight at once and stay
/// in a core's cache.
const COPIED_SLOTS: u32 = 512;
/// Drivers that copy foreign pages.
const COPYING: [&str; 1] = ["veth"];
/// The part of a packet declared a header for them. More contiguous memory is hard for the kernel
/// to find.
const COPIED: usize = 16 << 10;
/// Frames for programs that make packets, and room for headers in front of them.
const FRAMES: u32 = 1024;
const HEADROOM: u32 = 128;
/// The fewest, where memory is short.
const LEAST_FRAMES: u32 = 16;
/// Where a packet, or its `virtio_net_hdr`, starts in its slot.
const DATA: usize = Version::V2.tx_data_offset();
/// The longest frame to be cut, after its Ethernet header and tags.
pub(super) const LONGEST: usize = 65_535;
/// Frames that can hold one.
const LONG_FRAMES: u32 = 128;
/// Send buffer for them: what a device has in flight.
const LONG_BUFFER: usize = 4 << 20;
/// How long a full device is left alone.
const CONGESTED: Duration = Duration::from_micros(200);

/// Sends frames through one socket.
pub(super) struct Transmitter {
    socket: PacketSocket,
    /// For frames that are to be cut.
    handing_on: Option<PacketSocket>,
    /// That socket had no room the last time.
    is_congested: bool,
    /// Its error, to be reported.
    failure: Option<Error>,
    memory: Mapping,
    request: TxRingRequest,
    /// Bytes of the `virtio_net_hdr` in front of each packet; 0 without one.
    vnet_header: usize,
    /// The part of a packet declared a header.
    copied: usize,
    slots: u32,
    /// The slot to fill next, and how many before it are not reclaimed.
    next: u32,
    used: u32,
    /// Whether the kernel must still be told of slots.
    unsent: bool,
    /// The CPU from which it was told last.
    cpu: u32,
    /// Several TX queues: packets that are sent from different CPUs can overtake each other.
    has_lanes: bool,
    limits: FrameLimits,
    pool: Pool,
    counters: Arc<TxCounters>,
    /// `used` for other threads; written once per batch.
    pending: Arc<AtomicU32>,
    interface: Arc<str>,
}

/// Reads a transmitter from outside.
#[derive(Clone)]
pub(super) struct TxGauge {
    slots: u32,
    pending: Arc<AtomicU32>,
    pool: PoolGauge,
}

impl TxGauge {
    pub(super) fn frames(&self) -> FrameCounts {
        let pending = self.pending.load(Ordering::Relaxed);
        FrameCounts {
            pool: u64::from(self.slots) + u64::from(self.pool.size()),
            free: u64::from(self.slots - pending.min(self.slots)) + u64::from(self.pool.free()),
            tx: u64::from(pending),
            ..FrameCounts::default()
        }
    }
}

impl Transmitter {
    /// Makes a ring on a socket that is not bound yet, and binds it for transmitting only; the second one,
    /// too, for frames that the kernel is to cut.
    ///
    /// # Errors
    /// The kernel has no memory, or the interface went away.
    pub(super) fn new(
        (socket, handing_on): (PacketSocket, Option<PacketSocket>),
        device: &Device,
        bypass: bool,
        counters: Arc<TxCounters>,
    ) -> Result<Self> {
        let limits = FrameLimits::of(device);
        let os = |error| Error::os(device.name.as_str(), error);
        let vnet = socket.set_vnet_hdr(true).is_ok();
        let vnet_header = if vnet { size_of::<VirtioNetHdr>() } else { 0 };
        let is_copying = device.hardware.as_deref().is_some_and(|driver| COPYING.contains(&driver));
        let (copied, slots) = if vnet && is_copying { (COPIED, COPIED_SLOTS) } else { (0, SLOTS) };
        let frame_size = (DATA + vnet_header + limits.most + 2 * VLAN_TAG).next_multiple_of(64);
        let block = BLOCK.max(frame_size).next_multiple_of(page_size());
        let per_block = (block / frame_size).max(1);
        let request = TxRingRequest {
            block_size: u32::try_from(block).unwrap_or(u32::MAX),
            block_count: slots.div_ceil(u32::try_from(per_block).unwrap_or(1)),
            frame_size: u32::try_from(frame_size).unwrap_or(u32::MAX),
        };
        let too_large = || Error::failed(device.name.as_str(), "no ring for an MTU of this size");
        let slots = request.frames().ok_or_else(too_large)?;
        let bytes = request.bytes().ok_or_else(too_large)?;
        socket.set_tx_ring(Version::V2, &request).map_err(os)?;
        if bypass {
            socket.set_qdisc_bypass(true).map_err(os)?;
        }
        // What a ring has in flight counts against the send buffer; a smaller one than asked for
        // only means more calls.
        let _ = socket.set_send_buffer(bytes);
        let memory = socket.map(bytes).map_err(os)?;
        socket.bind(device.index, 0).map_err(os)?;
        let (mut frames, mut longest) = (FRAMES, limits.most + 2 * VLAN_TAG);
        if let Some(socket) = &handing_on {
            socket.set_vnet_hdr(true).map_err(os)?;
            if bypass {
                socket.set_qdisc_bypass(true).map_err(os)?;
            }
            // A smaller one than asked for only means to wait more often.
            let _ = socket.set_send_buffer(LONG_BUFFER);
            socket.bind(device.index, 0).map_err(os)?;
            (frames, longest) = (LONG_FRAMES, LONGEST + ETHERNET_HEADER + 2 * VLAN_TAG);
        }
        // A region has no smaller ones, however small the MTU is.
        let chunk_size = (longest as u32 + HEADROOM).next_multiple_of(2048).min(1 << 17);
        let budget = Allotment::of_rest().part(4);
        let frames = budget.fit(frames, LEAST_FRAMES, |n| Region::bytes_for(n, chunk_size));
        let numa_node = device.inspected.numa_node;
        let region = Region::new(Region::bytes_for(frames, chunk_size), numa_node)?;
        let config = PoolConfig { chunks: frames, chunk_size, headroom: HEADROOM, numa_node };
        let pool = Pool::in_region(&region, config)?;
        Ok(Self {
            socket,
            handing_on,
            is_congested: false,
            failure: None,
            memory,
            request,
            vnet_header,
            copied,
            slots,
            next: 0,
            used: 0,
            unsent: false,
            cpu: affinity::current_cpu(),
            has_lanes: device.tx_queues > 1,
            limits,
            pool,
            counters,
            pending: Arc::default(),
            interface: device.name.as_str().into(),
        })
    }

    pub(super) fn gauge(&self) -> TxGauge {
        let pending = Arc::clone(&self.pending);
        TxGauge { slots: self.slots, pending, pool: self.pool.gauge() }
    }

    /// The slot `back` places before the next one.
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

    /// Asks for the MTU, if nothing is on its way to the kernel: without it the kernel compares lengths.
    #[inline]
    fn follow_mtu(&mut self) {
        if self.vnet_header > 0 && !self.unsent {
            self.counters.system_calls.add(1);
            // That the interface is gone shows where packets are sent.
            if let Ok(mtu) = self.socket.mtu(&self.interface) {
                self.limits.follow(mtu);
            }
        }
    }

    /// Copies a packet into the next slot, which is free, and completes its checksum at `place` there.
    #[inline]
    fn put(&mut self, packet: &[u8], place: Option<PartialChecksum>) {
        // The room is longer than the longest packet that `FrameLimits` lets through.
        let Some(copy) = self.room().get_mut(..packet.len()) else { return };
        copy.copy_from_slice(packet);
        if let Some(place) = place {
            complete(copy, place);
        }
        self.commit(packet.len());
    }

    /// Where the packet of the next slot goes, which is free.
    #[inline(always)]
    fn room(&mut self) -> &mut [u8] {
        let before = DATA + self.vnet_header;
        let length = self.request.frame_size as usize - before;
        // SAFETY: the slot is ours (it is not counted in `used`), mapped and of that size.
        unsafe { std::slice::from_raw_parts_mut(self.slot(self.next).add(before).as_ptr(), length) }
    }

    /// Lets the kernel send the next slot, whose packet of `length` bytes is in its place.
    #[inline]
    fn commit(&mut self, length: usize) {
        let start = self.slot(self.next);
        // SAFETY: the slot is ours until its status says otherwise; both headers lie in front of the packet.
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
        self.unsent = true;
    }

    /// Takes back the slots whose packets are sent, and counts them.
    fn reclaim(&mut self) {
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
        if packets > 0 {
            bytes -= packets * self.vnet_header as u64;
            self.counters.packets.add(packets);
            self.counters.bytes.add(bytes);
        }
        self.pending.store(self.used, Ordering::Relaxed);
    }

    /// Takes the packet out that the kernel refuses and stands at, by moving those after it up:
    /// the kernel goes on at that very slot. False if there is none.
    #[cold]
    fn remove_refused(&mut self) -> bool {
        let refused = (1..=self.used).rev().find(|back| {
            let status = self.status(self.slot_before(*back)).load(Ordering::Acquire);
            status & TP_STATUS_WRONG_FORMAT != 0
        });
        let Some(refused) = refused else { return false };
        for back in (1..refused).rev() {
            let (to, from) = (self.slot_before(back + 1), self.slot_before(back));
            // SAFETY: neither slot is with the device, as the kernel has not got beyond the first,
            // and both are of the ring's frame size. The status words are left out.
            unsafe {
                let skip = size_of::<u32>();
                let n = self.request.frame_size as usize - skip;
                let (to, from) = (self.slot(to).add(skip), self.slot(from).add(skip));
                std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), n);
            }
            self.status(to).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.next = self.slot_before(1);
        self.status(self.next).store(TP_STATUS_AVAILABLE, Ordering::Release);
        self.used -= 1;
        self.unsent = self.used > 0;
        true
    }

    /// Whether what is sent now could overtake what was sent from another CPU and has not left yet.
    #[inline]
    fn would_overtake(&mut self) -> bool {
        let cpu = affinity::current_cpu();
        if !self.has_lanes || cpu == self.cpu {
            return false;
        }
        self.counters.system_calls.add(1 + u64::from(self.handing_on.is_some()));
        let mut sockets = [Some(&self.socket), self.handing_on.as_ref()].into_iter().flatten();
        // An interface that is gone says so when something is sent.
        let waits = sockets.any(|socket| socket.outstanding().is_ok_and(|bytes| bytes > 0));
        if !waits {
            self.cpu = cpu;
        }
        waits
    }

    /// Hands everything to the kernel that it has not got, unless it would overtake what it has: then the next call does.
    fn send(&mut self) -> Result<()> {
        while self.unsent && !self.would_overtake() {
            self.counters.system_calls.add(1);
            let sent = self.socket.send_pending();
            let refusal = match self.may_go_later(&sent) {
                true => None,
                false => sent.err(),
            };
            let last = self.status(self.slot_before(1)).load(Ordering::Acquire);
            self.unsent = self.used > 0 && last & TP_STATUS_SEND_REQUEST != 0;
            let Some(error) = refusal else { break };
            self.reclaim();
            if !self.remove_refused() {
                return Err(failed(&self.interface, "sendto", error));
            }
            self.counters.refuse(&error);
        }
        Ok(())
    }

    /// Whether what the kernel did not take stays where it is, to be sent later: the device's queue is full, or the
    /// interface is down and may come back.
    fn may_go_later<T>(&self, sent: &std::io::Result<T>) -> bool {
        let Err(error) = sent else {
            self.counters.hold(None);
            return true;
        };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOBUFS | Errno::AGAIN | Errno::INTR) => true,
            Some(Errno::NETDOWN) => {
                self.counters.hold(Some(error));
                true
            }
            Some(Errno::NXIO) => {
                self.counters.hold(Some(error));
                false
            }
            _ => false,
        }
    }
}

/// What a call of the kernel for the whole ring failed with.
fn failed(interface: &str, call: &'static str, error: std::io::Error) -> Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // packet_notifier() takes the interface from the socket, and tpacket_snd() misses it.
        Some(Errno::NXIO) => removed(interface),
        _ => Error::io(interface, call, error),
    }
}

impl Transmitter {
    /// Hands a frame that is to be cut to the kernel, behind what is in the ring. False if there is no room
    /// now.
    fn hand_on(&mut self, frame: &Frame, offload: &Offload) -> bool {
        // What cannot be sent now is the ring's affair, which says so.
        if self.send().is_err() || self.unsent {
            return false;
        }
        if self.would_overtake() {
            self.is_congested = true;
            return false;
        }
        let longest = LONGEST + ETHERNET_HEADER + 2 * VLAN_TAG;
        let fits = (self.limits.least..=longest).contains(&frame.len());
        let Some(socket) = self.handing_on.as_ref().filter(|_| fits) else {
            self.counters.of_wrong_length(1);
            return true;
        };
        self.counters.system_calls.add(1);
        let sent = socket.send_with_header(&offload.virtio_of(frame.data()), frame.data());
        let may_go_later = self.may_go_later(&sent);
        let Err(error) = sent else {
            self.counters.packets.add(1);
            self.counters.bytes.add(frame.len() as u64);
            return true;
        };
        if may_go_later {
            self.is_congested = true;
            return false;
        }
        self.counters.refuse(&error);
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // The frame is not what its offload says.
            Some(Errno::INVAL | Errno::MSGSIZE) => {}
            _ => self.failure = Some(failed(&self.interface, "sendmsg", error)),
        }
        true
    }
}

impl Transmit for Transmitter {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if self.slots - self.used < batch.len() as u32 {
            self.reclaim();
        }
        if !batch.is_empty() {
            self.follow_mtu();
        }
        let (mut taken, mut strange) = (0, 0);
        for frame in batch.iter() {
            let offload = frame.offload();
            let place = offload.and_then(|offload| offload.checksum);
            if place.is_some_and(|place| !place.is_inside(frame.len())) {
                self.counters.unfinished.add(1);
                self.counters.errors.add(1);
            } else if let Some(offload) = offload.filter(|offload| offload.gso != Gso::None) {
                if !self.hand_on(frame, &offload) {
                    break;
                }
            } else if !self.limits.allow(frame.data()) {
                strange += 1;
            } else if self.used < self.slots {
                self.put(frame.data(), place);
            } else {
                break;
            }
            taken += 1;
        }
        if strange > 0 {
            self.counters.of_wrong_length(strange);
        }
        batch.release_first(taken);
        self.pending.store(self.used, Ordering::Relaxed);
        taken
    }

    fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        if self.used == self.slots {
            self.reclaim();
        }
        self.follow_mtu();
        let mut placed = 0;
        while self.used < self.slots
            && let Some(length) = write(self.room())
        {
            placed += 1;
            let limits = self.limits;
            if self.room().get(..length).is_some_and(|packet| limits.allow(packet)) {
                self.commit(length);
            } else {
                self.counters.of_wrong_length(1);
            }
        }
        self.pending.store(self.used, Ordering::Relaxed);
        Some(placed)
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        let sent = self.send();
        self.reclaim();
        // Takes nothing; it updates the reading of the pool, to which frames may have come back.
        self.pool.take(&mut Batch::new(0), 0);
        sent?;
        self.failure.take().map_or(Ok(()), Err)
    }

    fn pending(&self) -> usize {
        self.used as usize
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.flush()?;
        let is_congested = std::mem::take(&mut self.is_congested);
        if self.used < self.slots && !is_congested {
            return Ok(());
        }
        self.counters.system_calls.add(1);
        if self.unsent || is_congested {
            // No event tells that a full device has room again, or that a link is up.
            let is_down = self.counters.held_errno.value() != 0;
            std::thread::sleep(if is_down { timeout } else { timeout.min(CONGESTED) });
            return self.flush();
        }
        let waited = self.socket.wait_writable(Some(timeout));
        waited.map_err(|error| Error::os(self.interface.as_ref(), error))?;
        self.reclaim();
        Ok(())
    }
}
