//! A coalescer behind a receiving end that plays a script.

use proptest::prelude::*;
use wirelane_testkit::packets;
use wirelane_wire::checksum::Sum;

use super::*;
use crate::frame::{Gso, PartialChecksum, Sink};
use crate::mask::Class;
use crate::segment::{Segmenter, Verdict};

/// Returns a batch per call, then ends.
struct Script {
    pool: Pool,
    calls: VecDeque<Vec<Packet>>,
    clock: u64,
}

/// A packet of the script.
#[derive(Clone)]
struct Packet {
    bytes: Vec<u8>,
    offload: Offload,
    /// Bytes that are missing.
    cut: u32,
    /// Nobody says whether its checksum is left to do.
    suspect: bool,
}

impl Receive for Script {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        let Some(call) = self.calls.front_mut() else { return 0 };
        let n = batch.room().min(call.len());
        for packet in call.drain(..n) {
            let mut frame = self.pool.take_one().unwrap();
            assert!(frame.fill(&packet.bytes) && frame.set_offload(packet.offload));
            frame.set_original_len(packet.bytes.len() as u32 + packet.cut);
            if packet.suspect {
                frame.suspect_checksum();
            }
            self.clock += 1;
            frame.stamp(self.clock, 3, Class::Rx);
            batch.push(frame).unwrap();
        }
        if call.is_empty() {
            self.calls.pop_front();
        }
        n
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        Ok(if self.calls.is_empty() { Readiness::End } else { Readiness::Now })
    }

    fn watermark(&self) -> u64 {
        self.clock + 1
    }
}

struct Bed {
    rx: Rx,
    merging: Merging,
    frames: PoolGauge,
    switches: Arc<Switches>,
}

/// With as many frames for packets as there are packets.
fn bed(calls: Vec<Vec<Packet>>, age: u64) -> Bed {
    let chunks = calls.iter().map(Vec::len).sum::<usize>() as u32 + 1;
    let config = PoolConfig { chunks, chunk_size: 2048, headroom: 128, numa_node: None };
    let pool = Pool::new(config).unwrap();
    let frames = pool.gauge();
    let script = Script { pool, calls: calls.into(), clock: 0 };
    let rx = Rx::new(script, Arc::new(RxCounters::new(3, Class::Rx)));
    let switches = Arc::new(Switches::new(Protocols::NONE, Some(Protocols::ALL)));
    let limits = Limits { age, ..Limits::default() };
    let (rx, merging) = super::rx(rx, limits, Arc::clone(&switches), None).unwrap();
    Bed { rx, merging, frames, switches }
}

/// A datagram of `flow`: 100 bytes, so that all of one flow can be merged.
fn datagram(number: u64, flow: u16) -> Packet {
    let bytes = packets::udp6(number).flow(flow).length(100).build();
    Packet { bytes, offload: Offload::default(), cut: 0, suspect: false }
}

/// As [`datagram`], with a partial checksum. An offload describes it, unless it is `suspect`.
fn partial(number: u64, flow: u16, suspect: bool) -> Packet {
    let mut packet = datagram(number, flow);
    let place = PartialChecksum { start: 14 + 40, offset: 6 };
    let addresses = Sum::of(&packet.bytes[14 + 8..14 + 40]);
    let begun = addresses.plus(Sum::of_field(17)).plus(Sum::of_field(46)).partial();
    packet.bytes[14 + 40 + 6..][..2].copy_from_slice(&begun.to_be_bytes());
    assert_eq!(PartialChecksum::find(&packet.bytes), Some(place));
    packet.suspect = suspect;
    if !suspect {
        packet.offload = Offload { checksum: Some(place), ..Offload::default() };
    }
    packet
}

/// Receives up to `room` frames at a time until the end; calls `each` with every batch.
fn drain(bed: &mut Bed, room: usize, mut each: impl FnMut(&Rx, &mut Batch)) {
    let mut batch = Batch::default();
    loop {
        batch.set_limit(room);
        if bed.rx.receive(&mut batch) > 0 {
            assert!(batch.len() <= room);
            each(&bed.rx, &mut batch);
            batch.clear();
        } else if let Readiness::End = bed.rx.readiness().unwrap() {
            return;
        }
    }
}

/// The packets that a frame was put together from.
fn packets_of(frame: &Frame) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(Sink::unlimited());
    let offload = frame.offload().unwrap_or_default();
    if offload.gso == Gso::None {
        return vec![frame.data().to_vec()];
    }
    let Verdict::Segment(mut cursor) = segmenter.plan(frame.data(), &offload) else {
        panic!("it cannot be cut: {offload:?}");
    };
    let (mut bytes, mut packets) = (vec![0; 2048], Vec::new());
    while let Ok(segment) = cursor.copy(frame.data(), &mut bytes) {
        packets.push(bytes[..segment.len()].to_vec());
    }
    packets
}

/// No frame is anywhere but in its pool.
fn assert_conserved(bed: &Bed) {
    assert_eq!(bed.frames.free(), bed.frames.size());
    assert_eq!(bed.merging.frames.free(), bed.merging.frames.size());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any batches: every packet is delivered once, in order within its flow, and in time.
    #[test]
    fn every_packet_comes_out_once_and_in_order(
        flows in proptest::collection::vec(0u16..12, 0..300),
        size in 1usize..100,
        room in 1usize..=64,
        holds: bool,
    ) {
        let all: Vec<_> =
            flows.iter().enumerate().map(|(i, flow)| datagram(i as u64, *flow)).collect();
        let calls = all.chunks(size).map(<[Packet]>::to_vec).collect();
        let mut bed = bed(calls, if holds { 20_000 } else { 0 });
        let (mut got, mut promised, mut frames) = (Vec::new(), 0, 0);
        drain(&mut bed, room, |rx, batch| {
            frames += batch.len() as u64;
            for frame in batch.iter() {
                assert!(frame.timestamp() >= promised);
                assert_eq!((frame.queue(), frame.class()), (Some(3), Class::Rx));
                assert_eq!(frame.original_len() as usize, frame.len());
                let packets = packets_of(frame);
                assert_eq!(frame.packets(), packets.len() as u64);
                assert_eq!(frame.wire_bytes(), packets.iter().map(Vec::len).sum::<usize>() as u64);
                got.extend(packets);
            }
            promised = rx.watermark();
        });
        let numbers: Vec<_> = got.iter().map(|bytes| packets::sequence(bytes).unwrap()).collect();
        for flow in 0..12 {
            let of_flow = |number: &&u64| flows[**number as usize] == flow;
            let sent = (0..flows.len() as u64).filter(|number| of_flow(&number));
            prop_assert!(numbers.iter().filter(of_flow).copied().eq(sent), "flow {}", flow);
        }
        let counters = Arc::clone(bed.rx.counters());
        prop_assert_eq!(counters.packets.value(), flows.len() as u64);
        prop_assert_eq!(counters.bytes.value(), 100 * flows.len() as u64);
        prop_assert_eq!(counters.packets.value() - counters.merged.value(), frames);
        prop_assert_eq!(bed.merging.counters.packets.value(), flows.len() as u64);
        assert_conserved(&bed);
    }
}

#[test]
fn a_flow_becomes_one_frame_and_a_single_packet_keeps_its_own() {
    let flow: Vec<_> = (0..40).map(|number| datagram(number, 1)).collect();
    let calls = vec![flow, vec![datagram(40, 2)]];
    let mut bed = bed(calls, u64::MAX);
    let mut batch = Batch::default();
    assert_eq!(bed.rx.receive(&mut batch), 0);
    // They wait for others of their flow, and the receiving end does not report the end.
    assert!(matches!(bed.rx.readiness().unwrap(), Readiness::Now));
    assert_eq!(bed.rx.watermark(), 1);
    assert_eq!(bed.frames.size() - bed.frames.free(), 1, "of 40 packets none is kept, of 1 it is");
    bed.switches.set_gro(Protocols::NONE).unwrap();
    assert_eq!(bed.rx.receive(&mut batch), 0);
    drop(bed.rx);
    assert_eq!(bed.frames.free(), bed.frames.size());
}

#[test]
fn nothing_stays_inside_without_age() {
    let flow: Vec<_> = (0..40).map(|number| datagram(number, number as u16 / 20)).collect();
    let mut bed = bed(vec![flow], 0);
    let mut batch = Batch::default();
    batch.set_limit(30);
    assert_eq!(bed.rx.receive(&mut batch), 2);
    assert_eq!(bed.rx.counters().merged.value(), 28);
    let long: Vec<_> = batch.iter().map(|frame| frame.offload().unwrap().size).collect();
    assert_eq!(long, [100 - 62; 2]);
    batch.clear();
    assert_eq!(bed.rx.receive(&mut batch), 1);
    assert_eq!(bed.rx.receive(&mut batch), 0);
    assert!(matches!(bed.rx.readiness().unwrap(), Readiness::End));
}

#[test]
fn what_cannot_be_looked_at_passes_behind_what_is_held_of_its_flow() {
    let mut offloaded = datagram(2, 1);
    offloaded.offload = Offload { gso: Gso::Udp, size: 10, ..Offload::default() };
    let mut cut = datagram(5, 1);
    cut.cut = 1;
    let other = datagram(9, 2);
    let call = vec![
        datagram(0, 1),
        datagram(1, 1),
        other,
        offloaded.clone(),
        datagram(3, 1),
        datagram(4, 1),
        cut,
    ];
    let mut bed = bed(vec![call], 0);
    let mut got = Vec::new();
    drain(&mut bed, 64, |_, batch| {
        got.extend(batch.iter().map(|frame| {
            let first = packets::sequence(frame.data()).unwrap();
            (first, frame.len(), frame.offload().map(|offload| offload.gso))
        }));
    });
    let merged = 100 + (100 - 62);
    let gso = Some(Gso::Udp);
    assert_eq!(
        got,
        [(0, merged, gso), (2, 100, gso), (3, merged, gso), (5, 100, None), (9, 100, None)]
    );
    let counters = &bed.merging.counters;
    for reason in [Alone::Offload, Alone::Cut, Alone::Single] {
        assert_eq!(counters.alone(reason).value(), 1, "{reason}");
    }
    assert_conserved(&bed);
}

/// An offload describes the partial checksum, or its value reveals it.
#[test]
fn checksums_left_to_do_are_merged_and_stay_so_alone() {
    for suspect in [false, true] {
        let call: Vec<_> = (0..5).map(|number| partial(number, 1, suspect)).collect();
        let alone = partial(9, 2, suspect);
        let mut bed = bed(vec![[call, vec![alone.clone()]].concat()], 0);
        let whole: Vec<_> = (0..5).map(|number| datagram(number, 1).bytes).collect();
        let mut got = 0;
        drain(&mut bed, 64, |_, batch| {
            let [long, single] = &batch[..] else { panic!("{} frames", batch.len()) };
            assert_eq!(packets_of(long), whole);
            assert_eq!(long.offload().unwrap().gso, Gso::Udp);
            let left = single.offload().unwrap();
            assert_eq!((single.data(), left.gso), (&alone.bytes[..], Gso::None));
            assert!(left.checksum.is_some());
            got += 1;
        });
        assert_eq!((got, bed.merging.counters.partial.value()), (1, 5));
        assert_conserved(&bed);
    }
}

#[test]
fn without_long_frames_packets_pass_as_they_are() {
    // Pairs that can be merged, as many again as there are long frames.
    let pairs: Vec<_> = (0..u64::from(FRAMES) * 2)
        .flat_map(|pair| [datagram(2 * pair, pair as u16), datagram(2 * pair + 1, pair as u16)])
        .collect();
    let total = pairs.len();
    let mut bed = bed(pairs.chunks(64).map(<[Packet]>::to_vec).collect(), 0);
    let (mut kept, mut count) = (Vec::new(), 0);
    drain(&mut bed, 64, |_, batch| {
        let n = batch.len();
        kept.extend(batch.drain(n));
        count = kept.iter().map(|frame| packets_of(frame).len()).sum();
    });
    assert_eq!(count, total);
    assert_eq!(bed.merging.frames.free(), 0);
    let counters = &bed.merging.counters;
    assert_eq!(counters.super_frames.value(), u64::from(FRAMES));
    assert_eq!(
        counters.flushed(crate::segment::coalesce::Flush::NoMemory).value(),
        u64::from(FRAMES)
    );
    kept.clear();
    assert_conserved(&bed);
}

#[test]
fn switches_hold_from_the_next_packet_on() {
    let call = |first: u64| (first..first + 10).map(|number| datagram(number, 1)).collect();
    let mut bed = bed((0..4).map(|n| call(10 * n)).collect(), 0);
    let switches = Arc::clone(&bed.switches);
    let mut sizes = Vec::new();
    drain(&mut bed, 64, |_, batch| {
        sizes.push(batch.iter().map(|frame| packets_of(frame).len()).collect::<Vec<_>>());
        switches.set_gro(Protocols { tcp: true, udp: sizes.len() == 2 }).unwrap();
        // Room for 14 datagrams behind the headers of 48 bytes.
        switches.set_max_burst(48 + 14 * 38);
        if sizes.len() == 3 {
            switches.set_gro(Protocols::NONE).unwrap();
        }
    });
    assert_eq!(sizes, [vec![10], vec![1; 10], vec![10], vec![1; 10]]);
    assert_conserved(&bed);
}
