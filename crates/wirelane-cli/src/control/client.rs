//! The side that sends requests.
//!
//! `wirelane stats` without a number asks all commands of a user on one thread: at most 128, within
//! 3 s together. It lists the commands that did not answer.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use wirelane::{Error, Result};

use super::line::{LineSocket, PATIENCE, REPLY, REQUEST};
use super::place::{self, NamedSocket, ProcessIdentity};
use super::programs;
use super::request::{ControlRequest, Identity, Reply};
use crate::privilege;

const WHICH: &str = "give the process id of a running `wirelane capture`, `record` or `forward`; \
                     `wirelane stats` lists them";
/// Most sockets of one user that are tried: users can create any number.
const MOST: usize = 128;
/// How long all processes together may take to identify themselves. Processes that do not answer in
/// time are listed as silent.
const MOMENT: Duration = Duration::from_secs(3);

/// Sends a request to the command with this process id.
///
/// # Errors
/// There is no such process, it belongs to another user, or it refuses.
pub(crate) fn ask<T: DeserializeOwned>(pid: u32, request: &ControlRequest) -> Result<T> {
    let object = format!("process {pid}");
    let stream = match reach(pid) {
        Ok(stream) => stream,
        Err(refusal) => return look_at(pid, request, refusal),
    };
    let reply = exchange(&stream, request).map_err(|error| match error.kind() {
        // It ended before it finished its answer.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            Error::failed(&object, "it ended before it answered")
        }
        ErrorKind::TimedOut => Error::failed(&object, "it does not answer").help("try again"),
        _ => Error::io(&object, "ask", error),
    })?;
    let not_understood = |error| not_understood(pid, &error);
    match serde_json::from_slice(&reply).map_err(not_understood)? {
        Reply::Done(value) => serde_json::from_value(value).map_err(not_understood),
        Reply::Refused(refusal) => Err(refusal.into_error(object)),
    }
}

/// The statistics of a program that does not listen, if it shows them; otherwise the refusal.
fn look_at<T: DeserializeOwned>(pid: u32, request: &ControlRequest, refusal: Error) -> Result<T> {
    match (programs::statistics(pid), request) {
        (Ok(Some(document)), ControlRequest::Statistics) => {
            serde_json::from_value(document).map_err(|error| not_understood(pid, &error))
        }
        (Ok(Some(_)), _) => {
            let cause = "it captures by Wirelane's libpcap: its counters can be read, nothing can \
                         be changed";
            Err(Error::failed(format!("process {pid}"), cause).help("see `wirelane stats`"))
        }
        _ => Err(refusal),
    }
}

fn not_understood(pid: u32, error: &serde_json::Error) -> Error {
    Error::failed(format!("process {pid}"), format!("cannot parse its answer: {error}"))
        .help("use the same version of wirelane as the running command")
}

/// Whether there is such a command or program that still answers or shows statistics.
pub(crate) fn listens(pid: u32) -> bool {
    reach(pid).is_ok() || programs::shows(pid)
}

/// Connects to the command with this process id, after checking the peer.
fn reach(pid: u32) -> Result<UnixStream> {
    let object = format!("process {pid}");
    let process = ProcessIdentity::of(pid)
        .ok_or_else(|| Error::failed(&object, "there is no such process").help(WHICH))?;
    let mut refusal = Error::failed(&object, "it does not listen for requests").help(WHICH);
    let until = Instant::now() + PATIENCE;
    // Mostly one socket. A process with the same number in another PID namespace may have one, too.
    let own = place::sockets(|inner| inner == process.inner).filter(|socket| process.owns(socket));
    for socket in own.take(MOST) {
        let patience =
            until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        refusal = match place::connect(&socket.path, Some(patience)) {
            Ok((stream, peer)) if (peer.pid, peer.uid) == (pid, process.user) => return Ok(stream),
            Ok((_, peer)) => {
                let (pid, user) = (peer.pid, peer.uid);
                let cause =
                    format!("process {pid} of user {user} listens in its place; it was not asked");
                Error::failed(&object, cause)
            }
            Err(error) => match error.kind() {
                // The process has ended.
                ErrorKind::NotFound => continue,
                ErrorKind::ConnectionRefused => {
                    let cause = format!("nothing listens on {} any more", socket.path.display());
                    Error::failed(&object, cause).help(WHICH)
                }
                ErrorKind::WouldBlock => {
                    Error::failed(&object, "it does not answer").help("try again")
                }
                ErrorKind::PermissionDenied => Error::io(&object, "connect", error).help(format!(
                    "it belongs to user {}; run this as that user or as root",
                    process.user
                )),
                _ => Error::io(&object, "connect", error).help(WHICH),
            },
        };
    }
    Err(refusal)
}

fn exchange(stream: &UnixStream, request: &ControlRequest) -> io::Result<Vec<u8>> {
    let mut lines = LineSocket::new(stream);
    let asked = lines.write(serde_json::to_vec(request)?);
    // Only statistics are long. Other replies have a low limit: root may send requests to a hostile
    // process.
    let longest = if *request == ControlRequest::Statistics { REPLY } else { REQUEST };
    // A server that refuses a client does not read its request first, so writing may fail.
    lines.read(longest).map_err(|error| asked.err().unwrap_or(error))
}

/// A running command.
#[derive(Clone, Debug)]
pub(crate) struct CommandConnection {
    pub(crate) pid: u32,
    pub(crate) identity: Identity,
}

/// The running commands that this user may ask. Root may ask all.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// By process id.
    pub(crate) known: Vec<CommandConnection>,
    /// Processes that listen, but did not identify themselves in time.
    pub(crate) silent: Vec<u32>,
    /// Whether there are more sockets than were tried.
    pub(crate) are_more: bool,
}

/// Identifies all listening processes at once and on one thread. A silent process does not delay
/// the others, and the number of processes per user is limited.
pub(crate) fn sessions() -> Sessions {
    let (mut candidates, mut are_more) = (BTreeMap::<u32, Vec<NamedSocket>>::new(), false);
    let user = privilege::uid();
    for socket in place::sockets(|_| true).filter(|socket| user == 0 || socket.user == user) {
        let of_user = candidates.entry(socket.user).or_default();
        match of_user.len() < MOST {
            true => of_user.push(socket),
            false => are_more = true,
        }
    }
    let mut candidates: Vec<_> = candidates.into_values().collect();
    // Users with few sockets first, in case descriptors run out.
    candidates.sort_by_key(Vec::len);
    let mut asked = BTreeMap::new();
    for socket in candidates.into_iter().flatten() {
        match IdentityRequest::new(&socket) {
            Ok(new) => {
                asked.entry(new.pid).or_insert(new);
            }
            Err(error) => are_more |= error.raw_os_error() == Some(OUT_OF_DESCRIPTORS),
        }
    }
    let mut asked: Vec<_> = asked.into_values().collect();
    let until = Instant::now() + MOMENT;
    while asked.iter().any(|asked| asked.outcome.is_none()) && listen_to(&mut asked, until) {}
    let mut sessions = Sessions { are_more, ..Sessions::default() };
    for IdentityRequest { pid, outcome, .. } in asked {
        match outcome {
            Some(Some(identity)) => sessions.known.push(CommandConnection { pid, identity }),
            // It has ended.
            Some(None) => {}
            None => sessions.silent.push(pid),
        }
    }
    let (programs, are_more) = programs::all(user, MOST);
    sessions.are_more |= are_more;
    sessions
        .known
        .extend(programs.into_iter().map(|(pid, identity)| CommandConnection { pid, identity }));
    sessions.known.sort_by_key(|session| session.pid);
    sessions
}

/// `EMFILE`.
const OUT_OF_DESCRIPTORS: i32 = 24;

/// A process that was sent an identity request.
struct IdentityRequest {
    pid: u32,
    stream: UnixStream,
    reply: Vec<u8>,
    /// `None` while no answer has arrived; `Some(None)` after a malformed answer or the end of the
    /// connection.
    outcome: Option<Option<Identity>>,
}

impl IdentityRequest {
    /// Sends the request to the process that the socket is named after.
    ///
    /// # Errors
    /// No process listens, or another process than its name says.
    fn new(socket: &NamedSocket) -> io::Result<Self> {
        let (mut stream, peer) = place::connect(&socket.path, None)?;
        let is_owner = |process: &ProcessIdentity| process.owns(socket) && process.user == peer.uid;
        ProcessIdentity::of(peer.pid).filter(is_owner).ok_or(ErrorKind::NotFound)?;
        let mut question = serde_json::to_vec(&ControlRequest::Identity)?;
        question.push(b'\n');
        // A new socket has room for the request.
        stream.write_all(&question)?;
        Ok(Self { pid: peer.pid, stream, reply: Vec::new(), outcome: None })
    }

    /// Reads the bytes that have arrived.
    fn read(&mut self) {
        let mut part = [0; 4 << 10];
        let n = match self.stream.read(&mut part) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return;
            }
            outcome => outcome.unwrap_or(0),
        };
        self.reply.extend_from_slice(part.get(..n).unwrap_or_default());
        let end = self.reply.iter().position(|byte| *byte == b'\n');
        if n == 0 || end.is_some() || self.reply.len() > REQUEST {
            let line = self.reply.get(..end.unwrap_or(0)).unwrap_or_default();
            self.outcome = Some(identity(line));
        }
    }
}

fn identity(line: &[u8]) -> Option<Identity> {
    match serde_json::from_slice(line).ok()? {
        Reply::Done(value) => serde_json::from_value(value).ok(),
        Reply::Refused(_) => None,
    }
}

/// Waits for the next answers and reads them. Returns whether there is time for more.
fn listen_to(asked: &mut [IdentityRequest], until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let mut silent: Vec<_> = asked.iter_mut().filter(|asked| asked.outcome.is_none()).collect();
    let mut descriptors: Vec<_> =
        silent.iter().map(|asked| PollFd::new(&asked.stream, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(left).unwrap_or_default();
    // An error means a signal. At the time limit, nothing is ready to read.
    let _ = poll(&mut descriptors, Some(&timeout));
    let ready: Vec<_> = descriptors.iter().map(|fd| !fd.revents().is_empty()).collect();
    silent.iter_mut().zip(ready).filter(|(_, ready)| *ready).for_each(|(asked, _)| asked.read());
    !left.is_zero()
}
