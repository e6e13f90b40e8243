//! Batches: their packets, and changes to them.
#![allow(unsafe_code)]

use std::ffi::c_int;

use wirelane::Batch;

use crate::batch::{Packet, frame};
use crate::call::{call, count, number, put, slice};
use crate::error::{CallFailure, ErrorValue};
use crate::handles::{BATCHES, BatchHandle};
use crate::rewrite::rewrite;

const NO_ROOM: CallFailure = CallFailure::Argument("the frame has no room for that");

/// The usual number of packets in a batch.
pub const WIRELANE_BATCH_DEFAULT: usize = 64;
const _: () = assert!(WIRELANE_BATCH_DEFAULT == Batch::DEFAULT);

/// The most packets of a batch.
pub const WIRELANE_BATCH_MOST: usize = 65536;

/// Makes an empty batch for up to `capacity` packets. Free it with wirelane_batch_free().
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_new(
    capacity: usize,
    batch: *mut BatchHandle,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_batch_new", error, || {
            let nowhere = "the place for the result is NULL";
            put(batch, BatchHandle { id: 0 }, nowhere)?;
            if !(1..=WIRELANE_BATCH_MOST).contains(&capacity) {
                return Err(CallFailure::Argument("capacity is not from 1 to WIRELANE_BATCH_MOST"));
            }
            let id = BATCHES.insert(Batch::new(capacity))?;
            put(batch, BatchHandle { id }, nowhere).map(|()| 0)
        })
    }
}

/// Frees the batch, and returns its packets to the pools that own their memory.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_free(batch: BatchHandle) -> c_int {
    count(|| BATCHES.remove(batch.id).map(drop).map(|()| 0).map_err(CallFailure::from))
}

/// Sets `packets` to an array of pointers, one for each packet of the batch, and returns their
/// number. The array belongs to the batch and is valid until the next function that adds or removes
/// packets. With NULL, it only counts them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_packets(
    batch: BatchHandle,
    packets: *mut *const *const Packet,
) -> c_int {
    count(|| {
        let batch = BATCHES.exclusive(batch.id)?;
        let records = batch.records();
        if !packets.is_null() {
            // SAFETY: by contract of this function.
            unsafe { packets.write(records.as_ptr().cast()) };
        }
        Ok(number(records.len()))
    })
}

/// The number of packets that still fit.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_room(batch: BatchHandle) -> c_int {
    count(|| Ok(number(BATCHES.exclusive(batch.id)?.room())))
}

/// Returns all packets to the pools that own their memory.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_clear(batch: BatchHandle) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.clear();
        Ok(0)
    })
}

/// Releases the first `packets` packets; the others move to the front.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_release_first(batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.release_first(packets);
        Ok(0)
    })
}

/// Releases all but the first `packets` packets.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_truncate(batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.truncate(packets);
        Ok(0)
    })
}

/// Keeps packet i if `keep[i]` is not 0, in order, and releases the others. `keep` has an element
/// for each packet. Returns the number of packets kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_retain(batch: BatchHandle, keep: *const u8) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        // SAFETY: by contract of this function.
        let keep = unsafe { slice(keep, batch.len(), "keep is NULL") }?;
        let mut verdicts = keep.iter();
        batch.retain(|_| verdicts.next().is_some_and(|keep| *keep != 0));
        Ok(number(batch.len()))
    })
}

/// Moves as many packets as fit from the front of `from` to the end of `to`. Returns their number.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_append(to: BatchHandle, from: BatchHandle) -> c_int {
    count(|| {
        let mut to = BATCHES.exclusive(to.id)?;
        let mut from = BATCHES.exclusive(from.id)?;
        let before = to.len();
        to.append(&mut from);
        Ok(number(to.len() - before))
    })
}

/// Replaces the bytes of a packet with `len` bytes at `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_fill(
    batch: BatchHandle,
    index: usize,
    data: *const u8,
    len: usize,
) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        // SAFETY: by contract of this function.
        let data = unsafe { slice(data, len, "data is NULL") }?;
        frame(&mut batch, index)?.fill(data).then_some(0).ok_or(NO_ROOM)
    })
}

/// Truncates a packet at its end, or extends it, to `len` bytes. Added bytes have no defined
/// content.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_set_len(batch: BatchHandle, index: usize, len: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        frame(&mut batch, index)?.set_len(len).then_some(0).ok_or(NO_ROOM)
    })
}

/// Adds `bytes` bytes before a packet, for a header.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_prepend(batch: BatchHandle, index: usize, bytes: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        frame(&mut batch, index)?.prepend(bytes).then_some(0).ok_or(NO_ROOM)
    })
}

/// Removes `bytes` bytes from the front of a packet.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_strip(batch: BatchHandle, index: usize, bytes: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        let is_stripped = frame(&mut batch, index)?.strip(bytes);
        is_stripped.then_some(0).ok_or(CallFailure::Argument("the packet is shorter"))
    })
}

/// Sets the time of a packet, in nanoseconds since 1970, for packets that the program makes. A
/// capture file stores it.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_set_timestamp(
    batch: BatchHandle,
    index: usize,
    nanoseconds: u64,
) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        frame(&mut batch, index)?.set_timestamp(nanoseconds);
        Ok(0)
    })
}

/// Sets `nanoseconds` to the time at which the hardware received a packet, by the device's clock.
/// Returns 1, or 0 if it is unknown (`xdp:eth0?rx_timestamps=on` enables it).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_hardware_timestamp(
    batch: BatchHandle,
    index: usize,
    nanoseconds: *mut u64,
) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        let Some(time) = frame(&mut batch, index)?.hardware_timestamp() else { return Ok(0) };
        // SAFETY: by contract of this function.
        unsafe { put(nanoseconds, time, "nanoseconds is NULL") }.map(|()| 1)
    })
}

/// Sets `hash` to the flow hash that the interface computed. Returns 1, or 0 if it is unknown
/// (`xdp:eth0?rx_hash=on` enables it).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_rx_hash(
    batch: BatchHandle,
    index: usize,
    hash: *mut u32,
) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        let Some(found) = frame(&mut batch, index)?.rx_hash() else { return Ok(0) };
        // SAFETY: by contract of this function.
        unsafe { put(hash, found.value, "hash is NULL") }.map(|()| 1)
    })
}

/// Returns 1 if offloads are pending, such as a partial checksum or segmentation: transmitting ends
/// complete them. Otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_is_unfinished(batch: BatchHandle, index: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(c_int::from(frame(&mut batch, index)?.offload().is_some()))
    })
}

/// Sets a field of a packet, WIRELANE_FIELD_..., to the `len` bytes at `value`, in network order.
/// Updates every checksum that covers it, also a partial one that a device will complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_batch_rewrite(
    batch: BatchHandle,
    index: usize,
    field: u32,
    value: *const u8,
    len: usize,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_batch_rewrite", error, || {
            let mut batch = BATCHES.exclusive(batch.id)?;
            let value = slice(value, len, "value is NULL")?;
            rewrite(frame(&mut batch, index)?, field, value).map(|()| 0)
        })
    }
}
