//! The status of a writer, for any thread.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Counts of packets and of their bytes, as captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their captured bytes.
    pub bytes: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The counters of a store, as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReport {
    /// By lane, in order of creation.
    pub lanes: Vec<LaneReport>,
    /// Segments in the store, finished or not.
    pub segments: u64,
    /// Bytes of the segments and their indexes; a segment that is being written counts as a whole.
    pub bytes: u64,
    /// Segments deleted to keep a limit.
    pub deleted: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Time of the oldest packet in the finished segments, in nanoseconds since the epoch.
    pub oldest: Option<u64>,
    /// Bytes that can be written before a segment is deleted or the disk is full. Unknown if the
    /// file system does not report it.
    pub room: Option<u64>,
    /// Why the files are written through the page cache, if so.
    pub buffered: Option<String>,
    /// Why io_uring is not used, or why its memory is pinned at each write, if so.
    pub no_ring: Option<String>,
    /// The first shortening of segments, if any.
    pub short_segments: Option<ShortSegments>,
    /// The current problem that prevents writing.
    pub trouble: Option<String>,
    /// The number of problems so far, whether or not they prevented writing.
    pub troubles: u64,
    /// The last problem, solved or not.
    pub last_trouble: Option<String>,
}

/// Segments are shorter than configured, because two of each lane do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortSegments {
    /// Their length in bytes.
    pub len: u64,
    /// The configured length in bytes.
    pub wanted: u64,
    /// The most bytes that all segments can take.
    pub room: u64,
    /// The number of lanes that share it.
    pub lanes: u64,
}

/// The counters of a lane. Every packet of `taken` is written, lost or forgotten, or waits in
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneReport {
    /// Packets refused for lack of memory, because the disk is too slow or fails.
    pub dropped: Counts,
    /// Packets accepted into memory. Counted by whole extents, so up to 1 MiB late.
    pub taken: Counts,
    /// Packets that are on disk.
    pub written: Counts,
    /// Packets that could not be written until the end.
    pub lost: Counts,
    /// Packets outside all triggers' windows.
    pub forgotten: Counts,
    /// Forgotten packets that a later trigger could have included, dropped for lack of memory.
    pub cut: Counts,
    /// Packets that wait for a trigger.
    pub held: Counts,
    /// Bytes written to the disk.
    pub disk_bytes: u64,
    /// Segments started.
    pub segments: u32,
}

impl StoreReport {
    /// The sums over all lanes.
    #[must_use]
    pub fn total(&self) -> LaneReport {
        let mut total = LaneReport::default();
        for lane in &self.lanes {
            total.dropped.add(lane.dropped);
            total.taken.add(lane.taken);
            total.written.add(lane.written);
            total.lost.add(lane.lost);
            total.forgotten.add(lane.forgotten);
            total.cut.add(lane.cut);
            total.held.add(lane.held);
            total.disk_bytes += lane.disk_bytes;
            total.segments += lane.segments;
        }
        total
    }
}

impl LaneReport {
    /// Bytes received and not on disk yet: how far the disk is behind.
    #[must_use]
    pub fn lag(&self) -> u64 {
        let gone = self.written.bytes + self.lost.bytes + self.forgotten.bytes + self.held.bytes;
        self.taken.bytes.saturating_sub(gone)
    }
}

/// The status of a store, for any thread.
#[derive(Debug, Default)]
pub struct StoreStatus {
    lanes: Mutex<Vec<Arc<LaneStatus>>>,
    pub(crate) retention: Mutex<RetentionStatus>,
    /// The current problems that prevent writing: of the retention thread, and of each lane.
    trouble: Mutex<Troubles>,
    pub(crate) buffered: OnceLock<String>,
    pub(crate) no_ring: OnceLock<String>,
    pub(crate) short: OnceLock<ShortSegments>,
}

/// The retention thread's numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetentionStatus {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) deleted: u64,
    pub(crate) deleted_bytes: u64,
    pub(crate) oldest: Option<u64>,
    pub(crate) room: Option<u64>,
}

#[derive(Debug, Default)]
struct Troubles {
    now: Vec<(Who, String)>,
    count: u64,
    last: Option<String>,
    /// The problem at the time when a lane gave up.
    kept: Option<String>,
}

/// The thread that has a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Retention,
    Lane(u32),
}

impl StoreStatus {
    /// A snapshot of the status.
    #[must_use]
    pub fn report(&self) -> StoreReport {
        let retention = *self.retention.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        StoreReport {
            lanes: lanes.iter().map(|lane| lane.report()).collect(),
            segments: retention.segments,
            bytes: retention.bytes,
            deleted: retention.deleted,
            deleted_bytes: retention.deleted_bytes,
            oldest: retention.oldest,
            room: retention.room,
            buffered: self.buffered.get().cloned(),
            no_ring: self.no_ring.get().cloned(),
            short_segments: self.short.get().copied(),
            trouble: trouble.now.first().map(|(_, text)| text).or(trouble.kept.as_ref()).cloned(),
            troubles: trouble.count,
            last_trouble: trouble.last.clone(),
        }
    }

    pub(crate) fn lanes(&self) -> u64 {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    pub(crate) fn add_lane(&self) -> Arc<LaneStatus> {
        let lane = Arc::new(LaneStatus::default());
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&lane));
        lane
    }

    /// Records a problem that prevents writing until [`StoreStatus::settled`].
    pub(crate) fn trouble(&self, who: Who, text: &str) {
        let mut troubles = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match troubles.now.iter_mut().find(|(one, _)| *one == who) {
            Some((_, now)) if now == text => return,
            Some((_, now)) => *now = text.into(),
            None => troubles.now.push((who, text.into())),
        }
        troubles.count += 1;
        troubles.last = Some(text.into());
    }

    /// Records a problem that does not prevent writing.
    pub(crate) fn mishap(&self, text: String) {
        let mut troubles = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.count += 1;
        troubles.last = Some(text);
    }

    /// Keeps the current problem until the end, because a lane gives up.
    pub(crate) fn keep_trouble(&self) {
        let mut troubles = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let now = troubles.now.first().map(|(_, text)| text.clone());
        troubles.kept = now.or_else(|| troubles.last.clone());
    }

    /// Removes a thread's problem.
    pub(crate) fn settled(&self, who: Who) {
        let mut troubles = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.now.retain(|(one, _)| *one != who);
    }
}

/// The counters of a lane. One thread writes each.
#[derive(Debug, Default)]
pub(crate) struct LaneStatus {
    pub(crate) receiving: ReceiveCounters,
    pub(crate) storing: Storing,
}

/// The counters of the receiving thread, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReceiveCounters {
    pub(crate) dropped: AtomicCounts,
    pub(crate) taken: AtomicCounts,
}

/// The counters of the lane's store thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Storing {
    pub(crate) written: AtomicCounts,
    pub(crate) lost: AtomicCounts,
    pub(crate) forgotten: AtomicCounts,
    pub(crate) cut: AtomicCounts,
    pub(crate) held: AtomicCounts,
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) segments: AtomicU32,
}

/// Counts that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct AtomicCounts {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl AtomicCounts {
    /// Only the one thread that counts may call it.
    #[inline]
    pub(crate) fn add(&self, counts: Counts) {
        let mut sum = self.load();
        sum.add(counts);
        self.set(sum);
    }

    /// Only the one thread that counts may call it.
    pub(crate) fn set(&self, counts: Counts) {
        self.packets.store(counts.packets, Ordering::Relaxed);
        self.bytes.store(counts.bytes, Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> Counts {
        let load = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Counts { packets: load(&self.packets), bytes: load(&self.bytes) }
    }
}

impl LaneStatus {
    fn report(&self) -> LaneReport {
        let (receiving, storing) = (&self.receiving, &self.storing);
        LaneReport {
            dropped: receiving.dropped.load(),
            written: storing.written.load(),
            lost: storing.lost.load(),
            forgotten: storing.forgotten.load(),
            cut: storing.cut.load(),
            held: storing.held.load(),
            disk_bytes: storing.disk_bytes.load(Ordering::Relaxed),
            segments: storing.segments.load(Ordering::Relaxed),
            taken: receiving.taken.load(),
        }
    }
}
