//! Control of a file that is read, from any thread: start, stop and masks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wirelane_os::clock;

use super::progress::FileProgress;
use crate::error::{Error, Result};
use crate::halt::Halt;
use crate::mask::{MAX_QUEUES, QueueMask, QueueSet};
use crate::port::control::{Control, Driver};
use crate::sync::lock;

/// Start, stop and masks of one file.
#[derive(Debug)]
pub(super) struct FileSwitch {
    /// The port, for errors.
    spec: String,
    /// The RX and TX queues that the file records.
    queues: [QueueSet; 2],
    mask: Mutex<QueueMask>,
    /// Incremented with the mask, so that the reader locks the mutex only after a change.
    generation: AtomicU64,
    /// Monotonic time of the start; 0 before it.
    started: AtomicU64,
    halt: Halt,
    pub(super) progress: Arc<FileProgress>,
    /// The file is written.
    writes: bool,
}

impl FileSwitch {
    pub(super) fn new(
        spec: String,
        queues: [QueueSet; 2],
        mask: QueueMask,
        halt: Halt,
        writes: bool,
    ) -> Result<Self> {
        let switch = Self {
            spec,
            queues,
            mask: Mutex::new(QueueMask::NONE),
            generation: AtomicU64::new(0),
            started: AtomicU64::new(0),
            halt,
            progress: Arc::default(),
            writes,
        };
        switch.set_mask(mask)?;
        Ok(switch)
    }

    /// Monotonic time of the start; `None` before it.
    pub(super) fn started(&self) -> Option<u64> {
        Some(self.started.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Ends waiting for input.
    pub(super) fn halt(&self) -> &Halt {
        &self.halt
    }

    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.halt.is_asked()
    }

    /// A number that changes with the mask.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl Control for FileSwitch {
    fn mask(&self) -> QueueMask {
        lock(&self.mask).clone()
    }

    fn set_mask(&self, mask: QueueMask) -> Result<()> {
        for (named, known, class) in
            [(&mask.rx, &self.queues[0], "RX"), (&mask.tx, &self.queues[1], "TX")]
        {
            if *named == QueueSet::All {
                continue;
            }
            if let Some(queue) = named.members(MAX_QUEUES).find(|queue| !known.contains(*queue)) {
                let cause = format!("the file records no {class} queue {queue}");
                let help = format!("its {class} queues are: {known}");
                return Err(Error::usage(format!("port '{}'", self.spec), cause).help(help));
            }
        }
        let mut current = lock(&self.mask);
        *current = mask;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn stop(&self) {
        self.halt.ask();
    }
}

impl Driver for FileSwitch {
    /// Starts the clock; only the first call counts.
    fn start(&self) -> Result<()> {
        let now = clock::monotonic_ns().max(1);
        let _ = self.started.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        Ok(())
    }

    fn diagnostics(&self) -> Vec<String> {
        self.progress.diagnostics()
    }

    /// Only reading stops; a writing end still writes its packets.
    fn release(&self) {
        if !self.writes {
            self.stop();
        }
    }
}
