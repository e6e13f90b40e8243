//! The CPUs from which a thread has to send, so that its packets leave by its own TX queue.
//!
//! They may change while the thread sends: somebody writes `xps_cpus`.
//! [`XpsWatch`](crate::port::XpsWatch) writes the changes here, and the sending thread compares two
//! numbers before each system call.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::inspect::CpuList;

/// The CPUs from which a thread has to send.
#[derive(Clone, Debug)]
pub struct XpsBinding {
    /// The CPUs of its queue, at first.
    pub cpus: CpuList,
    /// The thread's own, one of them; `None` if its frames leave by the queue of another CPU.
    pub own: Option<u32>,
    news: Arc<News>,
}

/// What is new since.
#[derive(Debug, Default)]
struct News {
    /// Readings of the steering that were begun.
    readings: AtomicU32,
    /// Those that found a change.
    changes: AtomicU32,
    /// What the last one of these found.
    latest: Mutex<(CpuList, Option<u32>)>,
}

impl XpsBinding {
    pub(crate) fn new(cpus: CpuList, own: Option<u32>) -> Self {
        Self { cpus, own, news: Arc::default() }
    }

    /// The steering is read again from now on.
    pub(in crate::port) fn begin_reading(&self) {
        self.news.readings.fetch_add(1, Ordering::SeqCst);
    }

    /// It has changed since the last reading.
    pub(in crate::port) fn change(&self, cpus: CpuList, own: Option<u32>) {
        *self.news.latest.lock().unwrap_or_else(PoisonError::into_inner) = (cpus, own);
        self.news.changes.fetch_add(1, Ordering::Release);
    }

    /// How many readings were begun, and how many changes found.
    #[inline]
    pub(in crate::port) fn counts(&self) -> (u32, u32) {
        let changes = self.news.changes.load(Ordering::Acquire);
        (self.news.readings.load(Ordering::SeqCst), changes)
    }

    /// The CPUs of the queue and the thread's own, after the last change.
    pub(in crate::port) fn latest(&self) -> (CpuList, Option<u32>) {
        self.news.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
