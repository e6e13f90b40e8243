//! State that the receiving ends of a simulated port share: start, stop and masks. Written rarely,
//! read once per batch.

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
pub(super) struct SimSwitch {
    /// The port, for errors.
    spec: String,
    queues: u16,
    /// The masks as the user set them.
    mask: Mutex<QueueMask>,
    /// One bit per queue. An end reads only its own bit, so the words need not change together.
    rx: Box<[AtomicU64]>,
    tx: Box<[AtomicU64]>,
    other: AtomicBool,
    started: AtomicBool,
    /// Realtime and monotonic time of the start.
    epoch: AtomicU64,
    zero: AtomicU64,
    /// Nanoseconds from start to stop; `u64::MAX` while it runs.
    stopped: AtomicU64,
}

impl SimSwitch {
    pub(super) fn new(spec: String, queues: u16, mask: QueueMask) -> Result<Self> {
        let words = || (0..queues.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let switch = Self {
            spec,
            queues,
            mask: Mutex::new(QueueMask::NONE),
            rx: words(),
            tx: words(),
            other: AtomicBool::new(false),
            started: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            zero: AtomicU64::new(0),
            stopped: AtomicU64::new(u64::MAX),
        };
        switch.set_mask(mask)?;
        Ok(switch)
    }

    /// Realtime and monotonic time of the start; `None` before it.
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

    #[inline]
    pub(super) fn selects(&self, class: Class, queue: u16) -> bool {
        let bit = |words: &[AtomicU64]| {
            let word = words.get(usize::from(queue / 64));
            word.is_some_and(|word| word.load(Ordering::Relaxed) >> (queue % 64) & 1 == 1)
        };
        match class {
            Class::Rx => bit(&self.rx),
            Class::Tx => bit(&self.tx),
            Class::Other => self.other.load(Ordering::Relaxed),
        }
    }
}

impl Control for SimSwitch {
    fn mask(&self) -> QueueMask {
        lock(&self.mask).clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        for set in [&mask.rx, &mask.tx] {
            if let Some(queue) = set.largest().filter(|queue| *queue >= usize::from(self.queues)) {
                return Err(config::no_queue(&self.spec, queue, self.queues));
            }
        }
        let store = |class, words: &[AtomicU64]| {
            for (first, word) in (0..).step_by(64).zip(words) {
                let selected = (0..64).filter(|bit| mask.selects(class, first + bit));
                word.store(selected.fold(0, |word, bit| word | 1 << bit), Ordering::Relaxed);
            }
        };
        let mut current = lock(&self.mask);
        store(Class::Rx, &self.rx);
        store(Class::Tx, &self.tx);
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

impl Driver for SimSwitch {
    /// Starts the clock; only the first call counts.
    fn start(&self) -> Result<()> {
        // The mutex keeps a second caller out while the first one writes the times.
        let _guard = lock(&self.mask);
        if !self.started.load(Ordering::Relaxed) {
            self.epoch.store(clock::realtime_ns(), Ordering::Relaxed);
            self.zero.store(clock::monotonic_ns(), Ordering::Relaxed);
            self.started.store(true, Ordering::Release);
        }
        Ok(())
    }
}
