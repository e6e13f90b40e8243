//! Work on a separate thread, while this thread answers SIGUSR1.

use std::thread;
use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::{Error, Result};

/// Interval of the checks for the end and for SIGUSR1.
const LOOK: Duration = Duration::from_millis(5);

/// Whether a signal has arrived since the last call with this `seen`. `count` is the number of
/// signals so far.
pub(crate) fn has_come(seen: &mut u32, count: u32) -> bool {
    std::mem::replace(seen, count) != count
}

/// Does `work` on a thread of this name. Calls `report` whenever SIGUSR1 asks.
///
/// # Errors
/// There is no thread, or what `work` returns.
pub(crate) fn run<T: Send>(
    name: &'static str,
    work: impl FnOnce() -> Result<T> + Send,
    report: impl Fn(),
) -> Result<T> {
    thread::scope(|scope| {
        let started = thread::Builder::new().name(name.into()).spawn_scoped(scope, work);
        let failed = |error| Error::io(format!("thread {name}"), "clone", error);
        let working = started.map_err(failed)?;
        let mut reports = 0;
        while !working.is_finished() {
            if has_come(&mut reports, Halt::reports()) {
                report();
            }
            thread::sleep(LOOK);
        }
        working.join().map_err(|_| Error::failed(name, "panicked: a defect"))?
    })
}
