//! The side that asks.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use serde::de::DeserializeOwned;
use wirelane::{Error, Result, privilege};

use super::line::{Lines, REPLY, REQUEST};
use super::request::{Identity, Reply, Request};
use super::{directory, user_of};

const WHICH: &str = "give the process id of a running `wirelane capture` or `wirelane forward`; \
                     `wirelane stats` lists them";

/// Asks the command with this process id.
///
/// # Errors
/// There is none, it belongs to somebody else, or it refuses.
pub(crate) fn ask<T: DeserializeOwned>(pid: u32, request: &Request) -> Result<T> {
    let object = format!("process {pid}");
    let user = user_of(pid)
        .ok_or_else(|| Error::failed(&object, "there is no such process").help(WHICH))?;
    let directory = directory(user);
    let path = directory.join(format!("{pid}.sock"));
    let stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::failed(&object, "it listens to no requests").help(WHICH),
        ErrorKind::ConnectionRefused => {
            let cause = format!("nobody listens any more on {}", path.display());
            Error::failed(&object, cause).help(WHICH)
        }
        ErrorKind::PermissionDenied => Error::io(&object, "connect", error)
            .help(format!("it belongs to user {user}: ask as that user, or as root")),
        _ => Error::io(&object, "connect", error).help(WHICH),
    })?;
    check(&stream, &directory, pid, user).map_err(|cause| Error::failed(&object, cause))?;
    let reply = exchange(&stream, request).map_err(|error| match error.kind() {
        // It has not finished its answer.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            Error::failed(&object, "it ended before it had answered")
        }
        ErrorKind::TimedOut => Error::failed(&object, "it does not answer").help("ask again"),
        _ => Error::io(&object, "ask", error),
    })?;
    let not_understood = |error: serde_json::Error| {
        Error::failed(&object, format!("its answer is not understood: {error}"))
            .help("ask with the version of wirelane that runs there")
    };
    match serde_json::from_slice(&reply).map_err(not_understood)? {
        Reply::Done(value) => serde_json::from_value(value).map_err(not_understood),
        Reply::Refused(refusal) => Err(refusal.into_error(object)),
    }
}

/// Whether there is such a command, and it is not at its end.
pub(crate) fn listens(pid: u32) -> bool {
    user_of(pid).is_some_and(|user| {
        UnixStream::connect(directory(user).join(format!("{pid}.sock"))).is_ok()
    })
}

fn exchange(stream: &UnixStream, request: &Request) -> io::Result<Vec<u8>> {
    let mut lines = Lines::new(stream);
    let asked = lines.write(serde_json::to_vec(request)?);
    // Only counters are many: root may be asking a process of somebody who means no good.
    let longest = if *request == Request::Statistics { REPLY } else { REQUEST };
    // Who turns somebody away does not listen before.
    lines.read(longest).map_err(|error| asked.err().unwrap_or(error))
}

/// Whether it is that process that listens, and not somebody who put a socket where it would have put its own.
fn check(stream: &UnixStream, directory: &Path, pid: u32, user: u32) -> Result<(), String> {
    let owner = fs::symlink_metadata(directory).map(|metadata| metadata.uid());
    if !owner.is_ok_and(|owner| owner == user) {
        return Err(format!("{} does not belong to its user", directory.display()));
    }
    match privilege::peer(stream) {
        Ok(peer) if (peer.pid, peer.uid) == (pid, user) => Ok(()),
        Ok(peer) => Err(format!(
            "process {} of user {} listens in its place, and was not asked",
            peer.pid, peer.uid
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// A running command.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) pid: u32,
    pub(crate) identity: Identity,
}

/// The running commands that this user may ask, by process id. Root may ask all.
pub(crate) fn sessions() -> Vec<Session> {
    let mut directories = vec![directory(privilege::uid())];
    if privilege::uid() == 0 {
        let below = |parent: &str| {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
        };
        directories.extend(below("/run/user").iter().map(|user| user.join("wirelane")));
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("wirelane-"))
        };
        directories.extend(below("/tmp").into_iter().filter(is_ours));
    }
    let sockets = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let pid = |path: PathBuf| path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok();
    let mut pids: Vec<u32> = sockets.filter_map(|entry| pid(entry.path())).collect();
    pids.sort_unstable();
    pids.dedup();
    // One that has ended meanwhile, or was killed and has left its socket, is not there. One that does not answer
    // keeps the others waiting no longer than itself.
    let identify = |pid| Some(Session { pid, identity: ask(pid, &Request::Identity).ok()? });
    thread::scope(|scope| {
        let asked: Vec<_> =
            pids.into_iter().map(|pid| scope.spawn(move || identify(pid))).collect();
        asked.into_iter().filter_map(|answer| answer.join().ok().flatten()).collect()
    })
}
