//! The transmitting end of one queue.
//!
//! The TX end passes partial checksums to a device that completes them in zero copy, or with
//! `checksum=on`. Metadata for the kernel is stored directly before the packet; a packet without
//! room for it is copied. With `tx_timestamps=on` the kernel writes the departure time there, and
//! the frame returns through `Tx::sent`.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::clock;
use wirelane_os::xdp::{
    self, MappedRing, XDP_PKT_CONTD, XDP_TX_METADATA, XdpDesc, XskTxMetadata, address,
};

use super::config::{Shape, TX_HEADROOM};
use super::control::XdpControl;
use super::launch::LaunchClock;
use super::queue::{Requests, XdpQueue};
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::mask::Class;
use crate::pool::{Pool, Returned};
use crate::port::device::removed;
use crate::port::offload::limits;
use crate::port::tx::Transmit;
use crate::ring::cursor::{Consumer, Producer};
use crate::stats::TxCounters;

/// Frames reclaimed at a time.
const PORTION: u32 = 64;
/// The queue has stalled if frames wait for this long without any completion, in nanoseconds.
const STALL: u64 = 10_000_000;
/// Bytes of metadata before a packet.
const METADATA: usize = size_of::<XskTxMetadata>();
/// The shortest Ethernet frame: addresses and type.
const LEAST: usize = 14;

/// Sends frames of the queue's region in place, and copies of all others.
pub(super) struct Transmitter {
    tx: Producer,
    completion: Consumer,
    pool: Pool,
    portion: Batch,
    /// Empty frames for packets of foreign memory; empty between calls.
    copies: Batch,
    /// Descriptors and frames that are not completed.
    descriptors: u32,
    frames: u32,
    shape: Shape,
    flagged: bool,
    /// The accepted requests for packets. With any of them, every packet has room for metadata
    /// before it.
    requests: Requests,
    /// The clock for sending frames at their times.
    launches: Option<LaunchClock>,
    /// Transmitted frames kept for the program: at most a part of the pool, so that the pool never
    /// runs out.
    sent: Batch,
    /// Frames not taken in time.
    missed: u64,
    /// How far the clock of TX timestamps is ahead of the clock of frames, in nanoseconds.
    ahead: u64,
    /// Monotonic time of the start of the wait for a completion; 0 after each completion.
    progress: u64,
    /// Completions of frames that were not being sent.
    strangers: u64,
    counters: Arc<TxCounters>,
    handle: Arc<XdpControl>,
    /// Dropped after the cursors, which point into it.
    queue: Arc<XdpQueue>,
}

/// How one frame is sent.
#[derive(Clone, Copy)]
enum SendMethod {
    /// In place, in this many pieces.
    Direct(u32),
    /// By copy, in this many pieces.
    Copied(u32),
    /// Not at all.
    Refused,
}

impl SendMethod {
    fn pieces(self) -> u32 {
        match self {
            Self::Direct(pieces) | Self::Copied(pieces) => pieces,
            Self::Refused => 0,
        }
    }

    fn is_copied(self) -> bool {
        matches!(self, Self::Copied(_))
    }
}

impl Transmitter {
    /// `None` if the queue has no TX ring. `flagged`: the socket is bound with
    /// `XDP_USE_NEED_WAKEUP`; its UMEM has room for `requests`.
    ///
    /// # Safety
    /// The queue has no other transmitter.
    pub(super) unsafe fn new(
        queue: Arc<XdpQueue>,
        pool: Pool,
        shape: Shape,
        (flagged, requests, launches): (bool, Requests, Option<LaunchClock>),
        counters: Arc<TxCounters>,
        handle: Arc<XdpControl>,
    ) -> Option<Self> {
        let ring = queue.tx.as_ref()?;
        // SAFETY: by the contract; the queue is dropped after the cursors.
        let (tx, completion) =
            unsafe { (XdpQueue::producer(ring), XdpQueue::consumer(&queue.completion)) };
        // A device has a separate clock.
        let ahead = if queue.is_zero_copy() { 0 } else { clock::tai_offset_ns() };
        Some(Self {
            tx,
            completion,
            sent: Batch::new(if requests.timestamps { pool.size() as usize / 4 } else { 0 }),
            pool,
            missed: 0,
            ahead,
            portion: Batch::new(PORTION as usize),
            copies: Batch::new(ring.size() as usize),
            descriptors: 0,
            frames: 0,
            shape,
            flagged,
            requests,
            launches,
            progress: 0,
            strangers: 0,
            counters,
            handle,
            queue,
        })
    }

    /// How `frame` is sent.
    #[inline(always)]
    fn way(&self, frame: &Frame) -> SendMethod {
        let len = frame.len();
        if self.requests.checksums && frame.checksum().is_some_and(|place| !place.is_inside(len)) {
            return SendMethod::Refused;
        }
        if !self.takes(frame.data()) {
            return SendMethod::Refused;
        }
        let Some(at) = self.queue.region.address(frame) else {
            // Copies start at the same offset in every chunk.
            return SendMethod::Copied(self.pieces_of(u64::from(TX_HEADROOM), len as u64));
        };
        if self.requests.any() && self.has_no_room(frame, at) {
            return SendMethod::Copied(1);
        }
        match self.pieces_of(at, len as u64) {
            1 => SendMethod::Direct(1),
            pieces if self.shape.pieces => SendMethod::Direct(pieces),
            // It crosses a boundary of the kernel's chunks.
            _ => SendMethod::Copied(1),
        }
    }

    /// Whether a packet of this length can be sent. The longest one has a tag; a second tag does
    /// not count towards the MTU either.
    #[inline(always)]
    fn takes(&self, packet: &[u8]) -> bool {
        let (len, longest) = (packet.len(), self.shape.longest as usize);
        len >= LEAST && (len <= longest || len <= longest + 4 && limits::tags(packet) == 8)
    }

    /// Whether the bytes before the packet at `at` do not all belong to the packet, or are in
    /// another chunk of the kernel. The kernel would refuse the packet, even without metadata
    /// (`xp_aligned_validate_desc`).
    fn has_no_room(&self, frame: &Frame, at: u64) -> bool {
        let before = if self.shape.unaligned { at } else { at & (u64::from(self.shape.frame) - 1) };
        frame.before() < METADATA || before < METADATA as u64
    }

    /// The number of descriptors for `len` bytes at `at`.
    #[inline(always)]
    fn pieces_of(&self, at: u64, len: u64) -> u32 {
        let frame = u64::from(self.shape.frame);
        let first = self.piece(at, len);
        if first == len { 1 } else { 1 + (len - first).div_ceil(frame) as u32 }
    }

    /// Bytes of the first descriptor for `left` bytes at `at`: it is no longer than a chunk, and
    /// does not cross an aligned chunk's boundary.
    #[inline(always)]
    fn piece(&self, at: u64, left: u64) -> u64 {
        let frame = u64::from(self.shape.frame);
        let skip = if self.shape.unaligned { 0 } else { at & (frame - 1) };
        left.min(frame - skip)
    }

    /// Writes the descriptors of `frame`, which is in the region, beginning with the reserved slot
    /// `slot`, and lends the frame to the kernel. Returns the number of descriptors.
    #[inline(always)]
    fn put(&self, ring: &MappedRing<xdp::Tx>, mut frame: Frame, slot: u32) -> u32 {
        let region = &self.queue.region;
        let first = if self.requests.any() {
            request(self.requests, self.launches.as_ref(), &mut frame)
        } else {
            0
        };
        let Some(mut at) = region.address(&frame) else { return 0 };
        let mut left = frame.len() as u64;
        let pieces = self.pieces_of(at, left);
        // SAFETY: of the region, where it has an address.
        unsafe { region.lend(frame, self.queue.sending, pieces) };
        for i in 0..pieces {
            let len = self.piece(at, left);
            let more = if i + 1 < pieces { XDP_PKT_CONTD } else { 0 };
            let options = more | if i == 0 { first } else { 0 };
            let descriptor = XdpDesc { addr: at, len: len as u32, options };
            // SAFETY: one of the reserved slots of this ring.
            unsafe { ring.write(self.tx.slot(slot + i), descriptor) };
            (at, left) = (at + len, left - len);
        }
        pieces
    }

    /// How many of the first frames of `batch` can be sent now; allocates frames for the copies.
    #[inline]
    fn plan(&mut self, batch: &Batch) -> usize {
        let limit = self.queue.completion.size() - self.descriptors;
        let wanted = if self.shape.pieces { limit } else { limit.min(batch.len() as u32) };
        let room = self.tx.reserve(wanted);
        let (mut used, mut copies, mut taken) = (0, 0, 0);
        for frame in batch.iter() {
            let way = self.way(frame);
            used += way.pieces();
            if used > room {
                break;
            }
            copies += usize::from(way.is_copied());
            taken += 1;
        }
        if copies == 0 { taken } else { self.prepare_copies(batch, taken, copies) }
    }

    /// Allocates `copies` frames for copies. If fewer are free, returns how many of the first
    /// frames of `batch` they suffice for.
    fn prepare_copies(&mut self, batch: &Batch, taken: usize, copies: usize) -> usize {
        let mut left = self.pool.take(&mut self.copies, copies);
        if left == copies {
            return taken;
        }
        let mut fits = |frame: &&Frame| {
            let copied = usize::from(self.way(frame).is_copied());
            left.checked_sub(copied).map(|now| left = now).is_some()
        };
        batch.iter().take(taken).take_while(|frame| fits(frame)).count()
    }

    /// Takes back the sent frames, and counts them.
    fn reclaim(&mut self) {
        let (mut packets, mut bytes) = (0, 0);
        loop {
            let n = self.completion.available(PORTION);
            if n == 0 {
                break;
            }
            for i in 0..n {
                // SAFETY: one of the available slots of this ring.
                let raw = unsafe { self.queue.completion.read(self.completion.slot(i)) };
                let (at, sending) = (address(raw), self.queue.sending);
                // SAFETY: the kernel has put it into the completion ring, so it is done with it.
                match unsafe { self.queue.region.take_back(at, sending) } {
                    Returned::Frame(frame) => {
                        packets += 1;
                        bytes += frame.len() as u64;
                        if self.requests.timestamps {
                            self.keep(frame);
                        } else {
                            self.portion.as_vec().push(frame);
                        }
                    }
                    Returned::Piece => {}
                    Returned::Stranger => self.strangers += 1,
                }
            }
            self.completion.release(n);
            self.descriptors = self.descriptors.saturating_sub(n);
            self.portion.clear();
        }
        if packets > 0 {
            self.frames = self.frames.saturating_sub(packets as u32);
            self.counters.packets.add(packets);
            self.counters.bytes.add(bytes);
            self.progress = 0;
        }
        self.queue.gauge.sending.store(self.frames, Ordering::Relaxed);
    }

    /// Keeps a sent frame, with its time.
    fn keep(&mut self, mut frame: Frame) {
        let left = frame.read_before().map_or(0, |bytes| XskTxMetadata::left_at(&bytes));
        frame.stamp(left.saturating_sub(self.ahead), self.queue.number, Class::Tx);
        if self.sent.push(frame).is_err() {
            self.missed += 1;
        }
    }

    /// Makes the kernel send while there is progress.
    fn send(&mut self) -> Result<()> {
        let mut left = self.unsent();
        while left > 0 && self.wants_wakeup() {
            self.wake()?;
            self.reclaim();
            let now = self.unsent();
            if now >= left {
                break;
            }
            left = now;
        }
        Ok(())
    }

    /// Descriptors that the kernel has not taken.
    fn unsent(&self) -> u32 {
        self.queue.tx.as_ref().map_or(0, MappedRing::occupied)
    }

    fn wants_wakeup(&self) -> bool {
        !self.flagged || self.queue.tx.as_ref().is_some_and(MappedRing::needs_wakeup)
    }

    fn wake(&mut self) -> Result<()> {
        self.counters.system_calls.add(1);
        let Err(error) = self.queue.socket().wake_tx() else {
            self.counters.hold(None);
            return Ok(());
        };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // One call does not send all; or the device or the completion ring is full.
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(()),
            // The link may return. Unsent frames remain in the ring.
            Some(Errno::NETDOWN) => {
                self.counters.hold(Some(&error));
                Ok(())
            }
            // xsk_check_common(): the socket is no longer bound.
            Some(Errno::NXIO) => {
                self.counters.hold(Some(&error));
                Err(removed(&self.handle.device.name))
            }
            _ => Err(Error::io(self.handle.device.name.as_str(), "sendto", error)),
        }
    }

    /// Wakes a kernel that has been silent for too long, even if it does not request it.
    fn check_stall(&mut self) -> Result<()> {
        if self.frames == 0 {
            return Ok(());
        }
        let now = clock::monotonic_ns();
        if self.progress == 0 {
            self.progress = now;
        } else if now.saturating_sub(self.progress) > STALL {
            self.progress = now;
            self.counters.stalls.add(1);
            self.wake()?;
            self.reclaim();
        }
        Ok(())
    }
}

/// Writes the requests before `frame`; returns the option for its descriptor.
#[inline(always)]
fn request(requests: Requests, launches: Option<&LaunchClock>, frame: &mut Frame) -> u32 {
    let mut metadata = XskTxMetadata::default();
    if requests.timestamps {
        metadata = metadata.timestamp();
    }
    if let Some(place) = frame.checksum().filter(|_| requests.checksums) {
        metadata = metadata.checksum(place.start, place.offset);
    }
    if let Some(time) = launches.and_then(|clock| clock.launch(frame.timestamp())) {
        metadata = metadata.launch(time);
    }
    // There is room: `has_no_room` was checked.
    if !metadata.is_none() && frame.write_before(&metadata.bytes()) { XDP_TX_METADATA } else { 0 }
}

impl Transmit for Transmitter {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if self.queue.completion.size() - self.descriptors < 2 * batch.len() as u32 {
            self.reclaim();
        }
        if let Some(launches) = &mut self.launches {
            launches.keep(clock::monotonic_ns());
        }
        let taken = self.plan(batch);
        let Some(ring) = &self.queue.tx else { return 0 };
        let (mut used, mut sent, mut strange, mut copied) = (0, 0, 0, 0);
        for mut frame in batch.drain(taken) {
            match self.way(&frame) {
                SendMethod::Direct(_) => {}
                SendMethod::Copied(_) => {
                    let copy = self.copies.pop().and_then(|mut copy| {
                        let left = frame.offload().unwrap_or_default();
                        let fits = copy.fill(frame.data()) && copy.set_offload(left);
                        copy.set_timestamp(frame.timestamp());
                        fits.then_some(copy)
                    });
                    let Some(copy) = copy else {
                        strange += 1;
                        continue;
                    };
                    copied += 1;
                    frame = copy;
                }
                SendMethod::Refused if self.takes(frame.data()) => {
                    self.counters.unfinished.add(1);
                    self.counters.errors.add(1);
                    continue;
                }
                SendMethod::Refused => {
                    strange += 1;
                    continue;
                }
            }
            used += self.put(ring, frame, used);
            sent += 1;
        }
        self.copies.clear();
        self.tx.publish(used);
        self.descriptors += used;
        self.frames += sent;
        if strange > 0 {
            self.counters.of_wrong_length(strange);
        }
        if copied > 0 {
            self.counters.copied.add(copied);
        }
        self.queue.gauge.sending.store(self.frames, Ordering::Relaxed);
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.recall();
        let got = self.pool.take(batch, n);
        if got < n {
            self.reclaim();
            return got + self.pool.take(batch, n - got);
        }
        got
    }

    fn sent(&mut self, batch: &mut Batch) -> usize {
        self.reclaim();
        let taken = batch.room().min(self.sent.len());
        batch.as_vec().extend(self.sent.drain(taken));
        taken
    }

    fn flush(&mut self) -> Result<()> {
        self.reclaim();
        self.send()?;
        self.check_stall()
    }

    fn pending(&self) -> usize {
        self.frames as usize
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.flush()?;
        if self.descriptors < self.queue.completion.size() {
            return Ok(());
        }
        self.counters.system_calls.add(1);
        let waited = self.queue.socket().wait_writable(timeout);
        waited.map_err(|error| Error::os(self.handle.device.name.as_str(), error))?;
        self.flush()
    }
}

impl Drop for Transmitter {
    fn drop(&mut self) {
        // Unsent frames return to their pools with the queue.
        let refused =
            self.queue.socket().statistics().map_or(0, |counted| counted.tx_invalid_descs);
        let number = self.queue.number;
        for (count, what) in [
            (refused, "refused descriptors to send"),
            (self.strangers, "completed descriptors that nobody sent"),
            (self.missed, "stamped packets that nobody asked for in time"),
        ] {
            if count > 0 {
                self.handle.note(format!("the kernel {what} on queue {number}: {count}"));
            }
        }
    }
}
