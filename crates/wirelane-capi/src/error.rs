//! Errors as values: a status, the errno, and a text that names the object, the cause and the
//! remedy.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use wirelane::ErrorKind;

use crate::table::HandleRefusal;

/// Success.
pub const WIRELANE_OK: c_int = 0;
/// The request itself is wrong: a malformed spec, an unknown option, a queue that does not exist.
pub const WIRELANE_ERROR_USAGE: c_int = -1;
/// The request was understood, but failed.
pub const WIRELANE_ERROR_FAILED: c_int = -2;
/// The reader of the output closed it.
pub const WIRELANE_ERROR_BROKEN_PIPE: c_int = -3;
/// The handle was closed, or was never one of this kind.
pub const WIRELANE_ERROR_HANDLE: c_int = -4;
/// Another thread is inside a function with the same handle.
pub const WIRELANE_ERROR_BUSY: c_int = -5;
/// An argument is NULL, or out of its range.
pub const WIRELANE_ERROR_ARGUMENT: c_int = -6;
/// A fault of the library itself. The handles can still be closed.
pub const WIRELANE_ERROR_INTERNAL: c_int = -7;

/// The error of a call. The caller owns it, usually on its stack; nothing has to be freed.
///
/// Functions with an `error` argument always set it. With NULL, a caller only gets the status.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ErrorValue {
    /// WIRELANE_OK or one of WIRELANE_ERROR_..., the same as the function returned.
    pub status: i32,
    /// The errno of the failed system call, or 0.
    pub os_error: i32,
    /// One line: the object, the cause and, after a semicolon, the remedy. Empty without an error.
    pub text: [c_char; 1016],
}

const _: () = assert!(size_of::<ErrorValue>() == 1024);

#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The handle cannot be used.
    Handle(HandleRefusal),
    /// An argument is wrong, for this reason.
    Argument(&'static str),
    /// The library reports an error.
    Library(wirelane::Error),
}

pub(crate) type Result<T = c_int> = std::result::Result<T, CallFailure>;

impl From<HandleRefusal> for CallFailure {
    fn from(refusal: HandleRefusal) -> Self {
        Self::Handle(refusal)
    }
}

impl From<wirelane::Error> for CallFailure {
    fn from(error: wirelane::Error) -> Self {
        Self::Library(error)
    }
}

impl CallFailure {
    pub(crate) fn status(&self) -> c_int {
        match self {
            Self::Handle(HandleRefusal::Closed) => WIRELANE_ERROR_HANDLE,
            Self::Handle(HandleRefusal::Busy) => WIRELANE_ERROR_BUSY,
            Self::Handle(HandleRefusal::Full) => WIRELANE_ERROR_FAILED,
            Self::Argument(_) => WIRELANE_ERROR_ARGUMENT,
            Self::Library(error) => match error.kind() {
                ErrorKind::Usage => WIRELANE_ERROR_USAGE,
                ErrorKind::BrokenPipe => WIRELANE_ERROR_BROKEN_PIPE,
                _ => WIRELANE_ERROR_FAILED,
            },
        }
    }

    fn write(&self, function: &str, to: &mut ErrorValue) {
        to.status = self.status();
        match self {
            Self::Handle(HandleRefusal::Full) => {
                to.set_text(&format!("{function}: too many handles"))
            }
            Self::Handle(_) => to.set_text(&format!("{function}: {}", text(to.status))),
            Self::Argument(what) => to.set_text(&format!("{function}: {what}")),
            Self::Library(error) => {
                to.os_error = error.errno().unwrap_or(0);
                to.set_text(&error.to_string());
            }
        }
    }
}

impl ErrorValue {
    /// Truncates it between characters if it is too long.
    fn set_text(&mut self, text: &str) {
        let end = text.floor_char_boundary(self.text.len() - 1);
        let bytes = text.as_bytes().get(..end).unwrap_or_default();
        for (to, from) in self.text.iter_mut().zip(bytes) {
            *to = *from as c_char;
        }
        if let Some(last) = self.text.get_mut(bytes.len()) {
            *last = 0;
        }
    }
}

/// Sets `error`, unless it is NULL, to the outcome of a call of `function`.
///
/// # Safety
/// NULL, or valid for writes.
pub(crate) unsafe fn report(error: *mut ErrorValue, function: &str, outcome: &CallResult) {
    if error.is_null() {
        return;
    }
    if let CallResult::Done(_) = outcome {
        // SAFETY: by contract. The caller need not have initialised it, so nothing is read.
        unsafe {
            (&raw mut (*error).status).write(WIRELANE_OK);
            (&raw mut (*error).os_error).write(0);
            (&raw mut (*error).text).cast::<c_char>().write(0);
        }
        return;
    }
    let mut value = ErrorValue { status: WIRELANE_ERROR_INTERNAL, os_error: 0, text: [0; 1016] };
    match outcome {
        CallResult::Failed(failure) => failure.write(function, &mut value),
        _ => value.set_text(&format!("{function}: {}", text(value.status))),
    }
    // SAFETY: as above.
    unsafe { error.write(value) };
}

/// The outcome of a call.
pub(crate) enum CallResult {
    Done(c_int),
    Failed(CallFailure),
    Panicked,
}

impl CallResult {
    pub(crate) fn status(&self) -> c_int {
        match self {
            Self::Done(status) => *status,
            Self::Failed(failure) => failure.status(),
            Self::Panicked => WIRELANE_ERROR_INTERNAL,
        }
    }
}

/// A short text for a status.
fn text(status: c_int) -> &'static str {
    c_text(status).to_str().unwrap_or_default()
}

/// Like [`text`], for C.
pub(crate) fn c_text(status: c_int) -> &'static CStr {
    match status {
        WIRELANE_ERROR_USAGE => c"the request is wrong",
        WIRELANE_ERROR_FAILED => c"it could not be carried out",
        WIRELANE_ERROR_BROKEN_PIPE => c"the reader went away",
        WIRELANE_ERROR_HANDLE => c"the handle was closed, or is not of this kind",
        WIRELANE_ERROR_BUSY => c"another thread is using the handle",
        WIRELANE_ERROR_ARGUMENT => c"an argument is NULL or out of its range",
        WIRELANE_ERROR_INTERNAL => c"a fault of the library",
        0.. => c"it worked",
        _ => c"not a status of this library",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(error: &ErrorValue) -> String {
        let bytes = error.text.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut error = ErrorValue { status: 0, os_error: 0, text: [1; 1016] };
        error.set_text(&"ä".repeat(600));
        assert_eq!(read(&error), "ä".repeat(507));
        error.set_text("short");
        assert_eq!(read(&error), "short");
    }

    #[test]
    fn an_error_of_the_library_has_its_kind_errno_and_text() {
        let mut error = ErrorValue { status: 0, os_error: 0, text: [0; 1016] };
        let cause = wirelane::Error::io("out", "open", std::io::Error::from_raw_os_error(13));
        // SAFETY: it is there.
        unsafe { report(&mut error, "f", &CallResult::Failed(cause.into())) };
        assert_eq!((error.status, error.os_error), (WIRELANE_ERROR_FAILED, 13));
        assert!(read(&error).contains("EACCES"), "{}", read(&error));
        // SAFETY: it is there.
        unsafe { report(&mut error, "f", &CallResult::Done(3)) };
        assert_eq!((error.status, error.os_error, read(&error).as_str()), (0, 0, ""));
    }
}
