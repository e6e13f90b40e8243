//! Converts the library's errors to exceptions with the same text.

use pyo3::prelude::*;
use wirelane::{Error, ErrorKind};

/// The exception of an error: a class of `wirelane.errors`, chosen by kind and errno.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| {
        let class = match (error.kind(), error.errno()) {
            (ErrorKind::Usage, _) => "UsageError",
            (_, Some(EPERM | EACCES)) => "NotPermittedError",
            (_, Some(ENOENT | ENODEV | ENXIO)) => "NotFoundError",
            _ => "Error",
        };
        let errno = error.errno();
        match classes(py)
            .and_then(|module| module.getattr(class)?.call1((errno, error.to_string())))
        {
            Ok(value) => PyErr::from_value(value),
            // The package is damaged.
            Err(failure) => failure,
        }
    })
}

pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for wirelane::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;

fn classes(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    PyModule::import(py, "wirelane.errors")
}
