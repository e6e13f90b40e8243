//! The side that answers requests, in the running command.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wirelane::{Error, Result};

use super::answer::answer;
use super::line::{LineSocket, REQUEST};
use super::place;
use super::request::{ControlRequest, RefusalMessage, Reply};
use super::subject::ControlledCommand;
use crate::output;
use crate::privilege;

/// Most conversations at once.
const MOST: usize = 32;
/// How long to wait for descriptors or memory, if the system has none left for a conversation.
const RECOVERY: Duration = Duration::from_millis(50);

/// Answers requests until it is dropped.
pub(crate) struct ControlServer {
    path: PathBuf,
    door: Arc<Listener>,
    thread: Option<JoinHandle<()>>,
}

/// The listening socket.
struct Listener {
    listener: UnixListener,
    /// Shutting the listener down wakes the waiting thread. The error of accept(2) may then be any,
    /// even that there are no descriptors.
    closes: AtomicBool,
}

impl ControlServer {
    /// Listens on the socket of this process. Failure is only a note: the command does not depend
    /// on the socket.
    pub(crate) fn start(subject: ControlledCommand) -> Option<Self> {
        let server = Self::listen(subject);
        if let Err(error) = &server {
            let what =
                "`wirelane stats`, `mask`, `offload` and `trigger` cannot reach this command";
            output::note(format_args!("{what}: {error}"));
        }
        server.ok()
    }

    fn listen(subject: ControlledCommand) -> Result<Self> {
        let (listener, path) = place::listen()?;
        let door = Arc::new(Listener { listener, closes: AtomicBool::new(false) });
        let mut server = Self { path, door: Arc::clone(&door), thread: None };
        let reception = Reception { subject: Arc::new(subject), guests: Vec::new() };
        let thread = thread::Builder::new()
            .name("wl-control".into())
            .spawn(move || reception.run(&door))
            .map_err(|error| Error::io("control", "start a thread", error))?;
        server.thread = Some(thread);
        Ok(server)
    }
}

impl Drop for ControlServer {
    /// Ends all conversations, so that the subject is no longer in use.
    fn drop(&mut self) {
        // The order matters: an interrupted client that looks again finds no listener. Shutting
        // down also wakes the thread, even if the file is gone.
        self.door.closes.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.door.listener, rustix::net::Shutdown::Both);
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Accepts connections.
struct Reception {
    subject: Arc<ControlledCommand>,
    guests: Vec<Guest>,
}

/// A running conversation.
struct Guest {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Reception {
    fn run(mut self, door: &Listener) {
        loop {
            let connection = door.listener.accept();
            if door.closes.load(Ordering::Acquire) {
                break;
            }
            self.guests.retain(|guest| !guest.thread.is_finished());
            match connection.and_then(|(stream, _)| self.admit(stream)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // One bad conversation is no reason to stop listening.
                Err(_) => thread::sleep(RECOVERY),
            }
        }
        for guest in self.guests {
            let _ = guest.stream.shutdown(Shutdown::Both);
            let _ = guest.thread.join();
        }
    }

    fn admit(&mut self, stream: UnixStream) -> io::Result<()> {
        if self.guests.len() >= MOST {
            let error = Error::failed("control", format!("{MOST} clients are connected already"));
            // A new socket has room for this reply.
            let _ = reply(&mut LineSocket::new(&stream), Err(error.help("try again")));
            return Ok(());
        }
        let (ours, subject) = (stream.try_clone()?, Arc::clone(&self.subject));
        let thread = thread::Builder::new().name("wl-answer".into()).spawn(move || {
            // A client that disconnects early gets no answer.
            let _ = converse(&stream, &subject);
            // The reception still has the socket open: shut it down, so that the client stops
            // writing.
            let _ = stream.shutdown(Shutdown::Both);
        })?;
        self.guests.push(Guest { stream: ours, thread });
        Ok(())
    }
}

/// One request, one reply.
fn converse(stream: &UnixStream, subject: &ControlledCommand) -> io::Result<()> {
    let mut lines = LineSocket::new(stream);
    if !is_welcome(stream) {
        let error = Error::failed("control", "only its own user and root may send requests");
        return reply(&mut lines, Err(error));
    }
    let outcome = match lines.read(REQUEST) {
        Ok(line) => ControlRequest::parse(&line).and_then(|request| answer(subject, request)),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(Error::usage("request", error.to_string()))
        }
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(Error::usage("request", "incomplete line").help("end it with a newline"))
        }
        Err(error) => return Err(error),
    };
    reply(&mut lines, outcome)
}

/// Whether the other end may ask. The socket's permissions keep others out already.
fn is_welcome(stream: &UnixStream) -> bool {
    privilege::peer(stream).is_ok_and(|peer| peer.uid == 0 || peer.uid == privilege::uid())
}

fn reply(lines: &mut LineSocket<'_>, outcome: Result<serde_json::Value>) -> io::Result<()> {
    let reply = match outcome {
        Ok(value) => Reply::Done(value),
        Err(error) => Reply::Refused(RefusalMessage::from(&error)),
    };
    lines.write(serde_json::to_vec(&reply)?)
}
