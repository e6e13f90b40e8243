//! Talking to a running command over a local socket.
//!
//! ```text
//!   wirelane mask | stats ─▶ client ─ one line: a request ─▶ server ─▶ subject: ports, counters
//!                                   ◀─ one line: a reply ──
//! ```
//!
//! Every `wirelane capture` and `wirelane forward` listens on a socket that is named after its process id, in
//! a directory that only its user, and root, can enter. A conversation is one line of JSON each way
//! ([`request`]), of bounded length and time ([`line`]); each has a thread of its own, so that nobody waits for
//! somebody who dawdles, and the threads of the queues notice none of it.

mod client;
mod line;
pub(crate) mod request;
mod server;
mod statistics;
mod subject;

use std::fs;
use std::path::PathBuf;

pub(crate) use self::client::{Session, ask, listens, sessions};
pub(crate) use self::server::ControlServer;
pub(crate) use self::subject::{Served, Subject};

/// Where the sockets of a user's commands are. Does not depend on the environment, which is not
/// the same under sudo.
fn directory(uid: u32) -> PathBuf {
    if uid == 0 {
        return "/run/wirelane".into();
    }
    let runtime = PathBuf::from(format!("/run/user/{uid}"));
    if runtime.is_dir() {
        return runtime.join("wirelane");
    }
    format!("/tmp/wirelane-{uid}").into()
}

/// The user that a process runs as, which it may have become since it was started; `None` if there is no
/// such process.
fn user_of(pid: u32) -> Option<u32> {
    // Not the owner of /proc/PID, which is root for a process that has changed its user.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // Real, effective, saved, file system.
    ids.split_whitespace().nth(1)?.parse().ok()
}
