//! The receiving end: reads packets of the file into frames.
//!
//! A 64-byte packet costs about 1.4 times as much as with
//! [`CaptureReader`](crate::pcap::CaptureReader) alone, a packet of 1500 bytes 1.1 times (from
//! `/dev/shm`, one core of an AMD EPYC). Most of the difference is moving the frame through its
//! pool and the copy into it.

use std::sync::Arc;
use std::time::Duration;

use super::cursor::FileCursor;
use super::progress::{FileProgress, LARGE};
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pool::{Pool, Region};
use crate::port::{Readiness, Receive};

/// The longest sleep: masks may change during it.
const NAP: Duration = Duration::from_millis(10);
/// Packets to skip in one call when none of them is selected.
const PASSED_BY: usize = 4096;

/// The receiving end of a file.
pub(super) struct FileReceiver {
    cursor: FileCursor,
    small: Pool,
    large: Option<Pool>,
    /// Most bytes kept of a packet.
    snaplen: usize,
    /// The last call found no free frame.
    is_starved: bool,
    progress: Arc<FileProgress>,
}

impl FileReceiver {
    pub(super) fn new(
        cursor: FileCursor,
        small: Pool,
        snaplen: u32,
        progress: &Arc<FileProgress>,
    ) -> Self {
        let progress = Arc::clone(progress);
        Self { cursor, small, large: None, snaplen: snaplen as usize, is_starved: false, progress }
    }

    /// Fills the frames from `first` on with packets; returns how many were filled.
    fn fill(&mut self, batch: &mut Batch, first: usize) -> usize {
        let mut skips = PASSED_BY;
        let mut filled = 0;
        for frame in batch.get_mut(first..).unwrap_or_default() {
            let Some(selected) = self.cursor.seek(&mut skips) else { break };
            let (data, original_len) = self.cursor.packet();
            let data = data.get(..self.snaplen).unwrap_or(data);
            let is_whole = frame.fill(data) && (!selected.says_more || self.attach(frame));
            if !is_whole {
                let Some(large) = self.large_frame(selected.says_more) else { break };
                *frame = large;
            }
            frame.set_original_len(original_len);
            frame.stamp(selected.timestamp, selected.queue, selected.class);
            if selected.timestamp == 0 {
                frame.keep_time();
            }
            self.cursor.take();
            filled += 1;
        }
        filled
    }

    /// Attaches the packet's metadata to the frame; false if there is no room.
    #[cold]
    fn attach(&self, frame: &mut Frame) -> bool {
        let (interface, options) = self.cursor.attachment();
        frame.attach(interface, options)
    }

    /// A large frame with the current packet; `None` if no such frame is free.
    #[cold]
    fn large_frame(&mut self, says_more: bool) -> Option<Frame> {
        let pool = match &mut self.large {
            Some(pool) => pool,
            None => match large_frames() {
                Ok(pool) => {
                    // The gauge is set only once, because there is one such pool.
                    let _ = self.progress.large.set(pool.gauge());
                    self.large.insert(pool)
                }
                Err(error) => {
                    self.cursor.fail(error);
                    return None;
                }
            },
        };
        let Some(mut frame) = pool.take_one() else {
            self.is_starved = true;
            return None;
        };
        let (data, _) = self.cursor.packet();
        let len = data.len().min(self.snaplen);
        if len > frame.capacity() {
            self.progress.cut.add(1);
        }
        let is_filled = frame.fill(data.get(..len.min(frame.capacity())).unwrap_or_default());
        debug_assert!(is_filled);
        if says_more && !self.attach(&mut frame) {
            let (interface, options) = self.cursor.attachment();
            self.progress.bare.add(u64::from(!options.is_empty()));
            // Fails only if the packet itself fills the frame.
            let _ = frame.attach(interface, &[]);
        }
        Some(frame)
    }

    /// Publishes the number of free frames; returns 0.
    #[cold]
    fn idle(&mut self) -> usize {
        self.small.take(&mut Batch::new(0), 0);
        if let Some(large) = &mut self.large {
            large.take(&mut Batch::new(0), 0);
        }
        0
    }
}

/// Frames for long packets.
pub(super) fn large_frames() -> Result<Pool> {
    let region = Region::new(Region::bytes_for(LARGE.chunks, LARGE.chunk_size), None)?;
    Pool::in_region(&region, LARGE)
}

impl Receive for FileReceiver {
    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        self.is_starved = false;
        if !self.cursor.is_running() {
            return self.idle();
        }
        let first = batch.len();
        let taken = self.small.take(batch, usize::MAX);
        if taken == 0 {
            // The end is reported even if the consumer keeps all frames.
            self.is_starved = batch.room() > 0 && self.cursor.has_packet();
            return self.idle();
        }
        let filled = self.fill(batch, first);
        self.cursor.tell_times();
        if filled < taken {
            (filled..taken).for_each(|_| drop(batch.pop()));
            self.idle();
        }
        filled
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if let Some(failure) = self.cursor.failure() {
            return Err(failure);
        }
        if self.cursor.is_over() {
            return Ok(Readiness::End);
        }
        if !self.cursor.is_started() {
            return Ok(Readiness::After(Duration::from_micros(200)));
        }
        if self.is_starved || self.cursor.is_full() {
            // Only the consumer can free frames.
            return Ok(Readiness::After(Duration::from_micros(20)));
        }
        if let Some(pipe) = self.cursor.waits_for() {
            return Ok(Readiness::Descriptor(pipe, NAP));
        }
        let wait = self.cursor.wait();
        Ok(if wait.is_zero() { Readiness::Now } else { Readiness::After(wait.min(NAP)) })
    }

    fn watermark(&self) -> u64 {
        self.cursor.watermark()
    }
}
