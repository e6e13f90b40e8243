//! Processes in a lab, and their end.

use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::process::{self, ProcessHandle};
use super::site::refused;
use wirelane::error::Result;

/// A process that runs in a namespace of a lab, or has threads there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its effective user id, and its name in /etc/passwd.
    pub uid: Option<u32>,
    /// See `uid`.
    pub user: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether only threads of it are inside.
    pub threads_only: bool,
}

/// The processes in a namespace, ordered by id.
pub(super) fn inside(object: &str, namespace: impl AsFd) -> Result<Vec<Process>> {
    let found = process::inside(namespace).map_err(|error| refused(object, error))?;
    let users = if found.is_empty() { String::new() } else { passwd() };
    let known = |process: process::NamespaceProcess| Process {
        pid: process.pid,
        uid: process.user,
        user: process.user.and_then(|uid| user_name(&users, uid)),
        command: process.command,
        threads_only: !process.whole,
    };
    Ok(found.into_iter().map(known).collect())
}

/// Ends the processes in a namespace: sends SIGTERM, and waits `grace` before it kills them.
/// Processes with only threads inside are not ended. Returns the processes found.
pub(super) fn end(object: &str, namespace: impl AsFd, grace: Duration) -> Result<Vec<Process>> {
    let namespace = namespace.as_fd();
    let mut ended: Vec<Process> = Vec::new();
    // A process may have started others before it ended.
    for round in 0..ROUNDS {
        let found = inside(object, namespace)?;
        let found: Vec<_> = found.into_iter().filter(|process| !process.threads_only).collect();
        if found.is_empty() {
            break;
        }
        let os = |error| refused(object, error);
        let mut handles = Vec::new();
        for process in &found {
            handles.extend(ProcessHandle::open(process.pid, namespace).map_err(os)?);
        }
        let mut deadline = Instant::now();
        if round == 0 {
            handles.iter().try_for_each(|handle| handle.end(false)).map_err(os)?;
            deadline += grace;
        }
        for handle in &handles {
            if !wait(handle, deadline).map_err(os)? {
                handle.end(true).map_err(os)?;
            }
        }
        let deadline = Instant::now() + KILLED;
        for handle in &handles {
            wait(handle, deadline).map_err(os)?;
        }
        let new =
            found.into_iter().filter(|process| !ended.iter().any(|old| old.pid == process.pid));
        ended.extend(new.collect::<Vec<_>>());
    }
    Ok(ended)
}

/// The most rounds, in case programs start others faster than they are ended.
const ROUNDS: usize = 16;
/// How long the kernel may take to end a killed process, for example in the middle of a disk write.
const KILLED: Duration = Duration::from_secs(5);

/// Waits until the process has ended. False at the deadline.
fn wait(handle: &ProcessHandle, deadline: Instant) -> wirelane_os::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if handle.wait(left)? {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

fn passwd() -> String {
    fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn users_have_names() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nodd\nme:x:1000:1000::/home/me:/bin/sh\n";
        let name = |uid| super::user_name(passwd, uid);
        assert_eq!((name(0), name(1000), name(7)), (Some("root".into()), Some("me".into()), None));
    }
}
