//! Puts a coalescer behind a receiving end: it merges consecutive packets of a flow into one frame
//! before a consumer sees them. The inverse of [`gso`](super::gso).
//!
//! ```text
//!   RX ring ─▶ each packet ─┬─ alone ─────────────────────────────▶ ready ─▶ consumer
//!                           └─ held, with its followers ─┐            ▲
//!                                one flow, one frame ◀───┘────────────┘ full, ended, or 20 µs old
//! ```
//!
//! A packet without followers passes in its own frame. When a second packet of its flow arrives,
//! both are copied into a long frame of this wrapper's memory, as is each later packet: one copy
//! per packet. When no long frame is free, packets pass unmerged.
//!
//! A merged frame has an [`Offload`]. A sink that accepts long frames receives it whole; for other
//! sinks, [`gso`](super::gso) segments it. So the sink needs a segmenter in front.
//!
//! A packet that could not be restored exactly stays alone: one with padding or a trailer, with
//! other tags or headers than its predecessor, or longer than the sink sends in one piece. A UDP
//! frame has at most 64 datagrams, as in the kernel. `Frame::packets` is the number of packets of a
//! frame, so counters count packets; `merged` counts the packets inside frames of others.

use std::collections::VecDeque;
use std::sync::Arc;

use wirelane_os::clock;

use crate::error::Result;
use crate::frame::{Batch, Frame, Offload, Protocols};
use crate::memory::Allotment;
use crate::pool::{Pool, PoolConfig, PoolGauge, Region};
use crate::port::offload::switches::Switches;
use crate::port::rx::{Readiness, Receive, Rx};
use crate::segment::{Alone, COALESCED, CoalesceCounters, Coalescer, Limits, Store};
use crate::stats::RxCounters;

/// Long frames per receiving end, held or on their way to the sink. Their memory is prefaulted, so
/// the number is small.
const FRAMES: u32 = 64;
/// The minimum, if memory is short.
const LEAST_FRAMES: u32 = 8;
/// Headroom before each packet, in bytes, as in other ports.
const HEADROOM: u32 = 128;

/// The statistics of a receiving end that merges, readable from any thread.
pub(crate) struct Merging {
    pub(crate) counters: Arc<CoalesceCounters>,
    pub(crate) frames: PoolGauge,
}

/// Puts a coalescer behind `rx`. It holds a packet for at most `limits.age` nanoseconds. With 0 it
/// holds none when a call returns, so received and delivered packets are equal. Protocols and
/// length come from `switches`.
///
/// # Errors
/// There is no memory for long frames.
pub(crate) fn rx(
    rx: Rx,
    limits: Limits,
    switches: Arc<Switches>,
    numa_node: Option<u32>,
) -> Result<(Rx, Merging)> {
    let chunk_size = (COALESCED as u32 + HEADROOM).next_multiple_of(2048);
    let bytes = |frames| Region::bytes_for(frames, chunk_size);
    let chunks = Allotment::of_rest().part(4).fit(FRAMES, LEAST_FRAMES, bytes);
    let region = Region::new(bytes(chunks), numa_node)?;
    let config = PoolConfig { chunks, chunk_size, headroom: HEADROOM, numa_node };
    let pool = Pool::in_region(&region, config)?;
    let coalescer = Coalescer::with_buffers(limits, GroBuffer::default);
    let merging = Merging { counters: Arc::clone(coalescer.counters()), frames: pool.gauge() };
    let rx = rx.wrap(|inner, counters| GroRx {
        inner,
        counters,
        coalescer,
        switches,
        frames: GroFrames {
            pool,
            ready: VecDeque::with_capacity(Batch::DEFAULT + limits.flows + 1),
        },
        incoming: Batch::default(),
    });
    Ok((rx, merging))
}

struct GroRx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    coalescer: Coalescer<GroBuffer>,
    switches: Arc<Switches>,
    frames: GroFrames,
    /// The packets just received; empty between calls.
    incoming: Batch,
}

impl GroRx {
    /// Delivers ready frames while there is room. The caller counts each frame as one packet of its
    /// length; this adds the other merged packets.
    fn hand_out(&mut self, batch: &mut Batch) {
        let n = batch.room().min(self.frames.ready.len());
        let (mut merged, mut bytes) = (0, 0);
        for frame in self.frames.ready.drain(..n) {
            merged += frame.packets() - 1;
            bytes += frame.wire_bytes() - u64::from(frame.original_len());
            batch.as_vec().push(frame);
        }
        self.counters.packets.add(merged);
        self.counters.bytes.add(bytes);
        self.counters.merged.add(merged);
    }

    /// Passes on truncated packets unmerged, and gives the others to the coalescer.
    fn merge(&mut self, now: u64) {
        let count = self.incoming.len();
        for frame in self.incoming.drain(count) {
            if frame.len() < frame.original_len() as usize {
                self.coalescer.pass(frame, Alone::Cut, &mut self.frames);
                continue;
            }
            let offload = frame.offload().unwrap_or_default();
            self.coalescer.take(frame, &offload, now, &mut self.frames);
        }
    }
}

impl Receive for GroRx {
    fn ring_bytes(&self) -> Option<usize> {
        self.inner.ring_bytes()
    }

    fn receive(&mut self, batch: &mut Batch) -> usize {
        let before = batch.len();
        self.hand_out(batch);
        let Protocols { tcp, udp } = self.switches.gro();
        if !(tcp || udp) && self.coalescer.held() == 0 {
            return batch.len() - before + self.inner.receive(batch);
        }
        self.coalescer.adjust(tcp, udp, self.switches.max_burst() as usize);
        // Until a frame is ready; `expire_to` also delivers frames whose age is over.
        while batch.len() == before {
            self.incoming.set_limit(batch.room());
            let received = self.inner.receive(&mut self.incoming);
            if received == 0 && self.coalescer.held() == 0 {
                break;
            }
            let now = clock::monotonic_ns();
            self.merge(now);
            match self.coalescer.limits().age {
                0 => self.coalescer.flush_to(&mut self.frames),
                _ => self.coalescer.expire_to(now, &mut self.frames),
            }
            self.hand_out(batch);
            if received == 0 {
                break;
            }
        }
        batch.len() - before
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if !self.frames.ready.is_empty() {
            return Ok(Readiness::Now);
        }
        // Held frames are ready soon; the end follows them.
        if self.coalescer.held() > 0 { Ok(Readiness::Now) } else { self.inner.readiness() }
    }

    fn watermark(&self) -> u64 {
        let held = self.coalescer.buffers().filter_map(GroBuffer::frame);
        let inside = self.frames.ready.iter().chain(held).map(Frame::timestamp);
        inside.fold(self.inner.watermark(), u64::min)
    }
}

/// The buffer of a growing frame.
#[derive(Debug, Default)]
enum GroBuffer {
    #[default]
    Empty,
    /// One packet, in the frame in which it was received.
    Single(Frame),
    /// Several packets, in a long frame.
    Long(Frame),
}

impl GroBuffer {
    fn frame(&self) -> Option<&Frame> {
        match self {
            Self::Empty => None,
            Self::Single(frame) | Self::Long(frame) => Some(frame),
        }
    }
}

/// The memory of long frames, and the queue of frames to deliver.
struct GroFrames {
    pool: Pool,
    ready: VecDeque<Frame>,
}

impl GroFrames {
    /// A long frame with the bytes, time, queue and class of `first`.
    fn long(&mut self, first: &Frame) -> Option<Frame> {
        let mut long = self.pool.take_one()?;
        long.stamp(first.timestamp(), first.queue_number(), first.class());
        long.fill(first.data()).then_some(long)
    }
}

impl Store for GroFrames {
    type Packet<'p> = Frame;
    type Buffer = GroBuffer;

    fn bytes(packet: &Frame) -> &[u8] {
        packet.data()
    }

    fn content(slot: &GroBuffer) -> &[u8] {
        slot.frame().map_or(&[], Frame::data)
    }

    fn content_mut(slot: &mut GroBuffer) -> &mut [u8] {
        match slot {
            GroBuffer::Empty => &mut [],
            GroBuffer::Single(frame) | GroBuffer::Long(frame) => frame.data_mut(),
        }
    }

    fn begin(&mut self, slot: &mut GroBuffer, packet: Frame) {
        *slot = GroBuffer::Single(packet);
    }

    fn append(&mut self, slot: &mut GroBuffer, payload: &[u8]) -> bool {
        if let GroBuffer::Single(first) = slot {
            let Some(long) = self.long(first) else { return false };
            *slot = GroBuffer::Long(long);
        }
        let GroBuffer::Long(frame) = slot else { return false };
        let end = frame.len();
        let fits = frame.set_len(end + payload.len());
        if fits && let Some(place) = frame.data_mut().get_mut(end..) {
            place.copy_from_slice(payload);
        }
        fits
    }

    fn pass(&mut self, packet: Frame) {
        self.ready.push_back(packet);
    }

    fn hand_on(&mut self, slot: &mut GroBuffer, offload: Offload, packets: u32, bytes: u32) {
        match std::mem::take(slot) {
            GroBuffer::Empty => {}
            GroBuffer::Single(frame) => self.ready.push_back(frame),
            GroBuffer::Long(mut frame) => {
                let fits = frame.set_offload(offload) && frame.set_merged(packets, bytes);
                debug_assert!(fits);
                self.ready.push_back(frame);
            }
        }
    }
}

#[cfg(test)]
#[path = "gro_tests.rs"]
mod tests;
