//! The receiving end of one queue: one read per packet, into frames of our own.
//!
//! The kernel has no ring to share here. With segmentation offload a packet is up to 64 KB, and the
//! system call is a small part of the copy.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirelane_os::packet::VirtioNetHdr;
use wirelane_os::{clock, tun};

use super::control::Device;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame, Offload};
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::{Readiness, Receive};
use crate::stats::RxCounters;

/// How long a silent queue may sleep before it looks whether it is to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Bytes to read at a time, about: what is read is in a core's cache still when it is cut.
const BURST: usize = 256 << 10;
/// All frames are in use: until some come back.
const HELD: Duration = Duration::from_micros(200);

pub(super) struct Receiver {
    device: Arc<Device>,
    pool: Pool,
    counters: Arc<RxCounters>,
    snaplen: usize,
    watermark: u64,
    /// The last call found nothing to read.
    is_empty: bool,
    failure: Option<std::io::Error>,
    is_over: bool,
}

impl Receiver {
    pub(super) fn new(
        device: &Arc<Device>,
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
            // All of the chunk, for the kernel to write to.
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
            // What is longer than the frame was cut by the kernel, which still says how long it
            // was.
            let _ = frame.set_len(len.min(room));
            frame.set_original_len(u32::try_from(len).unwrap_or(u32::MAX));
            frame.stamp(now, self.counters.number, Class::Rx);
            match Offload::from_virtio(&header) {
                Some(offload) if frame.set_offload(offload) => {}
                // Nobody could send it right.
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
        // Whatever is read from now on is younger.
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
        // Publishes how many frames are free.
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
