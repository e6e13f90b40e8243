//! What the receiving ends of a simulated port share: start, stop and masks. Written rarely, read
//! once per batch.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wirelane_os::clock;

use super::config;
use crate::error::Result;
use crate::mask::{Class, QueueMask};
use crate::port::control::{Control, Driver};
use crate::sync::lock;

/// Start, stop and masks of one port.
#[derive(Debug)]
pub(super) struct Switch {
    /// The port, for errors.
    spec: String,
    queues: u16,
    /// The masks as they were given.
    mask: Mutex<QueueMask>,
    /// One bit per queue.
    rx: AtomicU64,
    tx: AtomicU64,
    other: AtomicBool,
    started: AtomicBool,
    /// Realtime and monotonic clock at the start.
    epoch: AtomicU64,
    zero: AtomicU64,
    /// Nanoseconds from start to stop; `u64::MAX` while it runs.
    stopped: AtomicU64,
}

impl Switch {
    pub(super) fn new(spec: String, queues: u16, mask: QueueMask) -> Result<Self> {
        let switch = Self {
            spec,
            queues,
            mask: Mutex::new(QueueMask::NONE),
            rx: AtomicU64::new(0),
            tx: AtomicU64::new(0),
            other: AtomicBool::new(false),
            started: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            zero: AtomicU64::new(0),
            stopped: AtomicU64::new(u64::MAX),
        };
        switch.set_mask(mask)?;
        Ok(switch)
    }

    /// Realtime and monotonic clock at the start, once it has happened.
    #[inline]
    pub(super) fn times(&self) -> Option<(u64, u64)> {
        let started = self.started.load(Ordering::Acquire);
        started.then(|| (self.epoch.load(Ordering::Relaxed), self.zero.load(Ordering::Relaxed)))
    }

    /// Nanoseconds from start to stop; `u64::MAX` while it runs.
    #[inline]
    pub(super) fn stopped(&self) -> u64 {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Whether packets of `class` on `queue` are selected.
    #[inline]
    pub(super) fn selects(&self, class: Class, queue: u16) -> bool {
        let bit = |word: &AtomicU64| word.load(Ordering::Relaxed) >> (queue & 63) & 1 == 1;
        match class {
            Class::Rx => bit(&self.rx),
            Class::Tx => bit(&self.tx),
            Class::Other => self.other.load(Ordering::Relaxed),
        }
    }
}

impl Control for Switch {
    fn mask(&self) -> QueueMask {
        lock(&self.mask).clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        for set in [&mask.rx, &mask.tx] {
            if let Some(queue) = set.largest().filter(|queue| *queue >= usize::from(self.queues)) {
                return Err(config::no_queue(&self.spec, queue, self.queues));
            }
        }
        let word = |class| {
            let selected = (0..u32::from(self.queues)).filter(|q| mask.selects(class, *q as usize));
            selected.fold(0, |word, queue| word | 1u64 << queue)
        };
        let mut current = lock(&self.mask);
        self.rx.store(word(Class::Rx), Ordering::Relaxed);
        self.tx.store(word(Class::Tx), Ordering::Relaxed);
        self.other.store(mask.selects(Class::Other, 0), Ordering::Relaxed);
        *current = mask;
        Ok(())
    }

    fn stop(&self) {
        let elapsed = match self.times() {
            Some((_, zero)) => clock::monotonic_ns().saturating_sub(zero),
            None => 0,
        };
        // Only the first call counts.
        let _ =
            self.stopped.compare_exchange(u64::MAX, elapsed, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Driver for Switch {
    /// Starts the clock; only the first call counts.
    fn start(&self) -> Result<()> {
        // The mutex keeps a second starter out while the first one writes the times.
        let _guard = lock(&self.mask);
        if !self.started.load(Ordering::Relaxed) {
            self.epoch.store(clock::realtime_ns(), Ordering::Relaxed);
            self.zero.store(clock::monotonic_ns(), Ordering::Relaxed);
            self.started.store(true, Ordering::Release);
        }
        Ok(())
    }
}
