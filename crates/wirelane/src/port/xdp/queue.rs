//! The kernel's side of one queue: a socket, its four rings and the chunks in flight.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use wirelane_os::xdp::{
    Completion, Consumed, Fill, MappedRing, Produced, RingKind, Rx, Tx, Umem, XskSocket,
};

use super::config::{BUSY_BUDGET, Config, HOST_FRAMES, Shape};
use crate::pool::{PoolGauge, Region, Tag};
use crate::port::accounting::FrameCounts;
use crate::ring::cursor::{Consumer, Producer};

/// A socket with its rings. It is closed when no end and no port uses it any more; the kernel's
/// chunks then return to their pools.
pub(super) struct XdpQueue {
    /// `None` while it is being closed.
    socket: Option<XskSocket>,
    pub(super) number: u16,
    pub(super) fill: MappedRing<Fill>,
    pub(super) completion: MappedRing<Completion>,
    pub(super) rx: Option<MappedRing<Rx>>,
    pub(super) tx: Option<MappedRing<Tx>>,
    pub(super) region: Region,
    /// Chunks in the fill ring, with the device, or in the RX ring.
    pub(super) receiving: Tag,
    /// Chunks in the TX ring, with the device, or in the completion ring.
    pub(super) sending: Tag,
    pub(super) gauge: Arc<Gauge>,
}

/// The counts of a queue, readable from other threads even after it was closed.
#[derive(Default)]
pub(super) struct Gauge {
    /// Chunks that the kernel has for receiving, or has filled and the receiver has not taken.
    pub(super) receiving: AtomicU32,
    /// Packets that the kernel has for sending, or has sent and the sender has not reclaimed.
    pub(super) sending: AtomicU32,
}

/// The ends to open of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueRequest {
    pub(super) number: u16,
    pub(super) receive: bool,
    pub(super) transmit: bool,
}

/// Requests to the kernel or the device for packets to send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    /// Complete their checksums.
    pub(super) checksums: bool,
    /// Report when they left.
    pub(super) timestamps: bool,
    /// Send them at given times.
    pub(super) launches: bool,
}

impl Requests {
    /// Whether each packet needs room for metadata before it.
    pub(super) fn any(self) -> bool {
        self.checksums || self.timestamps || self.launches
    }
}

impl XdpQueue {
    /// Opens a socket and sets up its rings. Registers a UMEM if it is the `owner`. The socket is
    /// not bound, so it receives no packets. With `requests` the UMEM has room for metadata before
    /// packets to send.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn create(
        request: QueueRequest,
        config: &Config,
        shape: &Shape,
        region: &Region,
        (owner, requests): (bool, Requests),
    ) -> wirelane_os::Result<Self> {
        let socket = XskSocket::open()?;
        if owner {
            let chunk = if shape.unaligned { 1 } else { shape.frame as usize };
            let umem = Umem {
                address: region.base().as_ptr(),
                len: region.size() / chunk * chunk,
                chunk_size: shape.frame,
                headroom: shape.headroom,
                unaligned: shape.unaligned,
                tx_metadata: requests.any(),
            };
            // SAFETY: the region is mapped as long as this queue, or any that shares the UMEM, and
            // only chunks in flight there get into a ring.
            unsafe { socket.register_umem(&umem)? };
        }
        // A slot for every frame, so that the fill ring is never full.
        let fill = ring(&socket, shape.frames.max(HOST_FRAMES).next_power_of_two())?;
        let completion = ring(&socket, config.ring)?;
        let rx = request.receive.then(|| ring(&socket, shape.rx_ring)).transpose()?;
        let tx = request.transmit.then(|| ring(&socket, config.ring)).transpose()?;
        if tx.is_some() {
            // Without it, kernels send 32 packets per call, which only costs more calls.
            let _ = socket.set_tx_budget(config.tx_budget);
        }
        if let Some(time) = config.busy {
            let time = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            socket.set_busy_poll(time, BUSY_BUDGET)?;
        }
        let exhausted = || wirelane_os::OsError::from_errno("names of rings", "", ENOSPC);
        let tag = || region.tag().ok_or_else(exhausted);
        Ok(Self {
            socket: Some(socket),
            number: request.number,
            fill,
            completion,
            rx,
            tx,
            region: region.clone(),
            receiving: tag()?,
            sending: tag()?,
            gauge: Arc::default(),
        })
    }

    /// The socket. Only `drop` takes it.
    #[inline(always)]
    pub(super) fn socket(&self) -> &XskSocket {
        match &self.socket {
            Some(socket) => socket,
            // Only `drop` takes it.
            None => unreachable!("a queue in use has a socket"),
        }
    }

    /// Whether the device itself reads and writes the chunks.
    pub(super) fn is_zero_copy(&self) -> bool {
        self.socket().is_zero_copy().unwrap_or(false)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// The cursor of a ring that user space fills.
    ///
    /// # Safety
    /// It is the only cursor of this ring, and is dropped before the queue.
    pub(super) unsafe fn producer<K: Produced>(ring: &MappedRing<K>) -> Producer {
        let (producer, consumer) = words(ring);
        // SAFETY: the words are valid while the ring is, and the kernel never produces here.
        unsafe { Producer::new(producer, consumer, ring.size()) }
    }

    /// The cursor of a ring that the kernel fills.
    ///
    /// # Safety
    /// As [`XdpQueue::producer`].
    pub(super) unsafe fn consumer<K: Consumed>(ring: &MappedRing<K>) -> Consumer {
        let (producer, consumer) = words(ring);
        // SAFETY: the words are valid while the ring is, and the kernel never consumes here.
        unsafe { Consumer::new(producer, consumer, ring.size()) }
    }
}

impl Drop for XdpQueue {
    fn drop(&mut self) {
        // The socket first: after closing, the kernel no longer uses its chunks. In zero copy the
        // device may use them for a moment (`xp_release_deferred`). This is harmless: chunks of a
        // closed queue are not used again for receiving, and the device only reads chunks to send.
        drop(self.socket.take());
        // SAFETY: the tags are of this region, and the rings that they name are closed.
        unsafe {
            self.region.reclaim(self.receiving);
            self.region.reclaim(self.sending);
        }
        self.gauge.receiving.store(0, Ordering::Relaxed);
        self.gauge.sending.store(0, Ordering::Relaxed);
    }
}

/// Counts the frames of one queue, even after it was closed.
pub(super) struct QueueGauge {
    pub(super) pools: Vec<PoolGauge>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) queue: std::sync::Weak<XdpQueue>,
}

impl QueueGauge {
    pub(super) fn frames(&self) -> FrameCounts {
        let sum =
            |of: fn(&PoolGauge) -> u32| self.pools.iter().map(|pool| u64::from(of(pool))).sum();
        let receiving = self.gauge.receiving.load(Ordering::Relaxed);
        let sending = self.gauge.sending.load(Ordering::Relaxed);
        let (rx, completion) = match self.queue.upgrade() {
            Some(queue) => {
                (queue.rx.as_ref().map_or(0, MappedRing::occupied), queue.completion.occupied())
            }
            None => (0, 0),
        };
        let (rx, completion) = (rx.min(receiving), completion.min(sending));
        FrameCounts {
            pool: sum(PoolGauge::size),
            free: sum(PoolGauge::free),
            fill: u64::from(receiving - rx),
            rx: u64::from(rx),
            tx: u64::from(sending - completion),
            completion: u64::from(completion),
        }
    }
}

/// Sets up a ring of `size` elements and maps it.
fn ring<K: RingKind>(socket: &XskSocket, size: u32) -> wirelane_os::Result<MappedRing<K>> {
    socket.set_ring::<K>(size)?;
    socket.map_ring(size)
}

fn words<K: RingKind>(ring: &MappedRing<K>) -> (NonNull<AtomicU32>, NonNull<AtomicU32>) {
    (ring.producer(), ring.consumer())
}

const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();
