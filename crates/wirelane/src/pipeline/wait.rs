//! Sleeping until one of several receiving ends has something.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::error::{Error, Result};
use crate::port::{Readiness, Rx};

/// Sleeps until one of `inputs` is worth asking again, or `timeout` has passed. False if all of
/// them have ended.
///
/// # Errors
/// A port failed.
pub fn wait_any(inputs: &mut [Rx], timeout: Duration) -> Result<bool> {
    let mut timeout = timeout;
    let mut descriptors = Vec::new();
    let mut ended = 0;
    let count = inputs.len();
    let Some(counters) = inputs.first().map(|rx| Arc::clone(rx.counters())) else {
        return Ok(false);
    };
    for rx in inputs {
        match rx.readiness()? {
            // This thread has nothing else to do.
            Readiness::Now | Readiness::Soon(..) => return Ok(true),
            Readiness::After(time) => timeout = timeout.min(time),
            Readiness::Descriptor(fd, time) => {
                timeout = timeout.min(time);
                descriptors.push(PollFd::from_borrowed_fd(fd, PollFlags::IN | PollFlags::ERR));
            }
            Readiness::End => ended += 1,
        }
    }
    if ended == count {
        return Ok(false);
    }
    // One call for all of them, counted once.
    counters.system_calls.add(1);
    if descriptors.is_empty() {
        std::thread::sleep(timeout);
        return Ok(true);
    }
    // What poll finds, readiness() will find again and explain better.
    let time =
        Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    match poll(&mut descriptors, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(true),
        Err(errno) => Err(Error::io("receive rings", "poll", errno.into())),
    }
}
