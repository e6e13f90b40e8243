//! The wrapper of every exported function: panics do not unwind into C, and errors become values.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{CallFailure, CallResult, ErrorValue, Result, report};

/// Runs the body of `function`. Returns its status, and describes it in `error`.
///
/// # Safety
/// `error` is NULL or valid for writes.
pub(crate) unsafe fn call(
    function: &str,
    error: *mut ErrorValue,
    body: impl FnOnce() -> Result,
) -> c_int {
    let outcome = run(body);
    // SAFETY: by contract.
    unsafe { report(error, function, &outcome) };
    outcome.status()
}

/// Like [`call`] for functions of the hot path, which return a count or a status.
#[inline]
pub(crate) fn count(body: impl FnOnce() -> Result) -> c_int {
    run(body).status()
}

#[inline]
fn run(body: impl FnOnce() -> Result) -> CallResult {
    // Objects are memory-safe whatever a panic interrupted; C can do no more than close them.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => CallResult::Done(status),
        Ok(Err(failure)) => CallResult::Failed(failure),
        Err(_) => CallResult::Panicked,
    }
}

/// A count in C's type.
#[inline]
pub(crate) fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// The text at `pointer`.
///
/// # Safety
/// NULL, or a string that ends with NUL and outlives the use.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(CallFailure::Argument(what));
    }
    // SAFETY: by contract.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .map_err(|_| CallFailure::Argument("a text is not UTF-8"))
}

/// The `len` values at `pointer`, which may be NULL if there are none.
///
/// # Safety
/// If `len` is not 0 and the pointer is not NULL, it points to `len` values that outlive the use.
pub(crate) unsafe fn slice<'a, T>(
    pointer: *const T,
    len: usize,
    what: &'static str,
) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null()
        || !pointer.is_aligned()
        || len > isize::MAX as usize / size_of::<T>().max(1)
    {
        return Err(CallFailure::Argument(what));
    }
    // SAFETY: by contract, and checked as far as possible.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Writes a function's result to `place`.
///
/// # Safety
/// NULL, or valid for writes.
pub(crate) unsafe fn put<T>(place: *mut T, value: T, what: &'static str) -> Result<()> {
    if place.is_null() {
        return Err(CallFailure::Argument(what));
    }
    // SAFETY: by contract.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes the first `size` bytes of `value`: a program that was compiled with an older header has a
/// shorter structure, one with a newer header a longer one, whose rest becomes 0.
///
/// # Safety
/// NULL, or valid for writes of `size` bytes. `T` has no padding.
pub(crate) unsafe fn put_sized<T: Copy>(
    place: *mut T,
    size: usize,
    value: T,
    what: &'static str,
) -> Result<()> {
    if place.is_null() || size > MOST {
        return Err(CallFailure::Argument(what));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: by contract; `value` has at least `known` bytes.
    unsafe {
        let to = place.cast::<u8>();
        to.copy_from_nonoverlapping((&raw const value).cast(), known);
        to.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// The largest size of any structure. A larger `size` was not initialised.
pub(crate) const MOST: usize = 65_536;
