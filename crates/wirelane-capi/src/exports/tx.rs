//! Transmitting ends.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::call::{call, count, number, slice};
use crate::error::{ErrorValue, Failure};
use crate::handles::{BATCHES, BatchHandle, TX, TxHandle};

/// How long to leave the interface alone before asking again.
const RETRY: Duration = Duration::from_millis(1);

/// Adds up to `packets` empty frames of the port's own memory to the end of `batch`: they are
/// filled by wirelane_batch_fill() and transmitted without a copy. Returns how many.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_allocate(tx: TxHandle, batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.allocate(&mut batch, packets)))
    })
}

/// Takes packets from the front of `batch`, as many as there is room for; the others stay. Returns
/// how many. Never blocks. They leave at the latest with wirelane_tx_flush().
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_transmit(tx: TxHandle, batch: BatchHandle) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.transmit(&mut batch)))
    })
}

/// As wirelane_tx_transmit(), but flushes and waits for room, until `timeout` nanoseconds pass in
/// which there was none. Returns how many packets stay in the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_tx_transmit_all(
    tx: TxHandle,
    batch: BatchHandle,
    timeout: u64,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_tx_transmit_all", error, || {
            let mut tx = TX.exclusive(tx.id)?;
            let mut batch = BATCHES.exclusive(batch.id)?;
            let (end, frames) = (&mut tx.end, &mut batch);
            end.transmit(frames);
            end.flush()?;
            let timeout = Duration::from_nanos(timeout);
            let mut since = Instant::now();
            while !frames.is_empty() {
                if end.transmit(frames) > 0 {
                    since = Instant::now();
                } else if since.elapsed() >= timeout {
                    break;
                } else {
                    end.wait(RETRY.min(timeout))?;
                }
                end.flush()?;
            }
            Ok(number(frames.len()))
        })
    }
}

/// Transmits a copy of the `len` bytes at `data`. Returns 1, or 0 if there is no room now. It
/// leaves at the latest with wirelane_tx_flush().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_tx_send(tx: TxHandle, data: *const u8, len: usize) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        // SAFETY: by contract of this function.
        let data = unsafe { slice(data, len, "data is NULL") }?;
        let tx = &mut *tx;
        tx.one.clear();
        if tx.end.allocate(&mut tx.one, 1) == 0 {
            return Ok(0);
        }
        let frame = tx.one.first_mut().ok_or(Failure::Argument("there is no frame"))?;
        if !frame.fill(data) {
            tx.one.clear();
            return Err(Failure::Argument("the packet is longer than the frames of the port"));
        }
        let taken = tx.end.transmit(&mut tx.one);
        tx.one.clear();
        Ok(number(taken))
    })
}

/// Adds packets that have left to the end of `batch`, each with the time at which it left; returns
/// how many. Only ports such as `xdp:eth0?tx_timestamps=on` keep them.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_sent(tx: TxHandle, batch: BatchHandle) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.sent(&mut batch)))
    })
}

/// Makes sure that what was taken is on its way, and reclaims the memory of what has left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_tx_flush(tx: TxHandle, error: *mut ErrorValue) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_tx_flush", error, || {
            TX.exclusive(tx.id)?.end.flush()?;
            Ok(0)
        })
    }
}

/// How many packets were taken and have not left.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_pending(tx: TxHandle) -> c_int {
    count(|| Ok(number(TX.exclusive(tx.id)?.end.pending())))
}

/// Waits until there is room again, at most `timeout` nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_tx_wait(
    tx: TxHandle,
    timeout: u64,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_tx_wait", error, || {
            TX.exclusive(tx.id)?.end.wait(Duration::from_nanos(timeout))?;
            Ok(0)
        })
    }
}

/// Flushes until everything has left, at most `timeout` nanoseconds. Returns how many packets have
/// not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_tx_drain(
    tx: TxHandle,
    timeout: u64,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_tx_drain", error, || {
            Ok(number(TX.exclusive(tx.id)?.end.drain(Duration::from_nanos(timeout))?))
        })
    }
}

/// Closes the transmitting end: sends what it has taken for a fifth of a second, and counts the
/// rest as errors.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_close(tx: TxHandle) -> c_int {
    count(|| TX.remove(tx.id).map(drop).map(|()| 0).map_err(Failure::from))
}
