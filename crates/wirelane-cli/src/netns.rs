//! `--netns`: ports of another network namespace, such as a container's.
//!
//! A command that looks at packets opens its ports [`inside`](NetnsArgs::inside); everything else
//! that it opens, such as the connection of an exporter, stays outside. A command that sends or
//! becomes a program [`enters`](NetnsArgs::enter): it also asks about interfaces later.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;
use wirelane::{Error, Result};
use wirelane_lab::mounts;
use wirelane_os::netns;

/// The network namespace of the ports. Part of `SessionArgs`, so that every
/// command with ports has it.
#[derive(Args, Clone, Debug)]
pub(crate) struct NetnsArgs {
    /// Open the ports in this network namespace: a name of `ip netns`, a process ID, or the path of
    /// a namespace
    #[arg(long, value_name = "NAME|PID", help_heading = "Machine")]
    netns: Option<OsString>,
}

impl NetnsArgs {
    /// Whether the user named one.
    pub(crate) fn is_given(&self) -> bool {
        self.netns.is_some()
    }

    /// Runs `open` on a separate thread in the namespace that the user named, if any. Everything
    /// else, such as output files, stays outside. The objects that `open` returns can be used from
    /// any thread.
    ///
    /// # Errors
    /// There is no such namespace, the process may not enter it, or `open` fails.
    pub(crate) fn inside<T: Send>(&self, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        match self.netns.as_deref() {
            Some(namespace) => inside(namespace, open),
            None => open(),
        }
    }

    /// Moves the process into the namespace that the user named, if there is one. Only while there
    /// is no other thread.
    ///
    /// # Errors
    /// There is no such namespace, or the process may not enter it.
    pub(crate) fn enter(&self) -> Result<()> {
        self.netns.as_deref().map_or(Ok(()), |namespace| enter(namespace, &find(namespace)?))
    }
}

/// Moves the calling thread into the namespace.
fn enter(namespace: &OsStr, file: &OwnedFd) -> Result<()> {
    netns::set(file).map_err(|error| {
        let denied = error.errno() == Some(1);
        let error = Error::os(object(namespace), error);
        if !denied {
            return error;
        }
        error.help("to enter a network namespace takes CAP_SYS_ADMIN: run it with sudo")
    })?;
    // The files of /sys would show the queues of another namespace.
    // Without it, the other answers are still right.
    let _ = mounts::show_own_interfaces_in_sys();
    Ok(())
}

fn inside<T: Send>(namespace: &OsStr, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = find(namespace)?;
    let run = move || enter(namespace, &file).and_then(|()| open());
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, run);
        let thread = spawned.map_err(|error| Error::io("a thread", "clone", error))?;
        thread.join().unwrap_or_else(|_| Err(Error::failed("a thread", "panicked: a defect")))
    })
}

/// The namespace of this name, of the process with this number, or at this path.
fn find(text: &OsStr) -> Result<OwnedFd> {
    let path =
        if text.as_encoded_bytes().contains(&b'/') { Some(PathBuf::from(text)) } else { None };
    let opened = match path {
        Some(path) => open(&path),
        None => named(text),
    };
    let file = opened?;
    if netns::is_network_namespace(&file) {
        return Ok(file);
    }
    Err(Error::usage(object(text), "it is no network namespace").help("`ip netns` lists them"))
}

fn named(text: &OsStr) -> Result<OwnedFd> {
    let name = text.to_str().unwrap_or_default();
    let error = match netns::named(name) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    // ENOENT (2), or EINVAL (22) for an impossible name.
    if !matches!(error.errno(), Some(2 | 22)) {
        return Err(Error::os(object(text), error));
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        let error = Error::usage(object(text), "there is none of this name");
        return Err(error.help(
            "`ip netns` lists names; a container has `docker inspect -f {{.State.Pid}} NAME`",
        ));
    }
    let path = PathBuf::from(format!("/proc/{name}/ns/net"));
    if !Path::new("/proc").join(name).exists() {
        return Err(Error::usage(object(text), "there is no process with this number")
            .help("`ps` lists processes"));
    }
    open(&path)
}

fn open(path: &Path) -> Result<OwnedFd> {
    let failed = |error| Error::io(object(path.as_os_str()), "open", error);
    File::open(path).map(OwnedFd::from).map_err(failed)
}

fn object(text: &OsStr) -> String {
    format!("network namespace '{}'", text.display())
}
