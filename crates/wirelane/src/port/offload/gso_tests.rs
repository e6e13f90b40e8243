//! Tests the segmenter in front of a sink that takes a few frames at a time.

use std::sync::Mutex;

use super::*;
use crate::frame::Sink;
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
        let payload: Vec<u8> = taken[1..11].iter().flat_map(|frame| frame[42..].to_vec()).collect();
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
    // The first frame is refused; the second is segmented as requested.
    assert_eq!(bed.taken.lock().unwrap().len(), 3 + 3);
    assert_eq!(bed.tx.counters().errors.value(), 1);
    let stats = bed.segmenter.snapshot();
    assert_eq!((stats.refused[0].reason, stats.refused[0].frames), ("above_mtu", 1));
    assert_eq!(bed.source.free(), bed.source.size());
}

/// A sink may accept packets that are longer than its frames, as a simulated interface does.
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

/// The device segments at most 64 datagrams of a frame, and only datagrams with a checksum.
#[test]
fn a_sink_that_cuts_gets_what_it_can_cut() {
    for checksum in [true, false] {
        let mut bed = bed(64, 64);
        let gso = crate::frame::SinkGso { udp: true, ..Default::default() };
        let sink = Sink { checksum: true, gso_max: Some(65_535), gso, ..Sink::ethernet() };
        let config = PoolConfig { chunks: 64, chunk_size: 65_536, headroom: 128, numa_node: None };
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
