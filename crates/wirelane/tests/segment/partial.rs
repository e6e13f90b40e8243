//! Partial checksums that were left to hardware are recognised by their value, and completed before
//! sending.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane::frame::{Gso, Offload, PartialChecksum};
use wirelane::internal::port::Transmit;
use wirelane::internal::stats::TxCounters;
use wirelane::port::Tx;
use wirelane::{Batch, Pool, PoolConfig};
use wirelane_wire::Protocol;

use super::frames::{Around, Checksum, Frame, cut};

/// Frames of every kind that need no segmenting.
fn frames() -> Vec<Frame> {
    let mut frames = Vec::new();
    for (gso, v6) in [(Gso::Tcp4, false), (Gso::Tcp6, true), (Gso::Udp, false), (Gso::Udp, true)] {
        for around in [Around::Nothing, Around::Vxlan, Around::Geneve, Around::Gre] {
            for length in [0, 1, 700, 701] {
                let mut frame = Frame::new(gso, v6, length, 1000);
                frame.around = around;
                if v6 && length == 701 {
                    frame.extensions = vec![(Protocol::HOP_BY_HOP, vec![0, 0, 1, 4, 0, 0, 0, 0])];
                }
                frames.push(frame);
            }
        }
    }
    frames
}

#[test]
fn a_checksum_left_to_do_is_found_and_completed() {
    for mut frame in frames() {
        frame.checksum = Checksum::Partial;
        let (mut bytes, offload) = frame.build();
        let place = offload.checksum.unwrap();
        assert_eq!(PartialChecksum::find(&bytes), Some(place), "{frame:?}");
        // The segmenter gives the expected result; other tests compare it with the kernel.
        let left = Offload { checksum: Some(place), ..Offload::default() };
        let expected = cut(&bytes, &left).remove(0);
        assert!(place.complete(&mut bytes));
        assert!(bytes == expected, "{frame:?}");
        assert_eq!(PartialChecksum::find(&bytes), None, "{frame:?}");
        // The checksum does not cover padding.
        let mut padded = frame.build().0;
        padded.resize(padded.len() + 4, 0);
        assert_eq!(PartialChecksum::find(&padded), Some(place));
    }
}

#[test]
fn what_is_complete_is_left_alone() {
    for mut frame in frames() {
        frame.checksum = Checksum::Complete;
        assert_eq!(PartialChecksum::find(&frame.build().0), None, "{frame:?}");
    }
    let mut frame = Frame::new(Gso::Udp, false, 100, 1000);
    frame.checksum = Checksum::None;
    assert_eq!(PartialChecksum::find(&frame.build().0), None);
    // A fragment has no separate checksum.
    let (mut bytes, _) = Frame::tcp4(100, 1000).build();
    assert!(PartialChecksum::find(&bytes).is_some());
    bytes[20] = 0x20;
    assert_eq!(PartialChecksum::find(&bytes), None);
    for length in 0..bytes.len() {
        let _ = PartialChecksum::find(&bytes[..length]);
    }
}

#[test]
fn places_outside_of_a_frame_are_refused() {
    let (mut bytes, offload) = Frame::tcp4(100, 1000).build();
    let before = bytes.clone();
    let place = offload.checksum.unwrap();
    for wrong in [
        PartialChecksum::UNKNOWN,
        PartialChecksum { offset: 999, ..place },
        PartialChecksum { offset: 17, ..place },
        PartialChecksum { start: bytes.len() as u16, offset: 0 },
    ] {
        assert!(!wrong.complete(&mut bytes), "{wrong:?}");
    }
    assert!(bytes == before);
}

/// An end that accepts at most `room` frames per call and records their bytes.
struct Wire {
    room: usize,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Transmit for Wire {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let n = self.room.min(batch.len());
        self.sent.lock().unwrap().extend(batch.drain(n).map(|frame| frame.data().to_vec()));
        n
    }

    fn allocate(&mut self, _batch: &mut Batch, _n: usize) -> usize {
        0
    }

    fn flush(&mut self) -> wirelane::Result<()> {
        Ok(())
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait(&mut self, _timeout: Duration) -> wirelane::Result<()> {
        Ok(())
    }
}

#[test]
fn a_port_sends_no_frame_that_is_not_finished() {
    let sent = Arc::default();
    let mut tx = Tx::new(Wire { room: 2, sent: Arc::clone(&sent) }, Arc::new(TxCounters::new(0)));
    let mut pool = Pool::new(PoolConfig::default()).unwrap();
    let (partial, offload) = Frame::tcp4(700, 1000).build();
    let left = Offload { checksum: offload.checksum, ..Offload::default() };
    let unknown = Offload { checksum: Some(PartialChecksum::UNKNOWN), ..Offload::default() };
    let mut batch = Batch::default();
    for offload in [left, unknown, Offload::default(), left, offload, left] {
        let mut frame = pool.take_one().unwrap();
        assert!(frame.fill(&partial) && frame.set_offload(offload));
        batch.push(frame).unwrap();
    }
    let mut taken = 0;
    while !batch.is_empty() {
        taken += tx.transmit(&mut batch);
    }
    assert_eq!(taken, 6);
    let counters = tx.counters().snapshot(0);
    assert_eq!((counters.unfinished, counters.errors), (2, 2));
    let complete = cut(&partial, &left).remove(0);
    let expected = [&complete, &partial, &complete, &complete].map(Clone::clone);
    assert!(*sent.lock().unwrap() == expected);
    // An end that handles offload requests itself receives frames unchanged.
    let wire = Wire { room: 9, sent: Arc::clone(&sent) };
    let mut tx = Tx::new(wire, Arc::new(TxCounters::new(0))).takes_offloads(true);
    let mut frame = pool.take_one().unwrap();
    assert!(frame.fill(&partial) && frame.set_offload(left));
    batch.push(frame).unwrap();
    assert_eq!(tx.transmit(&mut batch), 1);
    assert!(sent.lock().unwrap().last() == Some(&partial));
    assert_eq!(pool.free(), pool.size());
}
