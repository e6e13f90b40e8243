//! The kernel's side of one queue: a socket, its four rings and what is in flight in them.
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

/// A socket with its rings. When neither an end nor the port uses it any more, it is closed, and
/// chunks of the kernel return to their pools.
pub(super) struct Queue {
    /// `None` while it is being closed.
    socket: Option<XskSocket>,
    pub(super) number: u16,
    pub(super) fill: MappedRing<Fill>,
    pub(super) completion: MappedRing<Completion>,
    pub(super) rx: Option<MappedRing<Rx>>,
    pub(super) tx: Option<MappedRing<Tx>>,
    pub(super) region: Region,
    /// What is in the fill ring, with the device, or in the RX ring.
    pub(super) receiving: Tag,
    /// What is in the TX ring, with the device, or in the completion ring.
    pub(super) sending: Tag,
    pub(super) gauge: Arc<Gauge>,
}

/// The counts of a queue, readable from outside even after its end.
#[derive(Default)]
pub(super) struct Gauge {
    /// Chunks with the kernel to receive into, or received and not taken.
    pub(super) receiving: AtomicU32,
    /// Packets with the kernel to be sent, or sent and not reclaimed.
    pub(super) sending: AtomicU32,
}

/// What to open of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) number: u16,
    pub(super) receive: bool,
    pub(super) transmit: bool,
}

/// What the kernel or the device can do to packets to send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    /// To complete their checksums.
    pub(super) checksums: bool,
    /// To say when they left.
    pub(super) timestamps: bool,
    /// To send them at given times.
    pub(super) launches: bool,
}

impl Requests {
    /// Whether there is room for metadata before each packet.
    pub(super) fn any(self) -> bool {
        self.checksums || self.timestamps || self.launches
    }
}

impl Queue {
    /// Opens a socket and makes its rings, with the UMEM of `owner` or one of its own. It is not
    /// bound, so nothing is received. With `requests` the UMEM has room for metadata before packets
    /// to send.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn create(
        request: Request,
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
        // A place for every frame, so that it is never the fill ring that is full.
        let fill = ring(&socket, shape.frames.max(HOST_FRAMES).next_power_of_two())?;
        let completion = ring(&socket, config.ring)?;
        let rx = request.receive.then(|| ring(&socket, shape.rx_ring)).transpose()?;
        let tx = request.transmit.then(|| ring(&socket, config.ring)).transpose()?;
        if tx.is_some() {
            // Kernels without it send 32 packets per call, which costs more calls and nothing else.
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

    /// The socket; an error while it is being closed.
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

    /// The cursor of a ring that we fill.
    ///
    /// # Safety
    /// It is the only one of this ring, and goes before the queue.
    pub(super) unsafe fn producer<K: Produced>(ring: &MappedRing<K>) -> Producer {
        let (producer, consumer) = words(ring);
        // SAFETY: the words are valid while the ring is, and the kernel never produces here.
        unsafe { Producer::new(producer, consumer, ring.size()) }
    }

    /// The cursor of a ring that the kernel fills.
    ///
    /// # Safety
    /// As [`Queue::producer`].
    pub(super) unsafe fn consumer<K: Consumed>(ring: &MappedRing<K>) -> Consumer {
        let (producer, consumer) = words(ring);
        // SAFETY: the words are valid while the ring is, and the kernel never consumes here.
        unsafe { Consumer::new(producer, consumer, ring.size()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // First the socket: when it is closed the kernel no longer touches what it had. With zero
        // copy the device may for a moment (`xp_release_deferred`); a chunk of a queue that is gone
        // is not used again, and one that was to be sent is only read.
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

/// Counts the frames of one queue, even after its end.
pub(super) struct QueueGauge {
    pub(super) pools: Vec<PoolGauge>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) queue: std::sync::Weak<Queue>,
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

/// Makes a ring of `size` elements and maps it.
fn ring<K: RingKind>(socket: &XskSocket, size: u32) -> wirelane_os::Result<MappedRing<K>> {
    socket.set_ring::<K>(size)?;
    socket.map_ring(size)
}

fn words<K: RingKind>(ring: &MappedRing<K>) -> (NonNull<AtomicU32>, NonNull<AtomicU32>) {
    (ring.producer(), ring.consumer())
}

const ENOSPC: i32 = rustix::io::Errno::NOSPC.raw_os_error();
