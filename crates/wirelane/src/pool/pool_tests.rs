//! Frames that are taken and returned, and that outlive their pool.

use super::*;

fn small() -> Pool {
    let config = PoolConfig { chunks: 8, chunk_size: 256, headroom: 64, numa_node: None };
    Pool::new(config).expect("a small pool")
}

#[test]
fn every_frame_once_and_back_again() {
    let mut pool = small();
    let mut batch = Batch::new(16);
    assert_eq!(pool.take(&mut batch, 16), 8);
    assert_eq!((pool.free(), pool.take_one().is_none()), (0, true));
    let mut starts: Vec<_> = batch.iter().map(|frame| frame.data().as_ptr() as usize).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 256));
    batch.clear();
    assert_eq!(pool.free(), 8);
    assert_eq!(pool.take(&mut batch, 3), 3);
    assert_eq!(pool.free(), 5);
}

#[test]
fn what_comes_back_is_used_again_first() {
    let mut pool = small();
    let start = |frame: &Frame| frame.data().as_ptr() as usize;
    let mut batch = Batch::new(8);
    pool.take(&mut batch, 2);
    let mut used: Vec<_> = batch.iter().map(start).collect();
    batch.clear();
    pool.recall();
    assert_eq!((pool.free(), pool.take(&mut batch, 2)), (8, 2));
    let mut again: Vec<_> = batch.iter().map(start).collect();
    used.sort_unstable();
    again.sort_unstable();
    assert_eq!(used, again);
    // The others follow, each once. There is no returned frame.
    pool.recall();
    assert_eq!((pool.take(&mut batch, 8), pool.free()), (6, 0));
    let mut all: Vec<_> = batch.iter().map(start).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8);
    // With an empty private list.
    batch.clear();
    pool.recall();
    assert_eq!((pool.take(&mut batch, 9), pool.free()), (8, 0));
}

#[test]
fn frames_outlive_their_pool() {
    let mut pool = small();
    let mut frame = pool.take_one().unwrap();
    drop(pool);
    assert!(frame.fill(b"still here"));
    let other = std::thread::spawn(move || frame.data().to_vec());
    assert_eq!(other.join().unwrap(), b"still here");
}

#[test]
fn room_before_and_after_the_packet() {
    let mut pool = small();
    let mut frame = pool.take_one().unwrap();
    assert!(frame.fill(&[7; 192]) && !frame.set_len(193));
    assert!(frame.prepend(64) && !frame.prepend(1));
    assert_eq!((frame.len(), frame.headroom()), (256, 0));
    assert!(frame.strip(64) && !frame.strip(193));
    assert_eq!(frame.data(), [7; 192]);
    frame.truncate(10);
    assert_eq!((frame.len(), frame.original_len()), (10, 192));
}

#[test]
fn what_is_left_to_do_stays_with_the_packet() {
    use crate::frame::{Gso, OFFLOAD_BYTES, Offload, PartialChecksum};
    let mut pool = small();
    let mut frame = pool.take_one().unwrap();
    assert!(frame.fill(&[7; 100]) && frame.offload().is_none());
    let checksum = Some(PartialChecksum { start: 34, offset: 16 });
    let offload = Offload { gso: Gso::Tcp4, size: 1448, checksum, ..Offload::default() };
    assert!(frame.set_offload(offload) && frame.offload() == Some(offload));
    // It uses a part of the headroom, and its offsets start at the first byte.
    let kept = OFFLOAD_BYTES;
    assert!(!frame.prepend(64 - kept + 1) && frame.prepend(64 - kept));
    let start = |frame: &Frame| frame.offload().unwrap().checksum.unwrap().start as usize;
    assert_eq!(start(&frame), 34 + 64 - kept);
    assert!(frame.strip(64 - kept + 4));
    assert_eq!((start(&frame), frame.len()), (30, 96));
    assert!(frame.set_offload(Offload::default()) && frame.offload().is_none());
    // The next packet in the chunk has none.
    assert!(frame.set_offload(offload));
    drop(frame);
    let mut all = Batch::new(8);
    pool.take(&mut all, 8);
    assert!(all.iter().all(|frame| frame.offload().is_none()));
    let config = PoolConfig { chunks: 1, chunk_size: 256, headroom: 8, numa_node: None };
    let mut frame = Pool::new(config).unwrap().take_one().unwrap();
    assert!(!frame.set_offload(offload) && frame.set_offload(Offload::default()));
}

#[test]
fn a_batch_gives_back_runs_of_several_owners() {
    let (mut a, mut b) = (small(), small());
    let mut batch = Batch::new(16);
    for n in [2, 1, 3] {
        assert_eq!(a.take(&mut batch, n), n);
        assert_eq!(b.take(&mut batch, n), n);
    }
    batch.release_first(4);
    assert_eq!((a.free(), b.free()), (8 - 4, 8 - 4));
    drop(batch);
    assert_eq!((a.free(), b.free()), (8, 8));
}

#[test]
fn frames_return_from_other_threads() {
    let mut pool = small();
    let (mut tx, mut rx) = crate::ring::channel::<Frame>(4);
    let rounds = if cfg!(miri) { 200 } else { 20_000 };
    let consumer = std::thread::spawn(move || {
        let mut got = Vec::new();
        let mut sum = 0u64;
        while !rx.is_finished() {
            rx.receive(&mut got, 3);
            sum += got.drain(..).map(|frame| u64::from(frame.data()[0])).sum::<u64>();
            std::thread::yield_now();
        }
        sum
    });
    let (mut batch, mut sent) = (Batch::new(8), 0u64);
    let mut i = 0u64;
    while i < rounds {
        if let Some(mut frame) = pool.take_one() {
            assert!(frame.fill(&[i as u8]));
            sent += u64::from(i as u8);
            assert!(batch.push(frame).is_ok());
            i += 1;
        }
        while !batch.is_empty() {
            tx.send(batch.as_vec());
        }
    }
    drop(tx);
    assert_eq!(consumer.join().unwrap(), sent);
    assert_eq!(pool.free(), pool.size());
}

#[test]
fn impossible_shapes_are_refused() {
    for (chunks, chunk_size, headroom) in [(0, 2048, 0), (8, 1000, 0), (8, 256, 256)] {
        let config = PoolConfig { chunks, chunk_size, headroom, numa_node: None };
        assert!(Pool::new(config).is_err());
    }
}
