//! A number of packets that several receiving threads share, for `-c`.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many packets may still be received. Threads take portions, so that exactly the number
/// asked for is received, and not a batch more.
pub(super) struct Budget {
    limit: u64,
    left: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// At most `limit` packets; any number if `None`.
    pub(super) fn new(limit: Option<u64>) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        Self { limit, left: AtomicU64::new(limit), used: AtomicU64::new(0) }
    }

    /// Takes up to `wanted`. Waits while others hold what is left; 0 once all is used.
    #[inline]
    pub(super) fn take(&self, wanted: usize) -> usize {
        if self.limit == u64::MAX {
            return wanted;
        }
        loop {
            let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                (left > 0).then(|| left - left.min(wanted as u64))
            });
            match taken {
                Ok(before) => return before.min(wanted as u64) as usize,
                Err(_) if self.is_spent() => return 0,
                Err(_) => std::thread::sleep(std::time::Duration::from_micros(100)),
            }
        }
    }

    /// Returns what was taken and not used.
    pub(super) fn give_back(&self, unused: usize) {
        if self.limit != u64::MAX && unused > 0 {
            self.left.fetch_add(unused as u64, Ordering::Relaxed);
        }
    }

    /// Uses what was taken.
    #[inline]
    pub(super) fn spend(&self, used: usize) {
        if self.limit != u64::MAX {
            self.used.fetch_add(used as u64, Ordering::Relaxed);
        }
    }

    /// Whether all is used.
    pub(super) fn is_spent(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }
}
