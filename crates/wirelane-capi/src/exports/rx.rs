//! Receiving ends, and waiting for packets.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use wirelane::pipeline;
use wirelane::port::{Readiness, Rx};

use crate::call::{call, count, number, put, slice};
use crate::error::{CallFailure, ErrorValue, Result};
use crate::handles::{BATCHES, BatchHandle, RX, RxHandle};
use crate::table::ExclusiveObject;

/// Ask again at once.
pub const WIRELANE_READY_NOW: u32 = 0;
/// Ask again when the descriptor is readable or the time has passed, or at once if the program has
/// a CPU for this: a thread that sleeps may wake up too late for the next burst.
pub const WIRELANE_READY_SOON: u32 = 1;
/// Ask again when the descriptor is readable or the time has passed.
pub const WIRELANE_READY_DESCRIPTOR: u32 = 2;
/// Ask again after the time.
pub const WIRELANE_READY_AFTER: u32 = 3;
/// All packets have been received.
pub const WIRELANE_READY_END: u32 = 4;

/// When to ask a receiving end again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadinessValue {
    /// The longest time to wait, in nanoseconds.
    pub nanoseconds: u64,
    /// The descriptor to poll for reading, which belongs to the port; -1 if there is none.
    pub descriptor: i32,
    /// WIRELANE_READY_...
    pub kind: u32,
}

/// Result of waiting: a receiving end may have packets.
pub const WIRELANE_WAKE_PACKETS: c_int = 1;
/// Result of waiting: the time has passed.
pub const WIRELANE_WAKE_TIMEOUT: c_int = 2;
/// Result of waiting: a descriptor of the program is ready.
pub const WIRELANE_WAKE_DESCRIPTOR: c_int = 4;
/// Result of waiting: all receiving ends have ended.
pub const WIRELANE_WAKE_ENDED: c_int = 8;

/// Adds received packets to the end of `batch` while it has room. Returns their number; 0 if none
/// is ready. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_rx_receive(rx: RxHandle, batch: BatchHandle) -> c_int {
    count(|| {
        let mut rx = RX.exclusive(rx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(rx.receive(&mut batch)))
    })
}

/// When to ask again after a call that received nothing, for programs with an event loop. An error,
/// such as a removed interface, is returned once; then the end has ended.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_rx_readiness(
    rx: RxHandle,
    readiness: *mut ReadinessValue,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_rx_readiness", error, || {
            let mut rx = RX.exclusive(rx.id)?;
            let value = |kind, descriptor: Option<BorrowedFd<'_>>, time: Duration| ReadinessValue {
                nanoseconds: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                descriptor: descriptor.map_or(-1, |fd| fd.as_raw_fd()),
                kind,
            };
            let value = match rx.readiness()? {
                Readiness::Now => value(WIRELANE_READY_NOW, None, Duration::ZERO),
                Readiness::Soon(fd, time) => value(WIRELANE_READY_SOON, Some(fd), time),
                Readiness::Descriptor(fd, time) => value(WIRELANE_READY_DESCRIPTOR, Some(fd), time),
                Readiness::After(time) => value(WIRELANE_READY_AFTER, None, time),
                Readiness::End => value(WIRELANE_READY_END, None, Duration::MAX),
            };
            put(readiness, value, "readiness is NULL").map(|()| 0)
        })
    }
}

/// Waits until one of `ends` may have packets, `timeout` nanoseconds pass, or a signal arrives. A
/// negative timeout waits without limit. Returns the sum of WIRELANE_WAKE_..., at once if all ends
/// have ended.
///
/// Call it after a round without packets. A failed end returns its error once; then it has ended.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_wait(
    ends: *const RxHandle,
    ends_count: usize,
    timeout: i64,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_wait", error, || {
            let ends = slice(ends, ends_count, "ends is NULL")?;
            Ok(wait(ends, &[], timeout)?.0)
        })
    }
}

/// Like wirelane_wait(), and waits also for at most 64 `descriptors` of the program: until one is
/// readable, has an error or was hung up. Bit i of `ready` (which may be NULL) is set if descriptor
/// i is.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_wait_any(
    ends: *const RxHandle,
    ends_count: usize,
    descriptors: *const c_int,
    descriptors_count: usize,
    timeout: i64,
    ready: *mut u64,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_wait_any", error, || {
            let ends = slice(ends, ends_count, "ends is NULL")?;
            let numbers = slice(descriptors, descriptors_count, "descriptors is NULL")?;
            if numbers.iter().any(|number| *number < 0) {
                return Err(CallFailure::Argument("a descriptor is negative"));
            }
            // The program keeps the descriptors open. If not, poll(2) reports it.
            let borrow = |number: &c_int| BorrowedFd::borrow_raw(*number);
            let descriptors: Vec<_> = numbers.iter().map(borrow).collect();
            let (wake, bits) = wait(ends, &descriptors, timeout)?;
            if !ready.is_null() {
                ready.write(bits);
            }
            Ok(wake)
        })
    }
}

/// Sets `watermark` to a time in nanoseconds since 1970. No older packet follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_rx_watermark(rx: RxHandle, watermark: *mut u64) -> c_int {
    count(|| {
        let time = RX.exclusive(rx.id)?.watermark();
        // SAFETY: by contract of this function.
        unsafe { put(watermark, time, "watermark is NULL") }.map(|()| 0)
    })
}

/// Counts packets received here for which a forwarding program found no room in a TX queue.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_rx_count_unforwarded(rx: RxHandle, packets: u64) -> c_int {
    count(|| {
        RX.exclusive(rx.id)?.count_unforwarded(packets);
        Ok(0)
    })
}

/// Closes the receiving end. Its packets in batches stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_rx_close(rx: RxHandle) -> c_int {
    count(|| RX.remove(rx.id).map(drop).map(|()| 0).map_err(CallFailure::from))
}

/// Waits. Returns the wake-up bits, and the ready descriptors.
fn wait(ends: &[RxHandle], descriptors: &[BorrowedFd<'_>], timeout: i64) -> Result<(c_int, u64)> {
    let open = ends.iter().map(|end| RX.exclusive(end.id));
    let mut open = open.collect::<std::result::Result<Vec<ExclusiveObject<'_, Rx>>, _>>()?;
    // A time beyond the clock's range is no limit.
    let timeout = u64::try_from(timeout).ok().map(Duration::from_nanos);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let wake = pipeline::wait_any(&mut open, descriptors, deadline)?;
    let positions = 0..descriptors.len();
    let ready = positions.filter(|at| wake.is_ready(*at)).fold(0_u64, |bits, at| bits | 1 << at);
    let bits = [
        (wake.packets, WIRELANE_WAKE_PACKETS),
        (wake.deadline, WIRELANE_WAKE_TIMEOUT),
        (ready != 0, WIRELANE_WAKE_DESCRIPTOR),
        (wake.ended, WIRELANE_WAKE_ENDED),
    ];
    let wake = bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
    Ok((wake, ready))
}
