//! The CPUs from which a thread must send, so that its packets leave by its TX queue.
//!
//! The CPUs may change while the thread sends: a user writes `xps_cpus`.
//! [`XpsWatch`](crate::port::XpsWatch) stores the changes here, and the sending thread compares two
//! numbers before each system call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::inspect::CpuList;

/// The CPUs from which a thread must send.
#[derive(Clone, Debug)]
pub struct XpsBinding {
    /// The initial CPUs of its queue.
    pub cpus: CpuList,
    /// The thread's CPU, one of `cpus`; `None` if its frames leave by the queue of another CPU.
    pub own: Option<u32>,
    news: Arc<News>,
}

/// Changes since the binding was created.
#[derive(Debug, Default)]
struct News {
    /// Readings of the steering that have begun.
    readings: AtomicU32,
    /// Readings that found a change.
    changes: AtomicU32,
    /// The result of the last such reading.
    latest: Mutex<(CpuList, Option<u32>)>,
}

impl XpsBinding {
    pub(crate) fn new(cpus: CpuList, own: Option<u32>) -> Self {
        Self { cpus, own, news: Arc::default() }
    }

    /// Counts a reading of the steering, which begins now.
    pub(in crate::port) fn begin_reading(&self) {
        self.news.readings.fetch_add(1, Ordering::SeqCst);
    }

    /// Stores a change since the last reading.
    pub(in crate::port) fn change(&self, cpus: CpuList, own: Option<u32>) {
        *self.news.latest.lock().unwrap_or_else(PoisonError::into_inner) = (cpus, own);
        self.news.changes.fetch_add(1, Ordering::Release);
    }

    /// The number of readings begun, and of changes found.
    #[inline]
    pub(in crate::port) fn counts(&self) -> (u32, u32) {
        let changes = self.news.changes.load(Ordering::Acquire);
        (self.news.readings.load(Ordering::SeqCst), changes)
    }

    /// The CPUs of the queue and the thread's CPU after the last change.
    pub(in crate::port) fn latest(&self) -> (CpuList, Option<u32>) {
        self.news.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
