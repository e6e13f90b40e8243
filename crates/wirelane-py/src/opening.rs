//! Opens a port. ^C ends the wait, for example for the writer of a pipe.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use pyo3::prelude::*;
use wirelane::Error;
use wirelane::halt::Halt;
use wirelane::internal::threads;
use wirelane::port::{self, Port, Spec};

use crate::error::{OrRaise as _, exception};
use crate::options::Arguments;
use crate::pause;

/// Opens a port on a separate thread, and checks for signals while it waits.
pub(crate) fn open(py: Python<'_>, spec: Spec, arguments: Arguments) -> PyResult<Port> {
    let halt = Halt::default();
    let options = arguments.options(halt.clone()).or_raise()?;
    let (sender, receiver) = channel();
    let work = move || sender.send(port::open(&spec, &options)).is_ok();
    let thread = threads::spawn("wl-open", work).or_raise()?;
    let receiver = Mutex::new(receiver);
    let opened = pause::until(py, None, |until| {
        let patience = until.saturating_duration_since(Instant::now());
        let receiver = receiver.lock().ok()?;
        match receiver.recv_timeout(patience) {
            Ok(opened) => Some(opened),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Error::failed("the thread that opens a port", "panicked: a defect")))
            }
        }
    });
    if opened.is_err() {
        halt.hurry();
    }
    // The thread has ended, or ends soon because the halt was requested.
    let _ = py.detach(|| thread.join());
    let Some(opened) = opened? else {
        return Err(exception(&Error::failed("port", "it was not opened in time")));
    };
    opened.or_raise()
}
