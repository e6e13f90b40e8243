//! The memory between the receiving threads and the writers, in chunks that all lanes share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes per chunk: several chunks in transit fit into a second-level cache.
pub(super) const CHUNK: usize = 128 * 1024;
/// Chunks reserved for each lane: one being filled, one being written, two in transit. A lane
/// without any could wait forever for a chunk of a lane that has ended.
pub(super) const OWN: usize = 4;

/// How many chunks may be allocated beyond the reserved ones; shared by all lanes, accessed at most
/// once per chunk.
pub(super) struct Credit {
    left: AtomicUsize,
    shared: usize,
}

impl Credit {
    /// The chunks that fit in `bytes`, and at least the reserved ones.
    pub(super) fn new(bytes: usize, lanes: usize) -> Self {
        let shared = (bytes / CHUNK).saturating_sub(OWN * lanes);
        Self { left: AtomicUsize::new(shared), shared }
    }

    /// Whether half of the shared chunks are in use, or there are none.
    pub(super) fn is_scarce(&self) -> bool {
        self.left.load(Ordering::Relaxed) <= self.shared / 2
    }

    /// The maximum number of chunks of one lane: its reserved ones, and all shared ones.
    pub(super) fn of_one(&self) -> usize {
        OWN + self.shared
    }

    pub(super) fn take(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    pub(super) fn give_back(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lanes_own_cannot_be_taken() {
        for (bytes, lanes, shared) in
            [(0, 2, 0), (1 << 20, 2, 0), (2 << 20, 2, 8), (2 << 20, 1, 12)]
        {
            let credit = Credit::new(bytes, lanes);
            assert_eq!(std::iter::from_fn(|| credit.take().then_some(())).count(), shared);
            assert_eq!(credit.of_one(), shared + OWN);
            assert!(credit.is_scarce());
            credit.give_back();
            assert!(credit.take() && !credit.take());
        }
        let credit = Credit::new(2 << 20, 2);
        assert_eq!([(); 4].map(|()| !credit.is_scarce() && credit.take()), [true; 4]);
        assert!(credit.is_scarce());
    }
}
