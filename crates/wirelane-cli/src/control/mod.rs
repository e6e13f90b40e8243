//! Talking to a running capture over a local socket: one JSON line each way.
//!
//! The socket lies in a directory that only the user of the capture, and root, can enter, and is
//! named after the process id.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wirelane::port::Control;
use wirelane::{Error, ErrorKind, QueueMask, QueueSet, Result};

/// Longest request or reply, in bytes.
const LONGEST: u64 = 64 * 1024;
/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// How to change the masks. What is absent stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// A list, `all` or `none`; `+LIST` sets queues, `-LIST` clears them.
    pub(crate) rx: Option<String>,
    pub(crate) tx: Option<String>,
    pub(crate) other: Option<bool>,
    pub(crate) enabled: Option<bool>,
}

/// The masks in force, or why they could not be changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) enabled: bool,
    pub(crate) rx: String,
    pub(crate) tx: String,
    pub(crate) other: bool,
    pub(crate) error: Option<String>,
    /// Whether the request was wrong, and not its execution.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    usage: bool,
}

/// Asks the capture with this process id.
///
/// # Errors
/// There is none, or it refuses.
pub(crate) fn ask(pid: u32, change: &Change) -> Result<Reply> {
    let path = directory(user_of(pid)).join(format!("{pid}.sock"));
    let failed = |error: io::Error| {
        Error::io(format!("process {pid}"), "connect", error)
            .help("give the process id of a running `wirelane capture` of this user")
    };
    let stream = UnixStream::connect(path).map_err(failed)?;
    let text = exchange(stream, change).map_err(failed)?;
    let reply: Reply = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    match reply.error {
        Some(error) if reply.usage => Err(Error::usage(format!("process {pid}"), error)),
        Some(error) => Err(Error::failed(format!("process {pid}"), error)),
        None => Ok(reply),
    }
}

fn exchange(mut stream: UnixStream, change: &Change) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = serde_json::to_string(change)?;
    request.push('\n');
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut reply)?;
    Ok(reply)
}

/// Answers requests while it lives.
pub(crate) struct ControlServer {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens on the socket of this process. `queues` is what `all` stands for when a single
    /// queue is cleared.
    ///
    /// # Errors
    /// The socket cannot be made; the capture does not depend on it.
    pub(crate) fn start(control: Arc<dyn Control>, queues: usize) -> Result<Self> {
        let directory = directory(wirelane::privilege::uid());
        let failed = |error| Error::io(directory.display().to_string(), "bind", error);
        prepare(&directory).map_err(failed)?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        // A process of the same number may have been killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            while let Ok((stream, _)) = listener.accept() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // One bad conversation is no reason to stop listening.
                let _ = answer(stream, control.as_ref(), queues);
            }
        };
        let thread = std::thread::Builder::new().name("wl-control".into()).spawn(serve);
        Ok(Self { path, stop, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread; if that fails it sleeps on, and ends with the process.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, control: &dyn Control, queues: usize) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new((&stream).take(LONGEST)).read_line(&mut request)?;
    let outcome = serde_json::from_str::<Change>(&request)
        .map_err(|error| Error::usage("request", error.to_string()))
        .and_then(|change| change.apply(control.mask(), queues))
        .and_then(|mask| if mask == control.mask() { Ok(()) } else { control.set_mask(mask) });
    let mask = control.mask();
    let error = outcome.err();
    let reply = Reply {
        enabled: mask.enabled,
        rx: mask.rx.to_string(),
        tx: mask.tx.to_string(),
        other: mask.other,
        usage: error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Usage),
        error: error.map(|error| error.to_string()),
    };
    let mut text = serde_json::to_string(&reply)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

impl Change {
    /// The masks after this change of `mask`.
    fn apply(&self, mut mask: QueueMask, queues: usize) -> Result<QueueMask> {
        if let Some(text) = &self.rx {
            change(&mut mask.rx, text, queues)?;
        }
        if let Some(text) = &self.tx {
            change(&mut mask.tx, text, queues)?;
        }
        mask.other = self.other.unwrap_or(mask.other);
        mask.enabled = self.enabled.unwrap_or(mask.enabled);
        Ok(mask)
    }
}

/// Replaces `set`, or sets (`+0,2`) or clears (`-0,2`) queues of it.
fn change(set: &mut QueueSet, text: &str, count: usize) -> Result<()> {
    let (sign, list) = match text.split_at_checked(1) {
        Some((sign @ ("+" | "-"), list)) => (Some(sign), list),
        _ => (None, text),
    };
    let list: QueueSet = list.parse()?;
    match (sign, &list) {
        (None, _) | (Some("+"), QueueSet::All) => *set = list,
        (Some("+"), _) => list.members(wirelane::mask::MAX_QUEUES).for_each(|queue| {
            set.insert(queue);
        }),
        (_, QueueSet::All) => *set = QueueSet::NONE,
        _ => {
            list.members(wirelane::mask::MAX_QUEUES).for_each(|queue| set.remove(queue, count));
        }
    }
    Ok(())
}

/// Where the sockets of a user's captures are. Does not depend on the environment, which is not
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

/// The user that a process runs as: a capture may have become another one since it was started.
fn user_of(pid: u32) -> u32 {
    // Not the owner of /proc/PID, which is root for a process that has changed its user.
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, effective, saved, file system.
    let effective = ids.and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok());
    effective.unwrap_or_else(wirelane::privilege::uid)
}

/// Makes the directory, ours alone, and takes out what killed processes left.
fn prepare(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(directory)?;
    let ours = metadata.uid() == wirelane::privilege::uid();
    if !metadata.is_dir() || !ours || metadata.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the directory is not this user's alone",
        ));
    }
    for entry in fs::read_dir(directory)?.flatten() {
        let path = entry.path();
        let pid = path.file_stem().and_then(|stem| stem.to_str());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_set_cleared_and_replaced() {
        let mut set = QueueSet::All;
        for (text, expected) in
            [("-1", "0,2,3"), ("+1", "0-3"), ("-0-2", "3"), ("none", "none"), ("+2", "2")]
        {
            change(&mut set, text, 4).unwrap();
            assert_eq!(set.to_string(), expected, "{text}");
        }
        change(&mut set, "-all", 4).unwrap();
        assert!(set.is_empty() && change(&mut set, "+x", 4).is_err());
    }
}
