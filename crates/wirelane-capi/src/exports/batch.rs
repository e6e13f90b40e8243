//! Batches: what is in them, and changes to it.
#![allow(unsafe_code)]

use std::ffi::c_int;

use wirelane::Batch;

use crate::batch::{Packet, frame};
use crate::call::{call, count, number, put, slice};
use crate::error::{ErrorValue, Failure};
use crate::handles::{BATCHES, BatchHandle};
use crate::rewrite::rewrite;

const NO_ROOM: Failure = Failure::Argument("the frame has no room for that");

/// The usual number of packets in a batch.
pub const WIRELANE_BATCH_DEFAULT: usize = 64;
const _: () = assert!(WIRELANE_BATCH_DEFAULT == Batch::DEFAULT);

/// No batch holds more packets.
pub const WIRELANE_BATCH_MOST: usize = 65536;

/// Makes an empty batch for up to `capacity` packets. The program frees it by
/// wirelane_batch_free().
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
                return Err(Failure::Argument("capacity is not from 1 to WIRELANE_BATCH_MOST"));
            }
            let id = BATCHES.insert(Batch::new(capacity))?;
            put(batch, BatchHandle { id }, nowhere).map(|()| 0)
        })
    }
}

/// Frees the batch. Its packets go back to where their memory came from.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_free(batch: BatchHandle) -> c_int {
    count(|| BATCHES.remove(batch.id).map(drop).map(|()| 0).map_err(Failure::from))
}

/// Sets `packets` to an array of pointers, one for each packet of the batch, and returns how many
/// these are. The array belongs to the batch and is valid until the next function that adds packets
/// or takes some away. NULL only counts them.
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

/// How many more packets fit.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_room(batch: BatchHandle) -> c_int {
    count(|| Ok(number(BATCHES.exclusive(batch.id)?.room())))
}

/// Gives every packet back to where its memory came from.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_clear(batch: BatchHandle) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.clear();
        Ok(0)
    })
}

/// Gives the first `packets` packets back; those behind them move up.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_release_first(batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.release_first(packets);
        Ok(0)
    })
}

/// Gives all but the first `packets` packets back.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_truncate(batch: BatchHandle, packets: usize) -> c_int {
    count(|| {
        BATCHES.exclusive(batch.id)?.truncate(packets);
        Ok(0)
    })
}

/// Keeps packet i if `keep[i]` is not 0, in order, and gives the others back. `keep` has an element
/// for each packet. Returns how many stay.
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

/// Moves packets from the front of `from` to the end of `to`, as many as fit. Returns how many.
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

/// Replaces the bytes of a packet by `len` bytes at `data`.
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

/// Makes a packet `len` bytes long, cutting or extending it at its end. Bytes gained have no
/// defined content.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_set_len(batch: BatchHandle, index: usize, len: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        frame(&mut batch, index)?.set_len(len).then_some(0).ok_or(NO_ROOM)
    })
}

/// Opens `bytes` bytes before a packet, for a header.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_prepend(batch: BatchHandle, index: usize, bytes: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        frame(&mut batch, index)?.prepend(bytes).then_some(0).ok_or(NO_ROOM)
    })
}

/// Takes `bytes` bytes off the front of a packet.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_strip(batch: BatchHandle, index: usize, bytes: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        let is_stripped = frame(&mut batch, index)?.strip(bytes);
        is_stripped.then_some(0).ok_or(Failure::Argument("the packet is shorter"))
    })
}

/// Sets the time of a packet that the program has made, in nanoseconds since 1970: a file keeps it.
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

/// Sets `nanoseconds` to when the hardware received a packet, by the clock of the device. Returns
/// 1, or 0 if it is not known (`xdp:eth0?rx_timestamps=on` asks for it).
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

/// Sets `hash` to the hash by which the interface told flows apart. Returns 1, or 0 if it is not
/// known (`xdp:eth0?rx_hash=on` asks for it).
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

/// 1 if something is left to do before a packet is as on the wire, such as completing a checksum or
/// cutting it into packets: transmitting ends do it. Otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn wirelane_batch_is_unfinished(batch: BatchHandle, index: usize) -> c_int {
    count(|| {
        let mut batch = BATCHES.exclusive(batch.id)?;
        Ok(c_int::from(frame(&mut batch, index)?.offload().is_some()))
    })
}

/// Changes a field of a packet, WIRELANE_FIELD_..., to the `len` bytes at `value`, in network
/// order. Every checksum that covers it follows, also one that a device will complete.
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
