//! Transmitting ends.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::call::{call, count, number, slice};
use crate::error::{CallFailure, ErrorValue};
use crate::handles::{BATCHES, BatchHandle, TX, TxHandle};

/// The delay before the interface is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// Adds up to `packets` empty frames of the port's own memory to the end of `batch`. Fill them with
/// wirelane_batch_fill(); the port transmits them without a copy. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_allocate(tx: TxHandle, batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.allocate(&mut batch, packets)))
    })
}

/// Takes as many packets from the front of `batch` as there is room for; the others stay. Returns
/// their number. Never blocks. wirelane_tx_flush() sends them at the latest.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_transmit(tx: TxHandle, batch: BatchHandle) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.transmit(&mut batch)))
    })
}

/// Like wirelane_tx_transmit(), but flushes, and waits for room until there was none for `timeout`
/// nanoseconds. Returns the number of packets that stay in the batch.
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

/// Transmits a copy of the `len` bytes at `data`. Returns 1, or 0 if there is no room now.
/// wirelane_tx_flush() sends it at the latest.
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
        let frame = tx.one.first_mut().ok_or(CallFailure::Argument("there is no frame"))?;
        if !frame.fill(data) {
            tx.one.clear();
            return Err(CallFailure::Argument("the packet is longer than the frames of the port"));
        }
        let taken = tx.end.transmit(&mut tx.one);
        tx.one.clear();
        Ok(number(taken))
    })
}

/// Adds transmitted packets to the end of `batch`, each with its transmit time, and returns their
/// number. Only ports such as `xdp:eth0?tx_timestamps=on` keep these packets.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_sent(tx: TxHandle, batch: BatchHandle) -> c_int {
    count(|| {
        let mut tx = TX.exclusive(tx.id)?;
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(number(tx.end.sent(&mut batch)))
    })
}

/// Hands the packets taken so far to the interface, and reclaims the memory of transmitted packets.
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

/// The number of packets taken and not transmitted yet.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_pending(tx: TxHandle) -> c_int {
    count(|| Ok(number(TX.exclusive(tx.id)?.end.pending())))
}

/// Waits for room, for at most `timeout` nanoseconds.
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

/// Flushes until all packets were transmitted, for at most `timeout` nanoseconds. Returns the
/// number of remaining packets.
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

/// Closes the transmitting end. Sends its pending packets for up to a fifth of a second, and counts
/// the rest as errors.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_tx_close(tx: TxHandle) -> c_int {
    count(|| TX.remove(tx.id).map(drop).map(|()| 0).map_err(CallFailure::from))
}
