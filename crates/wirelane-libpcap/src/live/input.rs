//! One receiving end of a merge, and its frames that have not left.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use wirelane::port::{Readiness, Rx};
use wirelane::{Batch, Frame, Result};

/// When to ask an end again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// At once.
    Now,
    /// After this time.
    After(Duration),
    /// When its descriptor is readable, or after the time.
    Readable(RawFd, Duration),
    /// Never.
    End,
}

/// A receiving end and its frames.
pub(super) struct RxInput {
    rx: Rx,
    batch: Batch,
    /// The first frame that has not left.
    next: usize,
    wish: Wish,
    /// Its frames wait for other ends, so it takes more frames than usual out of the ring.
    gathers: bool,
    /// Bytes of the ring that the frames take, while it gathers.
    bytes: usize,
    /// Whether it has received, or read its counters, since the last query.
    is_touched: bool,
}

/// The most frames that wait for other ends. Their handles take 128 KiB.
const MOST: usize = 16_384;
/// The approximate bytes that a frame takes in a ring in addition to its packet.
const OVERHEAD: usize = 112;

impl RxInput {
    pub(super) fn new(rx: Rx) -> Self {
        let mut batch = Batch::new(MOST);
        batch.set_limit(Batch::DEFAULT);
        Self { rx, batch, next: 0, wish: Wish::Now, gathers: false, bytes: 0, is_touched: false }
    }

    /// The frames that have not left.
    #[inline]
    pub(super) fn frames(&self) -> &[Frame] {
        self.batch.get(self.next..).unwrap_or_default()
    }

    /// The time of the first frame.
    #[inline]
    pub(super) fn head(&self) -> Option<u64> {
        self.batch.get(self.next).map(Frame::timestamp)
    }

    /// When to ask it again, if it has no frames.
    pub(super) fn wish(&self) -> Wish {
        self.wish
    }

    /// The descriptor to wait for, if it waits for one.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self.wish {
            Wish::Readable(fd, _) if self.head().is_none() => {
                // SAFETY: the end keeps it open until it is asked again, which takes it mutably.
                Some(unsafe { BorrowedFd::borrow_raw(fd) })
            }
            _ => None,
        }
    }

    /// No later frame is older than this. `disorder` is how much older than its queueing time a
    /// packet may be.
    #[inline]
    pub(super) fn promise(&self, disorder: u64) -> u64 {
        self.rx.watermark().max(self.rx.empty_at().saturating_sub(disorder))
    }

    /// Receives if it has no frames, and otherwise notes when to ask again.
    ///
    /// # Errors
    /// The end failed, and has ended.
    #[inline]
    pub(super) fn refill(&mut self) -> Result<()> {
        if self.wish == Wish::End {
            return Ok(());
        }
        self.is_touched = true;
        if self.rx.receive(&mut self.batch) > 0 {
            return Ok(());
        }
        self.ask()
    }

    #[inline(never)]
    fn ask(&mut self) -> Result<()> {
        let asked = self.rx.readiness().map(|readiness| match readiness {
            Readiness::Now | Readiness::Soon(..) => Wish::Now,
            Readiness::After(time) => Wish::After(time),
            Readiness::Descriptor(fd, time) => Wish::Readable(fd.as_raw_fd(), time),
            Readiness::End => Wish::End,
        });
        self.wish = *asked.as_ref().unwrap_or(&Wish::End);
        if self.wish == Wish::Now {
            // Packets that arrived after the check.
            self.rx.receive(&mut self.batch);
        }
        asked.map(drop)
    }

    /// Releases the first `n` frames, which the caller is done with.
    #[inline]
    pub(super) fn left(&mut self, n: usize) {
        if self.gathers {
            self.bytes = self.bytes.saturating_sub(bytes(self.frames().get(..n).unwrap_or(&[])));
        }
        self.next += n;
        if self.next >= self.batch.len() {
            self.batch.clear();
            self.next = 0;
            if self.gathers {
                self.batch.set_limit(Batch::DEFAULT);
                (self.gathers, self.bytes) = (false, 0);
            }
        } else if self.next >= Batch::DEFAULT && self.next >= self.batch.len() / 4 {
            self.batch.release_first(self.next);
            self.next = 0;
        }
    }

    /// Takes the available frames out of the ring, because they must wait. Returns their bytes.
    pub(super) fn gather(&mut self) -> usize {
        if !self.gathers {
            self.gathers = true;
            self.batch.set_limit(MOST);
            self.bytes = bytes(self.frames());
        }
        self.is_touched = true;
        let before = self.batch.len();
        while self.batch.room() > 0 && self.rx.receive(&mut self.batch) > 0 {}
        let came = bytes(self.batch.get(before..).unwrap_or(&[]));
        self.bytes += came;
        came
    }

    /// The time up to which frames must leave to make room in the ring, which has `ring` bytes.
    pub(super) fn overdue(&self, ring: usize) -> Option<u64> {
        let is_full = self.bytes > ring / 2 || self.batch.room() == 0;
        let frames = self.frames();
        is_full.then(|| frames.get(frames.len() / 2).map(Frame::timestamp)).flatten()
    }

    /// Whether it has received since the last call of [`RxInput::take_touched`].
    #[inline]
    pub(super) fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Whether it has received since the last call.
    pub(super) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.is_touched)
    }
}

fn bytes(frames: &[Frame]) -> usize {
    frames.iter().map(|frame| frame.capacity() + OVERHEAD).sum()
}
