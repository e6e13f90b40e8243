//! Puts a segmenter in front of a transmitting end: what is too long for the wire is cut there, as late
//! as possible.
//!
//! ```text
//!   frames of up to 64 KB ─▶ [queueing discipline] ─▶ plan ─┬─ fits ─────────────▶ TX ring
//!                                                           ├─ cut ─▶ segments ──▶ TX ring
//!                                                           └─ refused: counted
//! ```
//!
//! Segments are written into the slots of a ring, or else into frames of the sink's own memory, so that the copy
//! out of the long frame is the only one. When the sink is full the cut stands still where it is, and goes on with the next
//! call: order stays, nothing is lost and nothing comes out twice.

use std::sync::Arc;
use std::time::Duration;

use wirelane_wire::{FlowKey, Protocol, flow::Addresses};

use super::{Protocols, Switches, Transmit, Tx};
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pool::{Pool, PoolConfig, Region};
use crate::segment::{Cursor, Gso, Offload, PartialChecksum, Segmenter, Sink, Verdict};
use crate::stats::TxCounters;

/// Puts `segmenter` in front of `tx`.
pub fn tx(tx: Tx, segmenter: Segmenter, switches: Arc<Switches>) -> Tx {
    tx.wrap(|mut inner, counters| GsoTx {
        // What is left to do to a segment, only a frame can say.
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
}

/// A frame of so many bytes more than the MTU fits for certain.
const ETHERNET: usize = 14;
/// The longest segment: an IP packet behind an Ethernet header and eight tags.
const LONGEST: u32 = 65_535 + 14 + 8 * 4;
/// As many as are cut at once, and room before each for what is left to do to it.
const FRAMES: u32 = Batch::DEFAULT as u32;
const HEADROOM: u32 = 128;

struct GsoTx {
    inner: Box<dyn Transmit>,
    /// It has memory that can be written to without a frame.
    has_slots: bool,
    counters: Arc<TxCounters>,
    segmenter: Segmenter,
    switches: Arc<Switches>,
    /// What the port itself takes.
    sink: Sink,
    /// What the segmenter knows of the switches.
    max_burst: u32,
    /// Frames of at most so many bytes need no look.
    short: usize,
    /// The frame that is being cut. It comes after all in `ready`.
    current: Option<(Frame, Cursor)>,
    /// Frames that can go out, in order.
    ready: Batch,
    /// Memory for segments.
    empty: Batch,
    /// Memory for segments that the sink's frames are too short for; set up when the first one comes, as a wire has none.
    long: Option<Pool>,
    /// What is being looked at; empty between calls.
    incoming: Vec<Frame>,
}

impl GsoTx {
    /// Passes on as much as the sink takes; true if nothing is left.
    fn push(&mut self) -> bool {
        loop {
            let cut = self.cut();
            let sent = self.inner.transmit(&mut self.ready);
            if !self.ready.is_empty() || cut + sent == 0 {
                return self.ready.is_empty() && self.current.is_none();
            }
        }
    }

    /// Cuts the current frame as far as there is room; returns how many segments came out.
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
        for mut out in self.empty.drain(wanted) {
            let room = out.capacity();
            let whole = out.set_len(room);
            debug_assert!(whole);
            let Ok(segment) = cursor.copy(frame.data(), out.data_mut()) else {
                failed = true;
                break;
            };
            self.segmenter.sent(cursor, &segment);
            let fits = out.set_len(segment.len()) && out.set_offload(segment.offload);
            debug_assert!(fits);
            out.stamp(frame.timestamp(), frame.queue(), frame.class());
            self.ready.as_vec().push(out);
        }
        self.empty.clear();
        if failed {
            self.counters.of_wrong_length(1);
        }
        if failed || cursor.is_done() {
            self.current = None;
        }
        self.ready.len() - before
    }

    /// As [`GsoTx::cut`], behind all that is ready.
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

    /// Lets the segmenter know of another longest frame.
    #[inline]
    fn follow_switches(&mut self) {
        let max_burst = self.switches.max_burst();
        if max_burst != self.max_burst {
            self.max_burst = max_burst;
            let gso_max = self.sink.gso_max.map(|most| most.min(max_burst as usize));
            self.segmenter.set_sink(Sink { gso_max, ..self.sink });
        }
    }

    /// Decides about one frame.
    fn plan(&mut self, mut frame: Frame) {
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
            // Only its checksum is left to do, which takes no other memory.
            Verdict::Cut(cursor) if cursor.class().is_none() => {
                let place = offload.checksum.unwrap_or(PartialChecksum::UNKNOWN);
                if place.complete(frame.data_mut()).is_ok() {
                    let nothing_left = frame.set_offload(Offload::default());
                    debug_assert!(nothing_left);
                    self.ready.as_vec().push(frame);
                } else {
                    self.counters.unfinished.add(1);
                    self.counters.errors.add(1);
                }
            }
            Verdict::Cut(cursor) => self.current = Some((frame, cursor)),
            Verdict::Refuse(_) => self.counters.errors.add(1),
        }
    }
}

/// The frames for what those of the sink are too short for; `None` if there is no memory for them.
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
        // Not a frame more once there is no room: what was not looked at stays with the caller.
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

/// What to do with a frame longer than the MTU whose sender said nothing: as source 003, which cuts
/// whatever does not fit.
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
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::segment::Sink;
    use wirelane_wire::{EtherType, Ethernet, Ipv4, MacAddr, Udp};

    /// Takes a few frames per call, and keeps their bytes.
    struct Narrow {
        pool: Pool,
        room: usize,
        calls: usize,
        taken: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Transmit for Narrow {
        fn transmit(&mut self, batch: &mut Batch) -> usize {
            self.calls += 1;
            // Every third call finds no room.
            let room = if self.calls.is_multiple_of(3) { 0 } else { self.room };
            let n = room.min(batch.len());
            self.taken.lock().unwrap().extend(batch.drain(n).map(|frame| frame.data().to_vec()));
            n
        }

        fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
            self.pool.take(batch, n)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }

        fn pending(&self) -> usize {
            0
        }

        fn wait(&mut self, _timeout: Duration) -> Result<()> {
            Ok(())
        }
    }

    struct Bed {
        tx: Tx,
        segmenter: Arc<crate::segment::SegmentCounters>,
        switches: Arc<Switches>,
        taken: Arc<Mutex<Vec<Vec<u8>>>>,
        source: Pool,
    }

    fn bed(room: usize, frames: u32) -> Bed {
        let pool = |chunks, chunk_size| {
            Pool::new(PoolConfig { chunks, chunk_size, headroom: 128, numa_node: None }).unwrap()
        };
        let taken = Arc::default();
        let inner = Narrow { pool: pool(frames, 2048), room, calls: 0, taken: Arc::clone(&taken) };
        let segmenter = Segmenter::new(Sink::ethernet());
        let switches = Arc::new(Switches::new(Protocols::ALL, None));
        let counters = Arc::clone(segmenter.counters());
        let tx = Tx::new(inner, Arc::new(TxCounters::new(0)));
        let tx = super::tx(tx, segmenter, Arc::clone(&switches));
        Bed { tx, segmenter: counters, switches, taken, source: pool(16, 16_384) }
    }

    /// A datagram with `payload` bytes that count up from `seed`.
    fn datagram(payload: usize, seed: u8) -> Vec<u8> {
        let mut frame = vec![0; 42 + payload];
        let (destination, source) = (MacAddr::BROADCAST, MacAddr::ZERO);
        Ethernet { destination, source, ethertype: EtherType::IPV4 }.emit(&mut frame).unwrap();
        let ip = Ipv4 {
            source: [192, 0, 2, 1].into(),
            destination: [192, 0, 2, 2].into(),
            protocol: Protocol::UDP,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            identification: u16::from(seed),
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: 8 + payload as u16,
            options: &[],
        };
        ip.emit(&mut frame[14..]).unwrap();
        for (i, byte) in frame[42..].iter_mut().enumerate() {
            *byte = seed.wrapping_add(i as u8);
        }
        let (source_port, destination_port) = (1, 2);
        let udp = Udp { source_port, destination_port, payload_len: payload as u16, checksum: 1 };
        udp.emit(&mut frame[34..]).unwrap();
        frame
    }

    /// Sends all frames, again and again until everything is out.
    fn send(bed: &mut Bed, frames: &[(Vec<u8>, Offload)]) {
        let mut batch = Batch::default();
        for (bytes, offload) in frames {
            let mut frame = bed.source.take_one().unwrap();
            assert!(frame.fill(bytes) && frame.set_offload(*offload));
            batch.push(frame).unwrap();
        }
        let (offered, mut taken) = (batch.len(), 0);
        for _ in 0..10_000 {
            taken += bed.tx.transmit(&mut batch);
            assert_eq!(taken + batch.len(), offered);
            if batch.is_empty() && bed.tx.pending() == 0 {
                return;
            }
            bed.tx.flush().unwrap();
        }
        panic!("it does not end");
    }

    fn uso() -> Offload {
        Offload { gso: Gso::Udp, size: 1000, ..Offload::default() }
    }

    #[test]
    fn a_narrow_sink_gets_every_segment_once_and_in_order() {
        for (room, frames) in [(1, 1), (1, 3), (7, 5), (64, 64)] {
            let mut bed = bed(room, frames);
            let long = datagram(9500, 7);
            let frames = [
                (datagram(10, 1), Offload::default()),
                (long, uso()),
                (datagram(20, 2), Offload::default()),
            ];
            send(&mut bed, &frames);
            let taken = bed.taken.lock().unwrap();
            let lengths: Vec<_> = taken.iter().map(|frame| frame.len() - 42).collect();
            let mut expected = vec![10];
            expected.extend([1000; 9]);
            expected.extend([500, 20]);
            assert_eq!(lengths, expected, "room {room}");
            let payload: Vec<u8> =
                taken[1..11].iter().flat_map(|frame| frame[42..].to_vec()).collect();
            assert_eq!(payload, datagram(9500, 7)[42..]);
            drop(taken);
            assert_eq!(bed.segmenter.snapshot().classes[0].segments, 10);
            assert_eq!(bed.source.free(), bed.source.size(), "every long frame is back");
        }
    }

    #[test]
    fn long_datagrams_become_fragments_where_that_is_on() {
        let mut bed = bed(64, 64);
        send(&mut bed, &[(datagram(4000, 3), Offload::default())]);
        // 8 + 4000 bytes in multiples of 8 up to 1480.
        assert_eq!(bed.taken.lock().unwrap().len(), 3);
        bed.switches.set_gso(Protocols { tcp: true, udp: false });
        send(&mut bed, &[(datagram(4000, 3), Offload::default()), (datagram(3000, 4), uso())]);
        // The first one is refused; the second was asked for.
        assert_eq!(bed.taken.lock().unwrap().len(), 3 + 3);
        assert_eq!(bed.tx.counters().errors.value(), 1);
        let stats = bed.segmenter.snapshot();
        assert_eq!((stats.refused[0].reason, stats.refused[0].frames), ("above_mtu", 1));
        assert_eq!(bed.source.free(), bed.source.size());
    }

    /// A file's frames, or a simulated interface's, are of 2 KB, and it takes packets of any length.
    #[test]
    fn segments_longer_than_the_frames_of_the_sink_come_whole() {
        for (mtu, size) in [(9000, 8900), (usize::MAX, 4000)] {
            let mut bed = bed(64, 64);
            let config = PoolConfig { chunks: 8, chunk_size: 512, headroom: 64, numa_node: None };
            let pool = Pool::new(config).unwrap();
            let inner = Narrow { pool, room: 64, calls: 0, taken: Arc::clone(&bed.taken) };
            let segmenter = Segmenter::new(Sink { mtu, ..Sink::ethernet() });
            let tx = Tx::new(inner, Arc::new(TxCounters::new(0)));
            bed.tx = super::tx(tx, segmenter, Arc::clone(&bed.switches));
            let long = datagram(12_000, 1);
            send(&mut bed, &[(long.clone(), Offload { size, ..uso() })]);
            let taken = bed.taken.lock().unwrap();
            let payload: Vec<u8> = taken.iter().flat_map(|frame| frame[42..].to_vec()).collect();
            assert!(payload == long[42..], "{} bytes", payload.len());
            assert_eq!(taken.len(), 12_000_usize.div_ceil(size.into()));
            assert_eq!(bed.tx.counters().errors.value(), 0);
            drop(taken);
            assert_eq!(bed.source.free(), bed.source.size());
        }
    }

    /// As 802.1Q and 802.1ad have it, and the interface without a segmenter.
    #[test]
    fn tags_are_no_part_of_the_mtu() {
        for tags in 0..=2 {
            for payload in 1466..=1476 {
                let mut bed = bed(64, 64);
                let whole = tagged(datagram(payload, 1), tags);
                send(&mut bed, &[(whole.clone(), Offload::default())]);
                let taken = bed.taken.lock().unwrap();
                match payload {
                    ..=1472 => assert_eq!(*taken, [whole], "{tags} tags"),
                    _ => assert_eq!(taken.len(), 2, "{tags} tags, {payload} bytes"),
                }
                assert_eq!(bed.tx.counters().errors.value(), 0);
            }
        }
    }

    #[test]
    fn trailers_are_no_part_of_the_packet() {
        for tags in 0..=2 {
            // With the payload of a full packet, of a short one, and of two fragments.
            for (payload, trailer) in [(1472, 1), (1472, 40), (1460, 8), (1000, 600), (2000, 9)] {
                let mut bed = bed(64, 64);
                let packet = tagged(datagram(payload, 1), tags);
                let whole = [&packet[..], &vec![0xee; trailer]].concat();
                send(&mut bed, &[(whole.clone(), Offload::default())]);
                let taken = bed.taken.lock().unwrap();
                match payload {
                    // It fits with its trailer, or without.
                    ..=1472 if payload + 28 + trailer <= 1500 => assert_eq!(*taken, [whole]),
                    ..=1472 => assert_eq!(*taken, [packet]),
                    _ => {
                        let lengths: Vec<_> = taken.iter().map(Vec::len).collect();
                        assert_eq!(lengths, [1514 + 4 * tags, 14 + 4 * tags + 20 + 2008 - 1480]);
                    }
                }
                let left = u64::from(payload + 28 + trailer > 1500);
                assert_eq!(bed.segmenter.snapshot().trailers, left);
                assert_eq!(bed.tx.counters().errors.value(), 0);
            }
        }
    }

    /// A sink that cuts has no way to be told of such datagrams, and cuts so many at most.
    #[test]
    fn a_sink_that_cuts_gets_what_it_can_cut() {
        for checksum in [true, false] {
            let mut bed = bed(64, 64);
            let gso = crate::segment::SinkGso { udp: true, ..Default::default() };
            let sink = Sink { checksum: true, gso_max: Some(65_535), gso, ..Sink::ethernet() };
            let config =
                PoolConfig { chunks: 64, chunk_size: 65_536, headroom: 128, numa_node: None };
            let pool = Pool::new(config).unwrap();
            let inner = Narrow { pool, room: 64, calls: 0, taken: Arc::clone(&bed.taken) };
            let tx = Tx::new(inner, Arc::new(TxCounters::new(0))).takes_offloads(true);
            bed.tx = super::tx(tx, Segmenter::new(sink), Arc::clone(&bed.switches));
            let mut long = datagram(15_000, 1);
            if !checksum {
                long[40..42].fill(0);
            }
            send(&mut bed, &[(long, Offload { size: 100, ..uso() })]);
            let taken = bed.taken.lock().unwrap();
            let lengths: Vec<_> = taken.iter().map(|frame| frame.len() - 42).collect();
            match checksum {
                true => assert_eq!(lengths, [6400, 6400, 2200]),
                false => assert_eq!(lengths, [100; 150]),
            }
        }
    }

    /// Puts tags into a frame.
    fn tagged(mut frame: Vec<u8>, tags: usize) -> Vec<u8> {
        (0..tags).for_each(|tag| drop(frame.splice(12..12, [0x81, 0, 0, tag as u8])));
        frame
    }
}
