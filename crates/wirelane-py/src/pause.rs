//! Waits without the GIL, and handles ^C.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The longest delay of Python's signal handlers.
const SLICE: Duration = Duration::from_millis(100);

/// Runs `step` without the GIL until it has an answer; `None` if `deadline` passes first. `step`
/// gets the latest time to return, and returns `None` if it has no answer.
///
/// # Errors
/// Whatever the handler of a signal raises, such as `KeyboardInterrupt`.
pub(crate) fn until<T: Send>(
    py: Python<'_>,
    deadline: Option<Instant>,
    mut step: impl FnMut(Instant) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    loop {
        let slice = Instant::now() + SLICE;
        let end = deadline.map_or(slice, |deadline| deadline.min(slice));
        let answer = py.detach(|| step(end));
        if answer.is_some() {
            return Ok(answer);
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// The time after `seconds`; `None` without a limit, or if the clock cannot represent it.
///
/// # Errors
/// `seconds` is negative or not a number.
pub(crate) fn deadline(seconds: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = seconds else { return Ok(None) };
    Ok(Instant::now().checked_add(duration("timeout", seconds)?))
}

/// A time in seconds, as a Python float.
///
/// # Errors
/// `seconds` is negative or not a number.
pub(crate) fn duration(name: &str, seconds: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) => Ok(duration),
        // Infinity, or longer than the type can represent.
        Err(_) if seconds > 0.0 => Ok(Duration::MAX),
        Err(_) => {
            let text = format!("{name}: {seconds} is not a valid time; write seconds from 0 on");
            Err(pyo3::exceptions::PyValueError::new_err(text))
        }
    }
}
