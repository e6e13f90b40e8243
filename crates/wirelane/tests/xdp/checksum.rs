//! Checksum offload: the kernel completes checksums that are left to it.

use std::sync::Arc;
use wirelane::frame::{Frame, Gso, Offload, PartialChecksum};

use wirelane::internal::frame::Protocols;
use wirelane::internal::port::{Switches, gso};
use wirelane::internal::segment::Segmenter;
use wirelane::{Pool, PoolConfig};
use wirelane_testkit::privileged;
use wirelane_wire::checksum::Sum;

use super::*;

/// The headroom of packets in the port's own frames, in bytes.
const TX_HEADROOM: usize = 128;

/// The start of the transport header of `frame`, which has no tags, and the offset of its checksum.
fn place(frame: &[u8]) -> PartialChecksum {
    let (start, protocol) = if frame[12] == 0x08 { (34, frame[23]) } else { (54, frame[20]) };
    PartialChecksum { start, offset: if protocol == 17 { 6 } else { 16 } }
}

/// Replaces the checksum of a complete frame by the sum of the pseudo-header, as a stack with
/// checksum offload would.
fn leave(frame: &mut [u8]) -> Offload {
    let at = place(frame);
    let field = usize::from(at.start + at.offset);
    let complete = u16::from_be_bytes([frame[field], frame[field + 1]]);
    frame[field..field + 2].fill(0);
    let rest = Sum::of(&frame[at.start.into()..]);
    // complete = !(pseudo + rest)
    let pseudo = Sum::of(&(!complete).to_be_bytes()).plus(Sum::of(&rest.checksum().to_be_bytes()));
    frame[field..field + 2].copy_from_slice(&pseudo.partial().to_be_bytes());
    Offload { checksum: Some(at), ..Offload::default() }
}

fn frames() -> Vec<Vec<u8>> {
    let lengths = [60, 77, 130, 131, 1000, 1513, 1514];
    let kinds = [packets::udp4, packets::udp6, packets::tcp4, packets::tcp6];
    let all = kinds.into_iter().flat_map(|kind| lengths.map(|length| (kind, length)));
    all.zip(0..).map(|((kind, length), n)| kind(n).length(length).build()).collect()
}

/// The near end, whose device leaves checksums to the kernel, and the far end, which receives.
struct Wire {
    tx: Tx,
    port: XdpPort,
    receiver: XdpPort,
    ends: Vec<Rx>,
    _bench: Bench,
}

impl Wire {
    fn new(query: &str) -> Self {
        let bench = Bench::new(1, 1500);
        bench.pair.a.ethtool(&["-K", &bench.pair.a.interface, "tx", "off"]);
        let mut receiver = bench.far("?mode=native", &receiving());
        let mut port = bench.near(query, &sending());
        let (ends, tx) = (receiver.rx().unwrap(), port.tx().unwrap().remove(0));
        receiver.start().unwrap();
        Self { tx, port, receiver, ends, _bench: bench }
    }

    fn send(&mut self, frames: impl IntoIterator<Item = Frame>) {
        let mut batch = Batch::default();
        frames.into_iter().for_each(|frame| batch.push(frame).unwrap());
        let patience = Instant::now() + PATIENCE;
        while !batch.is_empty() || self.tx.pending() > 0 {
            self.tx.transmit(&mut batch);
            self.tx.flush().unwrap();
            assert!(Instant::now() < patience, "{} pending", self.tx.pending());
        }
    }

    /// Receives as many packets as were sent without an error, and returns them.
    fn received(mut self) -> Vec<Vec<u8>> {
        let (mut got, count) = (Vec::new(), self.tx.counters().packets.value());
        finish_after(&*self.receiver.control(), &mut self.ends, &mut got, count as usize);
        drop(self.tx);
        assert_conserved(&self.receiver);
        assert_conserved(&self.port);
        got.into_iter().map(|got| got.bytes).collect()
    }
}

/// A frame from the port's own memory.
fn own(tx: &mut Tx, bytes: &[u8], offload: Offload) -> Frame {
    let mut batch = Batch::new(1);
    assert_eq!(tx.allocate(&mut batch, 1), 1);
    let mut frame = batch.pop().unwrap();
    assert!(frame.fill(bytes) && frame.set_offload(offload));
    frame
}

#[test]
fn privileged_the_kernel_completes_what_is_left_to_it() {
    if !privileged::require() {
        return;
    }
    for query in ["?checksum=on", "?checksum=on&frame=3000", "?checksum=on&frame=2048"] {
        let mut wire = Wire::new(query);
        assert!(wire.port.sink().checksum);
        let mut foreign = Pool::new(PoolConfig::default()).unwrap();
        let mut all = Vec::new();
        for (n, complete) in frames().into_iter().enumerate() {
            let mut bytes = complete;
            let left = if n % 3 == 0 { Offload::default() } else { leave(&mut bytes) };
            all.push(match n % 5 {
                // A frame that the port copies keeps its offload request.
                0 => {
                    let mut frame = foreign.take_one().unwrap();
                    assert!(frame.fill(&bytes) && frame.set_offload(left));
                    frame
                }
                // A frame without headroom is copied, too.
                1 if left.is_none() => {
                    let front = TX_HEADROOM.min(bytes.len() - 20);
                    let mut frame = own(&mut wire.tx, &bytes[front..], left);
                    assert!(frame.prepend(front));
                    frame.data_mut().copy_from_slice(&bytes);
                    frame
                }
                _ => own(&mut wire.tx, &bytes, left),
            });
        }
        wire.send(all);
        let stats = wire.tx.counters().snapshot(0);
        assert_eq!((stats.packets, stats.errors), (frames().len() as u64, 0));
        // Six frames of foreign memory, and one long packet without headroom.
        assert_eq!(wire.tx.counters().copied.value(), 7);
        assert!(wire.received() == frames(), "{query}");
    }
}

#[test]
fn privileged_segments_are_the_same_whoever_sums_them() {
    if !privileged::require() {
        return;
    }
    let long = PoolConfig { chunks: 4, chunk_size: 65_536, headroom: 128, numa_node: None };
    let mut of_each = Vec::new();
    for query in ["?checksum=on", "?checksum=off"] {
        let mut wire = Wire::new(query);
        let segmenter = Segmenter::new(wire.port.sink());
        let switches = Arc::new(Switches::new(Protocols::ALL, None));
        wire.tx = gso::tx(wire.tx, segmenter, switches);
        let mut pool = Pool::new(long.clone()).unwrap();
        let frames = [packets::tcp4, packets::tcp6, packets::udp4, packets::udp6].map(|kind| {
            let mut bytes = kind(1).length(20_001).build();
            let mut left = leave(&mut bytes);
            left.size = 1111;
            left.gso = match (place(&bytes).offset, bytes[12]) {
                (6, _) => Gso::Udp,
                (_, 0x08) => Gso::Tcp4,
                _ => Gso::Tcp6,
            };
            let mut frame = pool.take_one().unwrap();
            assert!(frame.fill(&bytes) && frame.set_offload(left));
            frame
        });
        wire.send(frames);
        assert_eq!(wire.tx.counters().errors.value(), 0);
        of_each.push(wire.received());
    }
    assert!(of_each[0].len() > 70 && of_each[0] == of_each[1]);
    for frame in &of_each[0] {
        let mut again = frame.clone();
        let left = leave(&mut again);
        let start = usize::from(left.checksum.unwrap().start);
        let field = start + usize::from(left.checksum.unwrap().offset);
        let sum = Sum::of(&again[start..]).checksum();
        assert_eq!(frame[field..field + 2], sum.to_be_bytes());
    }
}

#[test]
fn privileged_what_cannot_be_left_to_the_kernel_is_refused() {
    if !privileged::require() {
        return;
    }
    let mut wire = Wire::new("?checksum=on");
    let good = packets::udp4(1).build();
    // Beyond the end of the packet: the kernel would never get past this descriptor.
    let beyond = PartialChecksum { start: good.len() as u16 - 1, offset: 0 };
    let wrong = Offload { checksum: Some(beyond), ..Offload::default() };
    let frames = [wrong, Offload::default()].map(|left| own(&mut wire.tx, &good, left));
    wire.send(frames);
    assert_eq!(wire.tx.counters().errors.value(), 1);
    assert_eq!(wire.received(), [good]);

    let bench = Bench::new(1, 9000);
    let spec = format!("xdp:{}?mode=native&checksum=on", bench.pair.b.interface);
    let error = open(&bench.far, &spec, &sending()).err().unwrap();
    assert!(error.to_string().contains("several pieces"), "{error}");
    // By default the port does not promise checksums that nothing would complete.
    assert!(!bench.far("?mode=native", &sending()).sink().checksum);
}
