//! Panics of readers: damaged files make some. Each becomes an error, and none prints by itself.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::thread;

use futures::FutureExt as _;
use wirelane::Error;

/// Where the last one was, and what it said.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps panics of the runtime's threads, rather than print them. Those of the main thread, which
/// nothing catches, are printed as ever.
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

/// What the work comes to.
///
/// # Errors
/// It panicked.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| inside())
}

/// A panic whose cause is not known, as an error.
pub(crate) fn inside() -> Error {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    let cause = format!("it failed inside: {}", last.unwrap_or_default());
    Error::failed("the query", cause)
}
