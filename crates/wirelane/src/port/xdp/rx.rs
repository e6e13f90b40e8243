//! The receiving end of one queue.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::clock;
use wirelane_os::xdp::XDP_PKT_CONTD;

use super::config::AutoSwitch;
use super::control::XdpControl;
use super::fill::{FillRing, PORTION};
use super::idle::IdlePolicy;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::device::removed;
use crate::port::rx::{Readiness, Receive};
use crate::ring::cursor::Consumer;
use crate::stats::RxCounters;

/// Period of reading the socket's error and counters without packets, in nanoseconds.
const PERIOD: u64 = 50_000_000;
/// Under load, the counters are read after this many batches.
const PERIOD_BATCHES: u32 = 4096;
/// The longest sleep: a stop must be noticed, and the watermark must advance.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// How long to wait for a consumer that holds every chunk.
const STARVED: Duration = Duration::from_millis(1);

/// The parts of a receiver.
pub(super) struct XdpRxParts {
    pub(super) fill: FillRing,
    /// Frames for packets received in pieces; `None` if packets have one piece.
    pub(super) whole: Option<Pool>,
    pub(super) counters: Arc<RxCounters>,
    pub(super) handle: Arc<XdpControl>,
    pub(super) snaplen: u32,
    pub(super) busy: bool,
    /// Busy-poll an empty ring instead of sleeping.
    pub(super) spin: AutoSwitch,
    /// Local packets may have partial checksums, which AF_XDP does not mark.
    pub(super) local: bool,
    /// The program puts hints before packets.
    pub(super) hints: bool,
}

/// Delivers the packets that the kernel has received. `PIECES`: packets can span several chunks.
pub(super) struct Receiver<const PIECES: bool> {
    rx: Consumer,
    fill: FillRing,
    assembly: Option<PieceAssembly>,
    counters: Arc<RxCounters>,
    handle: Arc<XdpControl>,
    snaplen: u32,
    busy: bool,
    idle: IdlePolicy,
    local: bool,
    hints: bool,
    watermark: u64,
    batches: u32,
    next_reading: u64,
    /// Number of descriptors for chunks that the kernel did not have.
    strangers: u64,
    failure: Option<Error>,
    ended: bool,
}

/// Assembles packets from pieces.
struct PieceAssembly {
    pool: Pool,
    /// The incomplete packet.
    open: Open,
    hints: bool,
    /// Packets dropped for lack of a frame.
    lost: u64,
}

enum Open {
    None,
    Packet(Frame),
    /// No frame was free, or the packet did not fit; its other pieces are dropped, too.
    Lost,
}

impl<const PIECES: bool> Receiver<PIECES> {
    /// `None` if the queue has no RX ring.
    ///
    /// # Safety
    /// The queue has no other receiver.
    pub(super) unsafe fn new(setup: XdpRxParts) -> Option<Self> {
        let ring = setup.fill.queue.rx.as_ref()?;
        let size = ring.size();
        Some(Self {
            // SAFETY: by the contract; the queue is a part of the fill ring, which is dropped
            // later.
            rx: unsafe { super::queue::XdpQueue::consumer(ring) },
            fill: setup.fill,
            assembly: setup.whole.map(|pool| PieceAssembly {
                pool,
                open: Open::None,
                hints: setup.hints,
                lost: 0,
            }),
            counters: setup.counters,
            handle: setup.handle,
            snaplen: setup.snaplen,
            busy: setup.busy,
            idle: IdlePolicy::new(setup.spin, size),
            local: setup.local,
            hints: setup.hints,
            watermark: 0,
            batches: 0,
            next_reading: 0,
            strangers: 0,
            failure: None,
            ended: false,
        })
    }

    /// Reads the kernel's counters. An empty fill ring means that frames were lacking. In zero copy
    /// the kernel counts failed attempts to get a chunk, and the device counts lost packets.
    fn read_statistics(&mut self) -> Result<()> {
        self.batches = 0;
        self.counters.system_calls.add(1);
        let statistics = self.fill.queue.socket().statistics();
        let statistics =
            statistics.map_err(|error| Error::os(self.handle.device.name.as_str(), error))?;
        let starved = statistics.rx_fill_ring_empty_descs.min(statistics.rx_dropped);
        let lost = self.assembly.as_ref().map_or(0, |assembly| assembly.lost);
        self.counters.kernel.set(statistics.rx_dropped - starved);
        self.counters.ring_full.set(statistics.rx_ring_full + starved + lost);
        Ok(())
    }

    /// Detects that the interface was removed: no more packets can arrive.
    fn check_error(&mut self) {
        self.counters.system_calls.add(1);
        let cause = match self.fill.queue.socket().take_error() {
            Ok(None) => return,
            Ok(Some(error)) => error,
            Err(error) => error.source,
        };
        let name = self.handle.device.name.as_str();
        self.failure = Some(match cause.raw_os_error() {
            // xsk_notifier() sets it when the interface is removed.
            Some(errno) if errno == Errno::NETDOWN.raw_os_error() => removed(name),
            _ => Error::failed(name, cause.to_string()),
        });
    }

    fn end(&mut self) -> Result<Readiness<'_>> {
        self.ended = true;
        let counted = self.read_statistics();
        if self.strangers > 0 {
            let (n, number) = (self.strangers, self.fill.queue.number);
            self.handle.note(format!(
                "the kernel returned {n} descriptors on queue {number} for chunks that it did not \
                 have"
            ));
        }
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => counted.map(|()| Readiness::End),
        }
    }

    #[inline]
    fn refill(&mut self) {
        if self.fill.refill() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        self.counters.system_calls.add(1);
        // A pending socket error reports problems of the interface.
        let _ = self.fill.queue.socket().wake_rx();
    }

    #[inline(always)]
    fn finish(&self, frame: &mut Frame, now: u64) {
        frame.stamp(now, self.fill.queue.number, Class::Rx);
        if self.local {
            frame.suspect_checksum();
        }
        if frame.len() > self.snaplen as usize {
            frame.truncate(self.snaplen as usize);
        }
    }
}

impl<const PIECES: bool> Receive for Receiver<PIECES> {
    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let before = batch.len();
        let wanted = batch.room().min(PORTION as usize) as u32;
        let n = self.rx.available(wanted);
        if n == 0 {
            // The kernel may be waiting for chunks that were returned.
            self.refill();
            return 0;
        }
        let now = clock::realtime_ns();
        for i in 0..n {
            let queue = &*self.fill.queue;
            let Some(ring) = &queue.rx else { break };
            // SAFETY: one of the available slots of this ring.
            let descriptor = unsafe { ring.read(self.rx.slot(i)) };
            let (address, len) = (descriptor.address(), descriptor.len);
            // SAFETY: the kernel has put it into the RX ring, so it is done with it.
            let frame = unsafe { queue.region.receive(address, len, queue.receiving) };
            let Some(mut frame) = frame else {
                self.strangers += 1;
                continue;
            };
            if PIECES && let Some(assembly) = &mut self.assembly {
                let more = descriptor.options & XDP_PKT_CONTD != 0;
                let Some(whole) = assembly.add(frame, more) else { continue };
                frame = whole;
            }
            self.finish(&mut frame, now);
            batch.as_vec().push(frame);
        }
        if self.hints {
            batch.iter_mut().skip(before).for_each(Frame::adopt_hints);
        }
        self.rx.release(n);
        self.fill.taken(n);
        self.idle.found(n);
        self.refill();
        self.watermark = now;
        self.batches += 1;
        if self.batches >= PERIOD_BATCHES {
            // `readiness` reports a failure.
            let _ = self.read_statistics();
        }
        batch.len() - before
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.ended {
            return Ok(Readiness::End);
        }
        // In this order: when the stop is seen, earlier packets are in the ring.
        let time = clock::realtime_ns();
        let stopped = self.handle.stopped();
        self.refill();
        if self.rx.available(1) > 0 {
            return Ok(Readiness::Now);
        }
        if stopped || self.failure.is_some() {
            return self.end();
        }
        // Frames are timestamped when they are taken from the ring.
        self.watermark = self.watermark.max(time);
        if time >= self.next_reading || self.next_reading > time + 2 * PERIOD {
            self.next_reading = time + PERIOD;
            self.read_statistics()?;
            self.check_error();
        }
        if self.fill.is_starved() {
            return Ok(Readiness::After(STARVED));
        }
        if self.busy || self.fill.queue.fill.needs_wakeup() {
            self.wake();
        }
        let fd = self.fill.queue.fd();
        if self.busy || self.idle.busy_polls(time) {
            std::hint::spin_loop();
            return Ok(Readiness::Soon(fd, LONGEST_SLEEP));
        }
        Ok(Readiness::Descriptor(fd, LONGEST_SLEEP))
    }

    fn watermark(&self) -> u64 {
        self.watermark
    }
}

impl PieceAssembly {
    /// The packet, if `piece` completes it.
    #[inline]
    fn add(&mut self, mut piece: Frame, more: bool) -> Option<Frame> {
        let whole = match std::mem::replace(&mut self.open, Open::None) {
            Open::None if !more => return Some(piece),
            Open::None => self.begin(&mut piece),
            Open::Packet(whole) => Some(whole),
            Open::Lost => None,
        };
        let whole = whole.and_then(|mut whole| append(&mut whole, piece.data()).then_some(whole));
        match (whole, more) {
            (Some(whole), true) => self.open = Open::Packet(whole),
            (Some(whole), false) => return Some(whole),
            (None, true) => self.open = Open::Lost,
            (None, false) => self.lost += 1,
        }
        None
    }

    /// A frame for the packet that begins with `piece`, with the driver's hints that precede it.
    fn begin(&mut self, piece: &mut Frame) -> Option<Frame> {
        let mut whole = self.pool.take_one().filter(|whole| piece.len() <= whole.capacity())?;
        if self.hints
            && let Some(hints) = piece.take_hints()
        {
            whole.keep_hints(hints);
        }
        Some(whole)
    }
}

fn append(whole: &mut Frame, piece: &[u8]) -> bool {
    let start = whole.len();
    let fits = whole.set_len(start + piece.len());
    if let Some(end) = whole.data_mut().get_mut(start..).filter(|_| fits) {
        end.copy_from_slice(piece);
    }
    fits
}

impl<const PIECES: bool> Drop for Receiver<PIECES> {
    fn drop(&mut self) {
        // Without a receiver, packets belong to the host.
        self.handle.abandon(self.fill.queue.number);
    }
}
