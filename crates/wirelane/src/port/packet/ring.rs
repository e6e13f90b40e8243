//! One receive ring of the kernel, mapped: packets are read in place from its blocks.
//!
//! A ring has one of two layouts. With *blocks* (`TPACKET_V3`) the kernel collects packets until a
//! block is full or its time is over:
//!
//! ```text
//!            kernel fills block b            receiver opens b: users(b) = packets + 1
//!   KERNEL ───────────────────────▶ USER ──────────────────────────────────────────┐
//!      ▲                                                                           │
//!      └── last user of b stores KERNEL ◀── packets dropped, on any thread ────────┘
//!
//!   block:  │ descriptor │ tpacket3_hdr, sockaddr_ll, packet │ tpacket3_hdr, … │
//!   then:   │ descriptor │ Meta, headroom,            packet │ Meta, …         │
//! ```
//!
//! The kernel's header of a packet is read once and then overwritten by the packet's [`Meta`],
//! which is smaller; so a received frame needs no other memory. The next header, which is still
//! unread, is beyond the packet's slot and is not overwritten.
//!
//! With *slots* (`TPACKET_V2`) the kernel hands over each packet at once. A slot is a block of one
//! packet, without descriptor:
//!
//! ```text
//!   slot:    │ status, tpacket2_hdr, sockaddr_ll, packet │
//!   then:    │ status, …,        Meta, headroom,  packet │
//! ```
//!
//! The kernel compares the status of a slot with `TP_STATUS_KERNEL` even while user space owns the
//! slot, so the `Meta` does not overwrite that word. A slot has room for a packet of the usual MTU;
//! longer packets are queued on the socket (`long`).
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use wirelane_os::mmap::Mapping;
use wirelane_os::packet::{
    BLOCK_PACKETS_OFFSET, BLOCK_STATUS_OFFSET, ETH_P_ALL_BE, PacketSocket, RingRequest,
    SlotRingRequest, SockFilter, TP_STATUS_BLK_TMO, TP_STATUS_COPY, TP_STATUS_KERNEL,
    TP_STATUS_LOSING, TP_STATUS_USER, TPACKET2_HDRLEN, TPACKET3_HDRLEN, TpacketBlockDesc, Version,
    VirtioNetHdr,
};

use crate::frame::{Meta, OFFLOAD_BYTES, Owner};
use crate::pool::PoolGauge;
use crate::pool::blocks::{Blocks, Users};
use crate::port::accounting::FrameCounts;
use crate::port::control::Passed;
use crate::port::steering::selection::{REJECT_ALL, Selection};
use crate::sync::lock;

/// Bytes of a VLAN tag, for which there must be room between a `Meta` and its packet. The kernel
/// puts the link-layer header at `TPACKET3_HDRLEN` or later (`tpacket_rcv`).
pub(super) const VLAN_TAG: usize = 4;
const _: () = assert!(size_of::<Meta>() + VLAN_TAG <= TPACKET3_HDRLEN);
/// Offset of a packet's `Meta` in its slot: after the status.
pub(super) const SLOT_META: usize = 16;
/// Bytes reserved in a slot before its packet, in addition to the kernel's headers. The assertion
/// checks the least room in total.
const SLOT_RESERVE: usize = 32;
const _: () = assert!(
    SLOT_META + size_of::<Meta>() + VLAN_TAG + OFFLOAD_BYTES
        <= TPACKET2_HDRLEN + 16 + SLOT_RESERVE - 18
);
/// The most bytes of a slot around its packet: with the longest link-layer header.
pub(super) const AROUND_SLOT: usize = 160;

/// The memory requested from the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryRequest {
    /// The kernel hands over blocks of packets.
    Blocks(RingRequest),
    /// The kernel hands over single packets.
    Slots(SlotRingRequest),
}

/// A block that was opened.
pub(super) struct Opened {
    pub(super) start: BlockStart,
    pub(super) packets: u32,
    /// Offset of the first packet.
    pub(super) first: u32,
    /// It was full when the kernel handed it over.
    pub(super) is_full: bool,
    /// The kernel has lost packets since its counter was last read.
    pub(super) is_losing: bool,
}

/// The first byte of an open block: `Send`, as its receiver is.
#[derive(Clone, Copy)]
pub(super) struct BlockStart(pub(super) NonNull<u8>);

// SAFETY: a pointer, which only those use who say that the block is open.
unsafe impl Send for BlockStart {}

/// A handle to a ring. The ring is freed with the last handle or frame, whichever is dropped later.
pub(super) struct PacketRing(NonNull<PacketRingMemory>);

/// The ring. `owner` is first because frames refer to it.
#[repr(C)]
pub(super) struct PacketRingMemory {
    owner: Owner,
    users: Users,
    blocks: Blocks,
    memory: Mapping,
    socket: PacketSocket,
    /// The sum of the kernel's counts, which each reading resets.
    counted: Mutex<Passed>,
    /// Size of a block or a slot.
    block_size: u32,
    block_count: u32,
    is_slots: bool,
    /// The memory of long packets, after the first one.
    pub(super) long: OnceLock<PoolGauge>,
    /// Bytes of the `virtio_net_hdr` before each packet; 0 without one.
    pub(super) vnet_header: usize,
    pub(super) selection: Selection,
}

// SAFETY: what threads change is atomic, or a block that one of them owns; the socket and the
// mapping may be used and dropped on any thread.
unsafe impl Send for PacketRing {}
// SAFETY: as above.
unsafe impl Sync for PacketRing {}

impl PacketRing {
    /// Sets up the ring on an unbound socket and binds it to the interface. No packet enters,
    /// because the rejecting program is attached first. With `vnet` the kernel marks packets that
    /// need segmentation, if it supports that (Linux 4.6).
    pub(super) fn new(
        socket: PacketSocket,
        request: &MemoryRequest,
        ifindex: u32,
        selection: Selection,
        vnet: bool,
    ) -> wirelane_os::Result<Self> {
        let is_slots = matches!(request, MemoryRequest::Slots(_));
        socket.set_version(if is_slots { Version::V2 } else { Version::V3 })?;
        let vnet = vnet && socket.set_vnet_hdr(true).is_ok();
        socket.attach_filter(&REJECT_ALL)?;
        let (bytes, block_size) = match request {
            MemoryRequest::Blocks(blocks) => {
                socket.set_rx_ring(blocks)?;
                (blocks.bytes(), blocks.block_size)
            }
            MemoryRequest::Slots(slots) => {
                socket.set_reserve(SLOT_RESERVE as u32)?;
                socket.queue_long_packets()?;
                socket.set_receive_buffer(slots.bytes().unwrap_or(usize::MAX))?;
                socket.set_rx_slots(slots)?;
                (slots.bytes(), slots.frame_size)
            }
        };
        let bytes = bytes.unwrap_or(usize::MAX);
        let block_count = (bytes / block_size.max(1) as usize) as u32;
        let memory = socket.map(bytes)?;
        socket.bind(ifindex, ETH_P_ALL_BE)?;
        let shared = Box::new(PacketRingMemory {
            owner: Owner { release },
            users: Users::new(),
            blocks: Blocks::new(block_count),
            memory,
            socket,
            counted: Mutex::default(),
            block_size,
            block_count,
            is_slots,
            long: OnceLock::new(),
            vnet_header: if vnet { size_of::<VirtioNetHdr>() } else { 0 },
            selection,
        });
        Ok(Self(NonNull::from(Box::leak(shared))))
    }

    /// The owner of this ring's frames.
    #[inline(always)]
    pub(super) fn owner(&self) -> NonNull<Owner> {
        self.0.cast()
    }

    /// Opens `block` if the kernel has handed it over, and describes its contents. Its users are
    /// its packets and the receiver; the caller acts for all of them.
    ///
    /// # Safety
    /// No other thread opens blocks of this ring at the same time.
    #[inline]
    pub(super) unsafe fn open_block(&self, block: u32) -> Option<Opened> {
        if !self.is_filled(block) {
            return None;
        }
        let start = self.block(block);
        if self.is_slots {
            let status = self.status(block).load(Ordering::Relaxed);
            self.users.enter();
            self.blocks.open(block as usize, 1);
            let (is_full, is_losing) = (false, status & TP_STATUS_LOSING != 0);
            return Some(Opened {
                start: BlockStart(start),
                packets: 1,
                first: 0,
                is_full,
                is_losing,
            });
        }
        // SAFETY: inside the mapping and page-aligned; any bytes are a valid descriptor.
        let header = unsafe { start.cast::<TpacketBlockDesc>().read() }.bh1;
        self.users.enter();
        self.blocks.open(block as usize, header.num_pkts);
        Some(Opened {
            start: BlockStart(start),
            packets: header.num_pkts,
            first: header.offset_to_first_pkt,
            is_full: header.block_status & TP_STATUS_BLK_TMO == 0,
            is_losing: header.block_status & TP_STATUS_LOSING != 0,
        })
    }

    /// Ends `users` uses of `block`.
    ///
    /// # Safety
    /// The block is open, and the caller acts for `users` of its users, whose use ends with the
    /// call.
    #[inline]
    pub(super) unsafe fn close_block(&self, block: u32, users: u32) {
        // SAFETY: by contract.
        unsafe { give(self.0, block, users) }
    }
}

impl std::ops::Deref for PacketRing {
    type Target = PacketRingMemory;

    #[inline(always)]
    fn deref(&self) -> &PacketRingMemory {
        // SAFETY: a handle is a user, and the ring lives as long as it has users.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for PacketRing {
    fn clone(&self) -> Self {
        self.users.enter();
        Self(self.0)
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: this handle is a user that goes.
        unsafe { leave(self.0) }
    }
}

impl PacketRingMemory {
    /// Accepts the packets that `program` selects, beginning with the next packet.
    pub(super) fn attach(&self, program: &[SockFilter]) -> wirelane_os::Result<()> {
        self.socket.attach_filter(program)
    }

    pub(super) fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// The packets that have passed the program, so far. Callable from any thread: the lock keeps a
    /// count that one thread has read from being missing in another thread's sum.
    pub(super) fn count(&self) -> wirelane_os::Result<Passed> {
        let mut counted = lock(&self.counted);
        let since = self.socket.statistics()?;
        counted.packets += u64::from(since.packets);
        counted.dropped += u64::from(since.drops);
        Ok(*counted)
    }

    /// Adds packets that were dropped without being counted by the kernel.
    pub(super) fn lose(&self, packets: u64) {
        lock(&self.counted).dropped += packets;
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn block_count(&self) -> u32 {
        self.block_count
    }

    pub(super) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Whether blocks are slots, of one packet each.
    #[inline(always)]
    pub(super) fn is_slots(&self) -> bool {
        self.is_slots
    }

    /// Whether the packet of this slot, which the kernel has handed over, is queued on the socket.
    #[inline(always)]
    pub(super) fn is_long(&self, block: u32) -> bool {
        self.is_slots && self.status(block).load(Ordering::Relaxed) & TP_STATUS_COPY != 0
    }

    /// The blocks by owner, and the frames for long packets.
    pub(super) fn frames(&self) -> FrameCounts {
        let mut counts = FrameCounts::default();
        counts.pool += u64::from(self.block_count);
        for block in 0..self.block_count {
            if self.is_filled(block) {
                counts.rx += 1;
            } else if !self.is_open(block) {
                counts.fill += 1;
            }
        }
        if let Some(long) = self.long.get() {
            counts.pool += u64::from(long.size());
            counts.free += u64::from(long.free());
        }
        counts
    }

    /// Whether the kernel has handed `block` over and it has not been opened since.
    #[inline(always)]
    pub(super) fn is_filled(&self, block: u32) -> bool {
        // In this order: once a block is not in use, its status has changed.
        !self.is_open(block) && self.status(block).load(Ordering::Acquire) & TP_STATUS_USER != 0
    }

    /// Whether the receiver or a frame still uses `block`.
    pub(super) fn is_open(&self, block: u32) -> bool {
        self.blocks.in_use(block as usize)
    }

    /// Whether the kernel has put packets into `block`, which it is still filling. May be true for
    /// a block that was just returned and has no new packets.
    pub(super) fn is_begun(&self, block: u32) -> bool {
        !self.is_slots && self.word(block, BLOCK_PACKETS_OFFSET).load(Ordering::Acquire) > 0
    }

    /// The first byte of `block`.
    #[inline(always)]
    fn block(&self, block: u32) -> NonNull<u8> {
        assert!(block < self.block_count, "no block of this ring");
        // SAFETY: a block of this ring is inside the mapping.
        unsafe { self.memory.as_non_null().add(block as usize * self.block_size as usize) }
    }

    #[inline(always)]
    fn status(&self, block: u32) -> &AtomicU32 {
        self.word(block, if self.is_slots { 0 } else { BLOCK_STATUS_OFFSET })
    }

    /// A word of the block's descriptor, or of a slot's header, that the kernel may write at any
    /// time.
    #[inline(always)]
    fn word(&self, block: u32, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset < size_of::<TpacketBlockDesc>(),
            "no word of a descriptor"
        );
        // SAFETY: inside the mapping, aligned, and used by the kernel as a word.
        unsafe { AtomicU32::from_ptr(self.block(block).add(offset).cast().as_ptr()) }
    }
}

/// Takes frames back: the `release` function of a ring's `Owner`.
///
/// # Safety
/// As [`Owner::release`] says.
unsafe fn release(owner: NonNull<Owner>, frames: &[NonNull<Meta>]) {
    let ring = owner.cast::<PacketRingMemory>();
    let mut rest = frames;
    while let [first, others @ ..] = rest {
        // SAFETY: given-up frames keep their block, and so the ring, until `give`; this reads only
        // metas whose block is not given back yet.
        unsafe {
            let block = first.as_ref().index;
            let same = others.iter().take_while(|meta| meta.as_ref().index == block).count();
            rest = &others[same..];
            give(ring, block, same as u32 + 1);
        }
    }
}

/// # Safety
/// The caller acts for `users` users of an open block of this ring, which end with the call.
#[inline]
unsafe fn give(ring: NonNull<PacketRingMemory>, block: u32, users: u32) {
    // SAFETY: an open block is a user of the ring.
    unsafe {
        if ring.as_ref().blocks.close(block as usize, users) {
            ring.as_ref().status(block).store(TP_STATUS_KERNEL, Ordering::Release);
            ring.as_ref().blocks.given_back(block as usize);
            leave(ring);
        }
    }
}

/// # Safety
/// The caller acts for one user of the ring, which ends with the call.
unsafe fn leave(ring: NonNull<PacketRingMemory>) {
    // SAFETY: before the call we are a user; if we were the last, nobody else refers to the ring.
    unsafe {
        if ring.as_ref().users.leave() {
            drop(Box::from_raw(ring.as_ptr()));
        }
    }
}

/// The packets that all rings together received and dropped, by the kernel's counters.
///
/// # Errors
/// The system does not return its counters.
pub(super) fn passed(rings: &[PacketRing]) -> wirelane_os::Result<Passed> {
    let mut passed = Passed::default();
    for ring in rings {
        let counted = ring.count()?;
        passed.packets += counted.packets;
        passed.dropped += counted.dropped;
    }
    Ok(passed)
}
