//! Properties of this process.

use std::os::fd::AsFd;

use wirelane_os::signal;

/// Whether this process was started with SIGHUP ignored, as `nohup` does.
#[must_use]
pub fn is_hangup_ignored() -> bool {
    signal::is_ignored(signal::SIGHUP)
}

/// Whether this process is in the foreground of the terminal `to`; true if it is not a terminal.
pub fn is_in_foreground(to: impl AsFd) -> bool {
    signal::is_in_foreground(to.as_fd())
}

/// From now on, exceeding the file size limit (`ulimit -f`) is a write error, EFBIG, and does not
/// end the process (SIGXFSZ).
pub fn survive_file_limits() {
    // The signal number is valid; a failure has no remedy.
    let _ = signal::survive(signal::SIGXFSZ);
}
