//! Masks, as plain values.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use wirelane::QueueSet;

use crate::call::{call, count, put, text};
use crate::error::{CallFailure, ErrorValue};
use crate::mask::{MaskValue, WIRELANE_RX, WIRELANE_TX};

const NO_MASK: &str = "mask is NULL";

/// Selects everything, in all three classes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_mask_all(mask: *mut MaskValue) -> c_int {
    // SAFETY: by contract of this function.
    count(|| unsafe { put(mask, MaskValue::every(true), NO_MASK) }.map(|()| 0))
}

/// Selects nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_mask_none(mask: *mut MaskValue) -> c_int {
    // SAFETY: by contract of this function.
    count(|| unsafe { put(mask, MaskValue::every(false), NO_MASK) }.map(|()| 0))
}

/// Replaces the queues of class WIRELANE_RX or WIRELANE_TX. `queues` is "all", "none" or a list
/// such as "0,2-3".
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_mask_parse(
    mask: *mut MaskValue,
    queue_class: u32,
    queues: *const c_char,
    error: *mut ErrorValue,
) -> c_int {
    // SAFETY: by contract of this function.
    unsafe {
        call("wirelane_mask_parse", error, || {
            let mask = mask.as_mut().ok_or(CallFailure::Argument(NO_MASK))?;
            if !matches!(queue_class, WIRELANE_RX | WIRELANE_TX) {
                return Err(CallFailure::Argument("only the classes RX and TX have queues"));
            }
            let set: QueueSet = text(queues, "queues is NULL")?.parse()?;
            mask.set(queue_class, &set);
            Ok(0)
        })
    }
}

/// Selects one queue of WIRELANE_RX or WIRELANE_TX, or all queues with WIRELANE_NO_QUEUE; or, with
/// WIRELANE_OTHER, packets without a queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_mask_add(
    mask: *mut MaskValue,
    queue_class: u32,
    queue: u32,
) -> c_int {
    count(|| {
        // SAFETY: by contract of this function.
        unsafe { mask.as_mut() }.ok_or(CallFailure::Argument(NO_MASK))?.add(queue_class, queue)
    })
}

/// Returns 1 if the mask selects packets of this class and queue, otherwise 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wirelane_mask_selects(
    mask: *const MaskValue,
    queue_class: u32,
    queue: u32,
) -> c_int {
    count(|| {
        // SAFETY: by contract of this function.
        let mask = unsafe { mask.as_ref() }.ok_or(CallFailure::Argument(NO_MASK))?;
        mask.selects(queue_class, queue)
    })
}
