//! The directories and names of the sockets of running commands, and their owners.
//!
//! The sockets are in a directory that exists as long as the system runs: `/run`, where only root
//! may write, `/run/wirelane`, where the services of the packages may, or `/tmp`, where the sticky
//! bit protects each user's files. `/run/user/UID` would disappear when the user logs out, and a
//! directory named by the environment would differ under sudo. A service has a private `/tmp`.
//!
//! A name is `wirelane-PID-RANDOM.sock`. PID is the process number in the PID namespace of the
//! process. Processes in other namespaces may have the same number, and any user can create names
//! in `/tmp`. So the rest of the name is random, [`connect`] returns the peer's credentials for
//! checking, and only a socket without a listener counts as a leftover.
//!
//! An abstract socket would be invisible from another network namespace, such as a lab's. The PID
//! is read from `NSpid`. The owner of the file, the user of the process and `SO_PEERCRED` must
//! agree. A socket gets its name only after its process listens. After a kill, the next command of
//! the same user removes the socket if no process listens: a PID that is missing here may exist in
//! another PID namespace.

use std::collections::hash_map::RandomState;
use std::fs::{self, Permissions};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use wirelane::{Error, Result};

use crate::privilege;

/// In the order in which a process tries to create its socket.
const PLACES: [&str; 3] = ["/run", "/run/wirelane", "/tmp"];

/// A socket with the name of a control socket.
#[derive(Clone, Debug)]
pub(super) struct NamedSocket {
    pub(super) path: PathBuf,
    /// The user that it belongs to.
    pub(super) user: u32,
    /// The process that it was named after, by its number in its own PID namespace.
    pub(super) pid: u32,
}

/// The sockets of the processes whose number is `wanted`, in no particular order. Users can create
/// any number of them.
pub(super) fn sockets(wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = NamedSocket> {
    PLACES.iter().flat_map(|place| sockets_in(Path::new(place))).filter_map(move |(path, pid)| {
        // Check the name first: it costs nothing.
        let metadata = wanted(pid).then(|| fs::symlink_metadata(&path).ok())??;
        metadata.file_type().is_socket().then_some(NamedSocket { path, user: metadata.uid(), pid })
    })
}

/// Paths with the name of a control socket, and their process numbers.
fn sockets_in(place: &Path) -> impl Iterator<Item = (PathBuf, u32)> {
    fs::read_dir(place).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?.strip_prefix(PREFIX)?;
        let (pid, _) = name.strip_suffix(READY).or(name.strip_suffix(NEW))?.split_once('-')?;
        Some((entry.path(), pid.parse().ok()?))
    })
}

const PREFIX: &str = "wirelane-";
const READY: &str = ".sock";
/// A socket without a listener yet.
const NEW: &str = ".new";

/// A process as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pub(super) pid: u32,
    /// The user that it runs as, which it may have become since it was started.
    pub(super) user: u32,
    /// Its number in its own PID namespace.
    pub(super) inner: u32,
}

impl ProcessIdentity {
    /// `None` if there is no such process.
    pub(super) fn of(pid: u32) -> Option<Self> {
        // The owner of /proc/PID would be root for a process that has changed its user.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved and file system IDs.
        let user = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
        // From this namespace to the innermost one; kernels without PID namespaces have no such
        // line.
        let inner = field("NSpid:").and_then(|pids| pids.split_whitespace().last()?.parse().ok());
        Some(Self { pid, user, inner: inner.unwrap_or(pid) })
    }

    /// Whether this process may be the owner of `socket`.
    pub(super) fn owns(&self, socket: &NamedSocket) -> bool {
        (socket.user, socket.pid) == (self.user, self.inner)
    }
}

/// Connects to the listener and returns its credentials from the kernel, before any data is
/// exchanged. With `patience`, waits at most that long for room in the listener's queue. Without
/// it, the call and the stream never block.
///
/// # Errors
/// `ConnectionRefused` without a listener, `WouldBlock` if there is no room, `PermissionDenied`.
pub(super) fn connect(
    path: &Path,
    patience: Option<Duration>,
) -> io::Result<(UnixStream, privilege::SocketPeer)> {
    let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
    let flags = if patience.is_some() { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
    let socket = rustix::net::socket_with(unix, stream, flags | SocketFlags::CLOEXEC, None)?;
    // unix_stream_connect() waits for room as sending does.
    sockopt::set_socket_timeout(&socket, Timeout::Send, patience)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let peer = privilege::peer(socket.as_fd()).map_err(io::Error::other)?;
    Ok((UnixStream::from(socket), peer))
}

/// Starts to listen for this process. First removes sockets that killed processes of this user
/// left.
///
/// # Errors
/// No directory accepts a socket.
pub(super) fn listen() -> Result<(UnixListener, PathBuf)> {
    let mut cause = None;
    for place in PLACES {
        match listen_in(Path::new(place)) {
            Ok(listening) => return Ok(listening),
            // Only root may use the first directory: report the last error.
            Err(error) => cause = Some(Error::io(place, "bind", error)),
        }
    }
    Err(cause.unwrap_or_else(|| Error::failed("control", "no directory for its socket")))
}

fn listen_in(place: &Path) -> io::Result<(UnixListener, PathBuf)> {
    remove_leftovers(place);
    for _ in 0..ATTEMPTS {
        let name = place.join(format!("{PREFIX}{}-{:016x}", std::process::id(), random()));
        let [new, ready] =
            [NEW, READY].map(|suffix| PathBuf::from(format!("{}{suffix}", name.display())));
        let listener = UnixListener::bind(&new)?;
        // The socket gets its final name once only its user and root can connect, and it listens.
        let named = fs::set_permissions(&new, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&new, &ready));
        match named {
            Ok(()) => return Ok((listener, ready)),
            // Before it listened, another process removed it as a leftover.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let _ = fs::remove_file(&new);
                return Err(error);
            }
        }
    }
    Err(ErrorKind::NotFound.into())
}

const ATTEMPTS: u32 = 8;

/// A number that others cannot predict.
fn random() -> u64 {
    // Seeded by the kernel; a file name needs no more.
    RandomState::new().hash_one(0)
}

/// Removes sockets of this user without a listener. A missing process of that number proves
/// nothing: it may run in another PID namespace.
fn remove_leftovers(place: &Path) {
    let user = privilege::uid();
    for (path, _) in sockets_in(place) {
        let is_ours = fs::symlink_metadata(&path)
            .is_ok_and(|file| file.uid() == user && file.file_type().is_socket());
        if is_ours && connect(&path, None).is_err_and(is_refused) {
            // Another process may remove it at the same time.
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_refused(error: io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The control sockets in `place`, by name.
    fn names(place: &Path) -> Vec<PathBuf> {
        let mut names: Vec<_> = sockets_in(place).map(|(path, _)| path).collect();
        names.sort();
        names
    }

    #[test]
    fn only_its_user_can_connect_and_its_name_says_whose_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (_listener, path) = listen_in(place.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let found: Vec<_> = sockets_in(place.path()).collect();
        assert_eq!(found, [(path.clone(), std::process::id())]);
        let own = ProcessIdentity::of(std::process::id()).unwrap();
        assert_eq!((own.pid, own.user, own.inner), (own.pid, privilege::uid(), std::process::id()));
        let (_stream, peer) = connect(&path, Some(Duration::from_secs(10))).unwrap();
        assert_eq!((peer.pid, peer.uid), (own.pid, own.user));
        assert!(ProcessIdentity::of(u32::MAX).is_none());
    }

    #[test]
    fn leftovers_are_what_nobody_listens_on_whoever_runs() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        // Sockets of a running process, of a process that has ended, and of one that was killed
        // before it listened.
        for name in ["wirelane-1-x.sock", "wirelane-4194305-x.sock", "wirelane-7-x.new"] {
            drop(UnixListener::bind(at(name)).unwrap());
        }
        // A socket with a listener that does not run here, and files that are no control sockets.
        let living = UnixListener::bind(at("wirelane-4194306-x.sock")).unwrap();
        fs::write(at("wirelane-1-file.sock"), "").unwrap();
        drop(UnixListener::bind(at("wirelane-x.sock")).unwrap());
        let (_listener, own) = listen_in(place.path()).unwrap();
        let mut left = vec![at("wirelane-4194306-x.sock"), at("wirelane-1-file.sock"), own];
        left.sort();
        assert_eq!(names(place.path()), left);
        assert!(at("wirelane-x.sock").exists());
        drop(living);
    }

    /// A client waits as long as `patience` for a listener that accepts no connection.
    #[test]
    fn a_queue_that_is_full_is_no_leftover_and_waited_for_in_vain() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("wirelane-1-x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = connect(&path, None).unwrap();
        for patience in [None, Some(Duration::from_millis(20))] {
            assert_eq!(connect(&path, patience).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        remove_leftovers(place.path());
        assert!(path.exists());
    }
}
