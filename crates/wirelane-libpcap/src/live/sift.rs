//! A filter in the thread that reads, for packets that the rings had before a change.
//!
//! The port applies a new filter or direction to later packets. Packets already in the rings or
//! held here must pass it as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::Frame;

/// Packets up to the time `until` leave only if `accepts` returns true.
pub(crate) struct Sift {
    /// Nanoseconds since the Unix epoch; `u64::MAX` for all packets.
    pub(crate) until: u64,
    /// Whether the program may see the packet.
    pub(crate) accepts: Box<dyn Fn(&Frame) -> bool + Send + Sync>,
}

/// The sift in force, which another thread may change.
#[derive(Default)]
pub(crate) struct Sifts {
    version: AtomicU64,
    sift: Mutex<Option<Arc<Sift>>>,
}

impl Sifts {
    /// Applies from the next packet on.
    pub(crate) fn set(&self, sift: Option<Sift>) {
        *self.sift.lock().unwrap_or_else(PoisonError::into_inner) = sift.map(Arc::new);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes with every [`Sifts::set`].
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The current sift.
    pub(super) fn current(&self) -> Option<Arc<Sift>> {
        self.sift.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
