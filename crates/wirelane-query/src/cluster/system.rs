//! What scheduler and executor need of the system: threads, and to be told when to end.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal as listen};
use wirelane::{Error, Result};

/// A thread per CPU.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(crate::query::STACK)
        .build()
        .map_err(|error| Error::io("network", "epoll_create", error))
}

/// Returns on ^C or SIGTERM.
pub(crate) async fn signal() -> Result<()> {
    let failed = |error| Error::io("signals", "sigaction", error);
    let mut interrupt = listen(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = listen(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
