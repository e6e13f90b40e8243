//! A filter of the program's own thread, for packets that were let in before a change.
//!
//! A new filter or direction is one of the port from then on. Packets that the kernel has put into
//! the rings before, and those that wait here, have to meet it as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::Frame;

/// Packets not younger than `until` leave only if `accepts` says so.
pub(crate) struct Sift {
    /// Nanoseconds since the Unix epoch; `u64::MAX` for all packets.
    pub(crate) until: u64,
    /// Whether the program is to see it.
    pub(crate) accepts: Box<dyn Fn(&Frame) -> bool + Send + Sync>,
}

/// The sift in force, which another thread may change.
#[derive(Default)]
pub(crate) struct Sifts {
    version: AtomicU64,
    sift: Mutex<Option<Arc<Sift>>>,
}

impl Sifts {
    /// From the next packet on.
    pub(crate) fn set(&self, sift: Option<Sift>) {
        *self.sift.lock().unwrap_or_else(PoisonError::into_inner) = sift.map(Arc::new);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes with every [`Sifts::set`].
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// What is in force.
    pub(super) fn current(&self) -> Option<Arc<Sift>> {
        self.sift.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
