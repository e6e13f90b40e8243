//! Counts the packets of a source by stream, and ends the source after a time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_gen::{Departure, PacketSource};

/// Packets sent by a lane. One thread writes, any thread reads.
pub(super) struct LaneTally {
    streams: Box<[AtomicU64]>,
    /// Departure times of the first and the last packet on the monotonic clock; 0 before the first.
    first: AtomicU64,
    last: AtomicU64,
}

impl LaneTally {
    pub(super) fn new(streams: usize) -> Arc<Self> {
        let streams = (0..streams).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { streams, first: AtomicU64::new(0), last: AtomicU64::new(0) })
    }

    /// The packets of each stream.
    pub(super) fn streams(&self) -> impl Iterator<Item = u64> {
        self.streams.iter().map(|stream| stream.load(Ordering::Relaxed))
    }

    pub(super) fn packets(&self) -> u64 {
        self.streams().sum()
    }

    /// Departure times of the first and the last packet.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let first = self.first.load(Ordering::Relaxed);
        (first > 0).then(|| (first, self.last.load(Ordering::Relaxed)))
    }
}

/// A source whose packets are counted.
pub(super) struct Tallied {
    pub(super) source: Box<dyn PacketSource>,
    pub(super) tally: Arc<LaneTally>,
    /// The source ends this many nanoseconds after its first packet.
    pub(super) limit: u64,
    stream: u32,
    over: bool,
}

impl Tallied {
    pub(super) fn new(source: Box<dyn PacketSource>, tally: Arc<LaneTally>, limit: u64) -> Self {
        Self { source, tally, limit, stream: 0, over: false }
    }
}

impl PacketSource for Tallied {
    fn next(&mut self) -> wirelane_gen::Result<Option<Departure>> {
        if self.over {
            return Ok(None);
        }
        let departure = self.source.next()?;
        self.stream = departure.map_or(0, |departure| departure.stream);
        Ok(departure)
    }

    fn write(&mut self, packet: &mut [u8], now: u64) {
        self.source.write(packet, now);
        // There is a single writer, so no atomic read-modify-write is needed.
        if let Some(count) = self.tally.streams.get(self.stream as usize) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let mut first = self.tally.first.load(Ordering::Relaxed);
        if first == 0 {
            first = now;
            self.tally.first.store(now, Ordering::Relaxed);
        }
        self.tally.last.store(now, Ordering::Relaxed);
        self.over = now.saturating_sub(first) > self.limit;
    }

    fn skip(&mut self) {
        self.source.skip();
    }
}
