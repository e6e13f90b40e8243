//! Puts a segmenter in front of a transmitting end: it segments frames that are too long for the
//! wire, as late as possible.
//!
//! ```text
//!   frames of up to 64 KB ─▶ [queueing discipline] ─▶ plan ─┬─ fits ─────────────▶ TX ring
//!                                                           ├─ cut ─▶ segments ──▶ TX ring
//!                                                           └─ refused: counted
//! ```
//!
//! Segments are written into the slots of a ring, or else into frames of the sink's memory, so the
//! copy out of the long frame is the only copy. When the sink is full, segmentation pauses until
//! the next call: order is kept, no segment is lost or sent twice.
//!
//! A cut packet is written directly into a ring slot (`Transmit::place`) or into a frame of the
//! sink's memory.

use std::sync::Arc;
use std::time::Duration;

use wirelane_wire::{FlowKey, Protocol, flow::Addresses};

use crate::error::Result;
use crate::frame::{Batch, Frame, Gso, Offload, PartialChecksum, Protocols, Sink};
use crate::pool::{Pool, PoolConfig, Region};
use crate::port::offload::jumbo;
use crate::port::offload::switches::Switches;
use crate::port::steering::xps_binding::XpsBinding;
use crate::port::tx::{Transmit, Tx};
use crate::segment::{Cursor, Segmenter, Verdict};
use crate::stats::TxCounters;

/// Puts `segmenter` in front of `tx`.
pub fn tx(tx: Tx, segmenter: Segmenter, switches: Arc<Switches>) -> Tx {
    let segments = Arc::clone(segmenter.counters());
    tx.wrap(|mut inner, counters| GsoTx {
        // Slots cannot carry the pending offload of a segment; only frames can.
        has_slots: !segmenter.sink().checksum && inner.place(&mut |_| None).is_some(),
        inner,
        counters,
        short: segmenter.sink().mtu.saturating_add(ETHERNET),
        sink: *segmenter.sink(),
        segmenter,
        switches,
        max_burst: u32::MAX,
        current: None,
        ready: Batch::default(),
        empty: Batch::default(),
        long: None,
        incoming: Vec::new(),
    })
    .takes_offloads(true)
    .with_segments(segments)
}

/// A frame with at most this many bytes beyond the MTU always fits.
const ETHERNET: usize = 14;
/// The longest segment: an IP packet behind an Ethernet header and eight tags.
const LONGEST: u32 = 65_535 + 14 + 8 * 4;
/// The batch size; each frame has room for its pending offload.
const FRAMES: u32 = Batch::DEFAULT as u32;
const HEADROOM: u32 = 128;

struct GsoTx {
    inner: Box<dyn Transmit>,
    /// It has memory that can be written without a frame.
    has_slots: bool,
    counters: Arc<TxCounters>,
    segmenter: Segmenter,
    switches: Arc<Switches>,
    /// The sink of the port itself.
    sink: Sink,
    /// The limit last given to the segmenter.
    max_burst: u32,
    /// Frames up to this length pass unexamined.
    short: usize,
    /// The frame being segmented. It follows all frames in `ready`.
    current: Option<(Frame, Cursor)>,
    /// Frames that can be sent, in order.
    ready: Batch,
    /// Memory for segments.
    empty: Batch,
    /// Memory for segments too long for the sink's frames. It is allocated for the first such
    /// segment, because ports to a wire need none.
    long: Option<Pool>,
    /// The frames being examined; empty between calls.
    incoming: Vec<Frame>,
}

impl GsoTx {
    /// Passes on as many frames as the sink takes; true if none is left.
    fn push(&mut self) -> bool {
        loop {
            let cut = self.cut();
            let sent = self.inner.transmit(&mut self.ready);
            if !self.ready.is_empty() || cut + sent == 0 {
                return self.ready.is_empty() && self.current.is_none();
            }
        }
    }

    /// Segments the current frame while there is room; returns the number of segments.
    fn cut(&mut self) -> usize {
        let Some((frame, cursor)) = &mut self.current else { return 0 };
        if self.has_slots {
            return if self.ready.is_empty() { self.cut_into_slots() } else { 0 };
        }
        let wanted = cursor.remaining().min(self.ready.room());
        let before = self.ready.len();
        self.inner.allocate(&mut self.empty, wanted);
        let needed = cursor.next_len();
        let mut failed = false;
        if self.empty.iter().any(|out| out.capacity() < needed) {
            self.empty.clear();
            match long_frames(&mut self.long) {
                Some(pool) => _ = pool.take(&mut self.empty, wanted),
                None => failed = true,
            }
        }
        let (out, has_no_time) = (self.empty.as_vec(), frame.timestamp() == 0 && frame.has_time());
        for out in out.iter_mut() {
            let room = out.capacity();
            let whole = out.set_len(room);
            debug_assert!(whole);
        }
        let taken = cursor.copies(frame.data(), out, |out, segment| {
            let fits = out.set_len(segment.len()) && out.set_offload(segment.offload);
            debug_assert!(fits);
            out.stamp(frame.timestamp(), frame.queue_number(), frame.class());
            if has_no_time {
                out.keep_time();
            }
        });
        let taken = taken.unwrap_or_default();
        failed |= taken.segments < out.len();
        self.segmenter.sent_all(cursor, &taken);
        self.ready.as_vec().extend(self.empty.drain(taken.segments));
        self.empty.clear();
        if failed {
            self.counters.of_wrong_length(1);
        }
        if failed || cursor.is_done() {
            self.current = None;
        }
        self.ready.len() - before
    }

    /// As [`GsoTx::cut`], into slots; `ready` must be empty.
    fn cut_into_slots(&mut self) -> usize {
        let Some((frame, cursor)) = &mut self.current else { return 0 };
        let (segmenter, mut failed) = (&mut self.segmenter, false);
        let placed = self.inner.place(&mut |room| {
            if cursor.is_done() {
                return None;
            }
            let Ok(segment) = cursor.copy(frame.data(), room) else {
                failed = true;
                return None;
            };
            segmenter.sent(cursor, &segment);
            Some(segment.len())
        });
        if failed {
            self.counters.of_wrong_length(1);
        }
        if failed || cursor.is_done() {
            self.current = None;
        }
        placed.unwrap_or(0)
    }

    /// Applies a new longest frame to the segmenter.
    #[inline]
    fn follow_switches(&mut self) {
        let max_burst = self.switches.max_burst();
        if max_burst != self.max_burst {
            self.max_burst = max_burst;
            let gso_max = self.sink.gso_max.map(|most| most.min(max_burst as usize));
            self.segmenter.set_sink(Sink { gso_max, ..self.sink });
        }
    }

    /// Decides how to send one frame.
    fn plan(&mut self, mut frame: Frame) {
        jumbo::take_off(&mut frame);
        let mut offload = frame.offload().unwrap_or_default();
        if offload.gso != Gso::None || frame.len() > self.short {
            let (len, is_long) = self.segmenter.measure(frame.data(), &offload);
            if len < frame.len() {
                let is_shorter = frame.set_len(len);
                debug_assert!(is_shorter);
            }
            if offload.gso == Gso::None && is_long {
                offload.gso = infer(frame.data(), self.switches.gso());
            }
        }
        match self.segmenter.plan(frame.data(), &offload) {
            Verdict::Pass(left) => {
                if frame.set_offload(left) {
                    self.ready.as_vec().push(frame);
                } else {
                    self.counters.unfinished.add(1);
                    self.counters.errors.add(1);
                }
            }
            // Only its checksum is missing: completed in place, without other memory.
            Verdict::Segment(cursor) if cursor.class().is_none() => {
                let place = offload.checksum.unwrap_or(PartialChecksum::UNKNOWN);
                if place.complete(frame.data_mut()) {
                    let nothing_left = frame.set_offload(Offload::default());
                    debug_assert!(nothing_left);
                    self.ready.as_vec().push(frame);
                } else {
                    self.counters.unfinished.add(1);
                    self.counters.errors.add(1);
                }
            }
            Verdict::Segment(cursor) => self.current = Some((frame, cursor)),
            Verdict::Refuse(_) => self.counters.errors.add(1),
        }
    }
}

/// Frames for segments that are too long for the sink's frames; `None` if there is no memory.
#[cold]
fn long_frames(pool: &mut Option<Pool>) -> Option<&mut Pool> {
    if pool.is_none() {
        let chunk_size = (LONGEST + HEADROOM).next_multiple_of(2048);
        let config = PoolConfig { chunks: FRAMES, chunk_size, headroom: HEADROOM, numa_node: None };
        let region = Region::new(Region::bytes_for(FRAMES, chunk_size), None);
        *pool = region.and_then(|region| Pool::in_region(&region, config)).ok();
    }
    pool.as_mut()
}

impl Transmit for GsoTx {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        if !self.push() {
            return 0;
        }
        let short = self.short;
        let passes = |frame: &Frame| frame.len() <= short && frame.offload().is_none();
        if batch.iter().all(passes) {
            return self.inner.transmit(batch);
        }
        self.follow_switches();
        let mut incoming = std::mem::take(&mut self.incoming);
        incoming.append(batch.as_vec());
        let offered = incoming.len();
        let mut frames = incoming.drain(..);
        // Stops when there is no room: unexamined frames stay with the caller.
        for frame in frames.by_ref() {
            self.plan(frame);
            if (self.current.is_some() || self.ready.room() == 0) && !self.push() {
                break;
            }
        }
        let left = frames.len();
        batch.as_vec().extend(frames);
        self.incoming = incoming;
        self.push();
        offered - left
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    fn bind(&mut self, place: XpsBinding) {
        self.inner.bind(place);
    }

    fn flush(&mut self) -> Result<()> {
        self.push();
        self.inner.flush()
    }

    fn pending(&self) -> usize {
        let cut = self.current.as_ref().map_or(0, |(_, cursor)| cursor.remaining());
        self.inner.pending() + self.ready.len() + cut
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.inner.wait(timeout)?;
        self.push();
        Ok(())
    }
}

/// The segmentation of a long frame that its sender did not mark, as in "GSO for FreeBSD" (2014).
fn infer(frame: &[u8], cut: Protocols) -> Gso {
    match FlowKey::parse(frame) {
        Ok(Some(flow)) => match (flow.protocol, flow.addresses) {
            (Protocol::TCP, Addresses::V4 { .. }) if cut.tcp => Gso::Tcp4,
            (Protocol::TCP, Addresses::V6 { .. }) if cut.tcp => Gso::Tcp6,
            (Protocol::UDP, _) if cut.udp => Gso::UdpFragment,
            _ => Gso::None,
        },
        _ => Gso::None,
    }
}

#[cfg(test)]
#[path = "gso_tests.rs"]
mod tests;
