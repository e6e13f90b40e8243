//! `--netns`: ports of another network namespace, such as that of a container.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use wirelane::{Error, Result};
use wirelane_os::{mounts, netns};

/// Runs `open` in the namespace that the user named, if there is one, as [`inside`] does.
///
/// # Errors
/// As there.
pub(crate) fn maybe_inside<T: Send>(
    namespace: Option<&OsStr>,
    open: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    match namespace {
        Some(namespace) => inside(namespace, open),
        None => open(),
    }
}

/// Runs `open` in the namespace that the user named, on a thread of its own. Everything else stays
/// outside: output files, and this thread. What is opened inside can be used from anywhere.
///
/// # Errors
/// There is no such namespace, the process may not enter it, or `open` fails.
fn inside<T: Send>(namespace: &OsStr, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = find(namespace)?;
    let run = move || {
        netns::set(&file).map_err(|error| {
            let denied = error.errno() == Some(1);
            let error = Error::os(object(namespace), error);
            if !denied {
                return error;
            }
            error.help("to enter a network namespace takes CAP_SYS_ADMIN: run it with sudo")
        })?;
        // The system's view of queues is by files, which show those of another namespace otherwise.
        // Where it cannot be had, the rest still answers.
        let _ = mounts::show_own_interfaces_in_sys();
        open()
    };
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
    Err(Error::usage(object(text), "it is no network namespace"))
}

fn named(text: &OsStr) -> Result<OwnedFd> {
    let name = text.to_str().unwrap_or_default();
    let error = match netns::named(name) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    // ENOENT (2), or EINVAL (22) for what can be no name.
    if !matches!(error.errno(), Some(2 | 22)) {
        return Err(Error::os(object(text), error));
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_digit()) {
        let error = Error::usage(object(text), "there is none of this name");
        return Err(error.help(
            "`ip netns` lists names; of a container give the process ID, as in `docker inspect -f \
             '{{.State.Pid}}' NAME`",
        ));
    }
    let path = PathBuf::from(format!("/proc/{name}/ns/net"));
    if !Path::new("/proc").join(name).exists() {
        return Err(Error::usage(object(text), "there is no process with this number"));
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
