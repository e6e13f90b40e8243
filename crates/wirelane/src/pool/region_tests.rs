use super::*;
use crate::frame::Batch;
use crate::pool::{Pool, PoolConfig};

fn config(chunks: u32, chunk_size: u32) -> PoolConfig {
    PoolConfig { chunks, chunk_size, headroom: 64, numa_node: None }
}

fn region(pools: &[(u32, u32)]) -> Region {
    Region::new(pools.iter().map(|(n, size)| Region::bytes_for(*n, *size)).sum(), None)
        .expect("a small region")
}

fn all(pool: &mut Pool) -> Batch {
    let mut batch = Batch::new(pool.size() as usize + 1);
    let size = pool.size() as usize;
    assert_eq!(pool.take(&mut batch, size + 1), size);
    batch
}

fn lend(region: &Region, frame: Frame, tag: Tag, pieces: u32) -> u64 {
    assert!(region.address(&frame).is_some());
    // SAFETY: as asserted.
    unsafe { region.lend(frame, tag, pieces) }
}

fn take_back(region: &Region, address: u64, tag: Tag) -> Returned {
    // SAFETY: no kernel uses this region.
    unsafe { region.take_back(address, tag) }
}

fn receive(region: &Region, address: u64, len: u32, tag: Tag) -> Option<Frame> {
    // SAFETY: as above.
    unsafe { region.receive(address, len, tag) }
}

fn reclaim(region: &Region, tag: Tag) -> u64 {
    // SAFETY: as above.
    unsafe { region.reclaim(tag) }
}

/// Pools of one region with chunks of different sizes share no byte, and every byte of a chunk maps
/// to it.
#[test]
fn chunks_are_apart_and_found_by_every_address() {
    let shapes = [(8, 2048), (5, 3000), (3, 16384), (7, 2049), (4, 4096), (9, 2048), (3, 65536)];
    let region = region(&shapes);
    let mut pools: Vec<Pool> = shapes
        .map(|(n, size)| Pool::in_region(&region, config(n, size)).unwrap())
        .into_iter()
        .collect();
    let mut spans = Vec::new();
    let mut batches: Vec<Batch> = pools.iter_mut().map(all).collect();
    let tag = region.tag().unwrap();
    for (batch, (_, size)) in batches.iter_mut().zip(shapes) {
        let n = batch.len();
        for frame in batch.drain(n) {
            let data = region.address(&frame).unwrap();
            let chunk = lend(&region, frame, tag, 1);
            assert_eq!(data - chunk, 64);
            spans.push((chunk, u64::from(size)));
            if size.is_power_of_two() {
                assert_eq!(chunk % u64::from(size), 0, "aligned as a kernel wants it");
            }
        }
    }
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
    assert!(spans.last().is_some_and(|(chunk, size)| chunk + size <= region.size() as u64));
    for (chunk, size) in spans {
        for at in [0, 1, 63, size / 2, 2047, 2048, size - 1] {
            let at = chunk + at.min(size - 1);
            let len = (chunk + size - at) as u32;
            assert!(receive(&region, at, len + 1, tag).is_none(), "beyond the chunk");
            let frame = receive(&region, at, len, tag).unwrap();
            assert_eq!(region.address(&frame), Some(at));
            assert_eq!((frame.len(), frame.headroom() as u64), (len as usize, at - chunk));
            assert_eq!(lend(&region, frame, tag, 1), chunk);
        }
        let Returned::Frame(frame) = take_back(&region, chunk + size / 2, tag) else { panic!() };
        drop(frame);
    }
    for pool in &pools {
        assert_eq!(pool.free(), pool.size());
    }
}

/// A ring returns only frames in flight in it, and only once.
#[test]
fn only_what_is_in_flight_comes_back() {
    let region = region(&[(4, 2048)]);
    let mut pool = Pool::in_region(&region, config(4, 2048)).unwrap();
    let (ours, theirs) = (region.tag().unwrap(), region.tag().unwrap());
    let frame = pool.take_one().unwrap();
    let at = region.address(&frame).unwrap();
    assert!(matches!(take_back(&region, at, ours), Returned::Stranger), "it is in use");
    lend(&region, frame, ours, 3);
    assert!(matches!(take_back(&region, at, theirs), Returned::Stranger));
    assert!(receive(&region, at, 1, ours).is_none(), "it is in flight in pieces");
    for address in [u64::MAX, region.size() as u64, region.size() as u64 - 1] {
        assert!(matches!(take_back(&region, address, ours), Returned::Stranger), "{address}");
        assert!(receive(&region, address, 1, ours).is_none());
    }
    assert!(matches!(take_back(&region, at, ours), Returned::Piece));
    assert!(matches!(take_back(&region, at + 100, ours), Returned::Piece));
    assert!(matches!(take_back(&region, at, ours), Returned::Frame(_)));
    assert!(matches!(take_back(&region, at, ours), Returned::Stranger), "once only");
    assert_eq!(pool.free(), 4);
}

#[test]
fn a_ring_that_ends_gives_everything_back() {
    let region = region(&[(8, 2048), (8, 4096)]);
    let pool = |size| Pool::in_region(&region, config(8, size)).unwrap();
    let (mut a, mut b) = (pool(2048), pool(4096));
    let (first, second) = (region.tag().unwrap(), region.tag().unwrap());
    for pool in [&mut a, &mut b] {
        for tag in [first, first, first, second] {
            let frame = pool.take_one().unwrap();
            lend(&region, frame, tag, 2);
        }
    }
    let gauge = a.gauge();
    drop(a);
    assert_eq!(gauge.free(), 4, "returned frames count without their pool, too");
    assert_eq!((reclaim(&region, first), reclaim(&region, first)), (6, 0));
    assert_eq!((gauge.free(), b.free()), (7, 7));
    assert_eq!(reclaim(&region, second), 2);
    assert_eq!((gauge.free(), b.free()), (8, 8));
}

#[test]
fn memory_is_taken_once_and_runs_out() {
    let region = region(&[(8, 2048)]);
    let other = self::region(&[(1, 2048)]);
    let size = region.size();
    let chunks = (size / 2048) as u32;
    assert!(Pool::in_region(&region, config(chunks + 1, 2048)).is_err());
    assert_eq!(region.left(), size);
    let mut pool = Pool::in_region(&region, config(chunks, 2048)).unwrap();
    assert_eq!(region.left(), 0);
    assert!(Pool::in_region(&region, config(1, 2048)).is_err());
    let frame = pool.take_one().unwrap();
    assert!(region.address(&frame).is_some() && other.address(&frame).is_none());
    assert!(region.is_same(pool.region()) && !region.is_same(&other));
    // The frame keeps the memory.
    drop((pool, region));
    assert_eq!(frame.headroom(), 64);
    for (chunks, size, headroom) in [(0, 2048, 0), (1, 1024, 0), (1, 65537, 0), (1, 2048, 2048)] {
        let config = PoolConfig { chunks, chunk_size: size, headroom, numa_node: None };
        assert!(Pool::in_region(&other, config).is_err());
    }
}
