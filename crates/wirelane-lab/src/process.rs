//! Processes: lists and ends the processes in a network namespace.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use wirelane_os::{OsError, Result};

/// A process with threads in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceProcess {
    /// Its id.
    pub(crate) pid: u32,
    /// Its effective user ID; `None` if the kernel does not report it.
    pub(crate) user: Option<u32>,
    /// The program and its arguments; empty for a kernel thread.
    pub(crate) command: Vec<String>,
    /// Whether its main thread is in the namespace; otherwise only other threads are.
    pub(crate) whole: bool,
}

/// The processes in a network namespace, ordered by ID. Processes of other users are visible only
/// with CAP_SYS_PTRACE.
///
/// # Errors
/// The errors of reading /proc.
pub(crate) fn inside(namespace: impl AsFd) -> Result<Vec<NamespaceProcess>> {
    let identity = identity_of(namespace)?;
    let failed = |error| OsError::new("readdir", "/proc", error);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let directory = Path::new("/proc").join(&name);
        let whole = is_in(&directory, identity);
        if whole || has_thread_in(&directory, identity) {
            found.push(describe(pid, &directory, whole));
        }
    }
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

/// A process that cannot be confused with a later one of the same ID.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pid: u32,
    process: OwnedFd,
}

impl ProcessHandle {
    /// The process `pid`, if its main thread is in this network namespace; otherwise, and if it has
    /// ended, `None`.
    ///
    /// # Errors
    /// `ENOSYS` before Linux 5.3.
    pub(crate) fn open(pid: u32, namespace: impl AsFd) -> Result<Option<ProcessHandle>> {
        let identity = identity_of(namespace)?;
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Ok(None) };
        let process = match pidfd_open(number, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            opened => opened.map_err(|errno| failed("pidfd_open", pid, errno))?,
        };
        let handle = ProcessHandle { pid, process };
        // Checked after the descriptor was opened, so that the answer is about its process, unless
        // that process has ended.
        let here = is_in(&Path::new("/proc").join(pid.to_string()), identity);
        Ok((here && !handle.wait(Duration::ZERO)?).then_some(handle))
    }

    /// Sends SIGTERM, or with `at_once` SIGKILL. Does nothing if the process has ended.
    ///
    /// # Errors
    /// `EPERM` for a process of another user without CAP_KILL.
    pub(crate) fn end(&self, at_once: bool) -> Result<()> {
        let signal = if at_once { Signal::KILL } else { Signal::TERM };
        match pidfd_send_signal(&self.process, signal) {
            Err(Errno::SRCH) => Ok(()),
            outcome => outcome.map_err(|errno| failed("pidfd_send_signal", self.pid, errno)),
        }
    }

    /// Waits until the process has ended, at most `timeout`. Returns whether it has ended.
    ///
    /// # Errors
    /// The errors of poll(2).
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool> {
        let timeout =
            Timespec::try_from(timeout).map_err(|_| failed("poll", self.pid, Errno::INVAL))?;
        let mut descriptors = [PollFd::new(&self.process, PollFlags::IN)];
        match poll(&mut descriptors, Some(&timeout)) {
            // A signal arrived; a caller with a longer timeout calls again.
            Err(Errno::INTR) => Ok(false),
            ready => ready.map(|ready| ready > 0).map_err(|errno| failed("poll", self.pid, errno)),
        }
    }
}

/// Device and inode, which identify a namespace while it exists.
type Identity = (u64, u64);

fn identity_of(namespace: impl AsFd) -> Result<Identity> {
    rustix::fs::fstat(namespace)
        .map(|status| (status.st_dev, status.st_ino))
        .map_err(|errno| OsError::new("fstat", "network namespace", errno))
}

/// Whether a process or thread, given as its directory in /proc, is in the namespace. False if it
/// has ended, or if this user may not inspect it.
fn is_in(directory: &Path, identity: Identity) -> bool {
    let namespace = fs::metadata(directory.join("ns/net"));
    namespace.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == identity)
}

fn has_thread_in(directory: &Path, identity: Identity) -> bool {
    let threads: io::Result<fs::ReadDir> = fs::read_dir(directory.join("task"));
    threads.is_ok_and(|threads| threads.flatten().any(|thread| is_in(&thread.path(), identity)))
}

fn describe(pid: u32, directory: &Path, whole: bool) -> NamespaceProcess {
    let read = |file| fs::read(directory.join(file)).unwrap_or_default();
    let arguments = read("cmdline");
    let command = arguments
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned());
    let mut command: Vec<_> = command.collect();
    // The list ends with a zero.
    command.pop_if(|last| last.is_empty());
    let status = String::from_utf8_lossy(&read("status")).into_owned();
    // proc_pid_status(5): real, effective, saved, of the file system.
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    NamespaceProcess { pid, user, command, whole }
}

fn failed(call: &'static str, pid: u32, errno: Errno) -> OsError {
    OsError::new(call, format!("process {pid}"), errno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use wirelane_os::netns;
    use wirelane_testkit::netns::in_new_namespace;
    use wirelane_testkit::wait::eventually;

    #[test]
    fn this_process_is_in_its_namespace() {
        let found = inside(netns::current().unwrap()).unwrap();
        let own = found.iter().find(|process| process.pid == std::process::id()).unwrap();
        assert!(own.whole && !own.command.is_empty(), "{own:?}");
        assert_eq!(own.user, Some(rustix::process::geteuid().as_raw()));
        let not_a_namespace = fs::File::open("/proc/self/status").unwrap();
        assert_eq!(inside(not_a_namespace).unwrap(), []);
        assert!(ProcessHandle::open(0, netns::current().unwrap()).unwrap().is_none());
    }

    #[test]
    fn privileged_exactly_what_runs_inside_is_ended() {
        let outside = netns::current().unwrap();
        in_new_namespace(|| {
            let here = netns::current().unwrap();
            let mut child = Command::new("sleep").arg("600").spawn().unwrap();
            let pid = child.id();
            // Before it executes its program, the child is a copy of this process.
            assert!(eventually(|| {
                let found = inside(&here).unwrap();
                found
                    .iter()
                    .any(|process| process.pid == pid && process.command == ["sleep", "600"])
            }));
            let found = inside(&here).unwrap();
            let own = found.iter().find(|process| process.pid == std::process::id()).unwrap();
            assert!(!own.whole, "only this thread is inside");
            assert!(ProcessHandle::open(own.pid, &here).unwrap().is_none());
            assert!(ProcessHandle::open(pid, &outside).unwrap().is_none());
            let handle = ProcessHandle::open(pid, &here).unwrap().unwrap();
            assert!(!handle.wait(Duration::from_millis(1)).unwrap());
            handle.end(false).unwrap();
            assert!(eventually(|| handle.wait(Duration::from_millis(10)).unwrap()));
            child.wait().unwrap();
            handle.end(true).unwrap();
            assert!(ProcessHandle::open(pid, &here).unwrap().is_none());
        });
    }
}
