//! The transmitting end of one queue: one write per packet, which the kernel copies.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use wirelane_os::packet::VirtioNetHdr;
use wirelane_os::tun;

use super::control::TapDevice;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::pool::Pool;
use crate::port::Transmit;
use crate::stats::TxCounters;

pub(super) struct Transmitter {
    device: Arc<TapDevice>,
    pool: Pool,
    counters: Arc<TxCounters>,
    failure: Option<std::io::Error>,
}

impl Transmitter {
    pub(super) fn new(device: &Arc<TapDevice>, pool: Pool, counters: &Arc<TxCounters>) -> Self {
        let (device, counters) = (Arc::clone(device), Arc::clone(counters));
        Self { device, pool, counters, failure: None }
    }

    /// Writes one packet; false if there is no room for it now.
    fn write(&mut self, frame: &Frame) -> bool {
        let Some(fd) = self.device.queue(self.counters.queue) else { return false };
        let offload = frame.offload().unwrap_or_default();
        if offload.checksum.is_some_and(|place| !place.is_inside(frame.len())) {
            // The kernel would refuse it, too.
            self.counters.unfinished.add(1);
            self.counters.errors.add(1);
            return true;
        }
        let header = match offload.is_none() {
            true => VirtioNetHdr::default(),
            false => offload.virtio_of(frame.data()),
        };
        self.counters.system_calls.add(1);
        match tun::write_with_header(fd, &header, frame.data()) {
            Ok(()) => {
                self.counters.packets.add(1);
                self.counters.bytes.add(frame.len() as u64);
                true
            }
            Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::AGAIN | Errno::INTR) => false,
                Some(Errno::BADFD) => {
                    self.counters.refuse(&error);
                    self.failure.get_or_insert(error);
                    true
                }
                // The device is down (EIO), or the frame is invalid.
                _ => {
                    self.counters.refuse(&error);
                    true
                }
            },
        }
    }
}

impl Transmit for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let mut taken = 0;
        while let Some(frame) = batch.get(taken) {
            if !self.write(frame) {
                break;
            }
            taken += 1;
        }
        batch.release_first(taken);
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.pool.take(batch, n)
    }

    fn flush(&mut self) -> Result<()> {
        // Publishes the number of free frames.
        self.pool.take(&mut Batch::new(0), 0);
        self.failure.take().map_or(Ok(()), |error| Err(self.device.failed("write", error)))
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        if let Some(fd) = self.device.queue(self.counters.queue) {
            let time = timeout.try_into().ok();
            // The next write reports a signal or an error.
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], time.as_ref());
        }
        self.flush()
    }
}
