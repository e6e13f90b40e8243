//! Converts panics of readers, which damaged files cause, to errors.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::thread;

use futures::FutureExt as _;
use wirelane::Error;

/// The message and place of the last panic.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Stores the messages of panics on the threads of the runtime, instead of printing them. Nothing
/// catches panics of the main thread, so their messages are still printed.
pub(crate) fn keep() {
    let main = thread::current().id();
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() == main {
            return print(panic);
        }
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(|it| format!(" ({it})")).unwrap_or_default();
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{message}{place}"));
    }));
}

/// Awaits the work, and catches its panic.
///
/// # Errors
/// It panicked.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| inside())
}

/// The error for a panic of unknown cause.
pub(crate) fn inside() -> Error {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    let cause = format!("it failed inside: {}", last.unwrap_or_default());
    Error::failed("the query", cause)
}
