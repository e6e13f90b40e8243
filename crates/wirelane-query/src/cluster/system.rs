//! Threads, signals and warnings of scheduler and executor.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal as listen};
use wirelane::{Error, Result};

/// A runtime with one thread per CPU.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(crate::query::depth::STACK)
        .build()
        .map_err(|error| Error::io("network", "epoll_create", error))
}

/// Warns that Ballista has no authentication.
pub(super) fn warn(act: &str, address: SocketAddr) {
    let clients = match address.ip().is_loopback() {
        true => "every user of this host",
        false => "any client that reaches this port",
    };
    // Standard error may be closed.
    let _ =
        writeln!(io::stderr(), "warning: no authentication: {clients} {act}; see docs/scale.md");
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
