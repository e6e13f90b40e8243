//! The receiving end of one queue: one read per packet, into frames of its pool.
//!
//! A TAP device has no ring to share. With segmentation offload a packet has up to 64 KB, and the
//! system call costs little compared with the copy.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::packet::VirtioNetHdr;
use wirelane_os::{clock, tun};

use super::control::TapDevice;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Offload};
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::{Readiness, Receive};
use crate::stats::RxCounters;

/// The longest sleep on a silent queue: a stop must be noticed.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Approximate bytes to read at a time: they are still in a core's cache when they are segmented.
const BURST: usize = 256 << 10;
/// Pause while all frames are in use.
const HELD: Duration = Duration::from_micros(200);

pub(super) struct Receiver {
    device: Arc<TapDevice>,
    pool: Pool,
    counters: Arc<RxCounters>,
    snaplen: usize,
    watermark: u64,
    /// The last call found no packet.
    is_empty: bool,
    failure: Option<std::io::Error>,
    is_over: bool,
}

impl Receiver {
    pub(super) fn new(
        device: &Arc<TapDevice>,
        pool: Pool,
        counters: &Arc<RxCounters>,
        snaplen: u32,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            pool,
            counters: Arc::clone(counters),
            snaplen: snaplen as usize,
            watermark: 0,
            is_empty: false,
            failure: None,
            is_over: false,
        }
    }

    /// Reads one packet; `None` if there is none, or no frame.
    fn read(&mut self, now: u64) -> Option<Frame> {
        loop {
            let mut frame = self.pool.take_one()?;
            let room = frame.capacity();
            let mut header = VirtioNetHdr::default();
            // The whole chunk, so that the kernel can write to it.
            let _ = frame.set_len(room);
            let fd = self.device.queue(self.counters.number)?;
            self.counters.system_calls.add(1);
            let len = match tun::read_with_header(fd, &mut header, frame.data_mut()) {
                Ok(len) => len,
                Err(error) => {
                    match error.raw_os_error().map(Errno::from_raw_os_error) {
                        Some(Errno::AGAIN) => self.is_empty = true,
                        Some(Errno::INTR) => {}
                        _ => self.failure = Some(error),
                    }
                    return None;
                }
            };
            // The kernel truncates a packet that is longer than the frame, but reports its full
            // length.
            let _ = frame.set_len(len.min(room));
            frame.set_original_len(u32::try_from(len).unwrap_or(u32::MAX));
            frame.stamp(now, self.counters.number, Class::Rx);
            match Offload::from_virtio(&header) {
                Some(offload) if frame.set_offload(offload) => {}
                // The frame could not be sent correctly.
                _ => {
                    self.counters.bad_header.add(1);
                    continue;
                }
            }
            frame.truncate(self.snaplen);
            return Some(frame);
        }
    }
}

impl Receive for Receiver {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        if self.is_over || self.failure.is_some() {
            return 0;
        }
        // Packets read after this are not older.
        let now = clock::realtime_ns();
        self.watermark = now;
        self.is_empty = false;
        let (mut count, mut bytes) = (0, 0);
        while batch.room() > 0 && bytes < BURST {
            let Some(frame) = self.read(now) else { break };
            bytes += frame.len();
            batch.as_vec().push(frame);
            count += 1;
        }
        // Publishes the number of free frames.
        self.pool.take(&mut Batch::new(0), 0);
        count
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if self.is_over {
            return Ok(Readiness::End);
        }
        if let Some(error) = self.failure.take() {
            self.is_over = true;
            return Err(self.device.failed("read", error));
        }
        if self.is_empty && self.device.is_stopped() {
            self.is_over = true;
            self.pool.take(&mut Batch::new(0), 0);
            return Ok(Readiness::End);
        }
        if !self.is_empty {
            return Ok(Readiness::After(HELD));
        }
        let fd: Option<BorrowedFd<'_>> = self.device.queue(self.counters.number);
        fd.map(|fd| Readiness::Descriptor(fd, LONGEST_SLEEP))
            .ok_or_else(|| Error::failed(self.device.name(), "the queue is not open"))
    }

    fn watermark(&self) -> u64 {
        if self.is_over { u64::MAX } else { self.watermark }
    }
}
