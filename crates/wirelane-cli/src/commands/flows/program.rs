//! Flows to `wirelane-query`, which makes files of them: the process with privileges holds neither its code nor its
//! connections.

use std::io::{self, BufWriter, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use wirelane::{Error, Result};
use wirelane_flow::ipfix::Pipe;
use wirelane_flow::{Flow, Sink};

use crate::companion::{self, NAME};

use super::files::FileArgs;

/// What the program said at its end.
pub(super) type Told = Arc<Mutex<Option<Value>>>;

/// Gives flows to the program.
pub(super) struct ProgramSink {
    child: Child,
    /// `None` once all flows were given.
    pipe: Option<Pipe<BufWriter<ChildStdin>>>,
    told: Told,
}

/// Whether flows that go there are the program's concern: a directory, or a store by its URL.
pub(super) fn takes(path: &Path) -> bool {
    is_url(path) || path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Whether it is no path of this machine.
pub(super) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains("://"))
}

impl ProgramSink {
    /// Starts it for flows that go to `to`; what becomes of them is put into `told`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(to: &Path, files: &FileArgs, told: &Told) -> Result<Self> {
        let mut command = Command::new(companion::find()?);
        command.args(["sink", "--json"]).args(files.words()).arg("--").arg(to);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("execve", error))?;
        let pipe = child.stdin.take().map(|input| Pipe::new(BufWriter::new(input)));
        Ok(Self { child, pipe, told: Arc::clone(told) })
    }

    fn pipe(&mut self) -> io::Result<&mut Pipe<BufWriter<ChildStdin>>> {
        self.pipe.as_mut().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Sink for ProgramSink {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.pipe().and_then(|pipe| pipe.add(flow)).map_err(|error| failed("write", error))
    }

    fn tick(&mut self) -> Result<()> {
        self.pipe().and_then(Pipe::flush).map_err(|error| failed("write", error))
    }

    fn finish(&mut self) -> Result<()> {
        let flushed = self.tick();
        // The end of its input.
        self.pipe = None;
        let mut text = String::new();
        if let Some(output) = &mut self.child.stdout {
            output.read_to_string(&mut text).map_err(|error| failed("read", error))?;
        }
        let status = self.child.wait().map_err(|error| failed("wait", error))?;
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) =
            serde_json::from_str(&text).ok();
        if !status.success() {
            // It said why.
            return Err(Error::failed(format!("program {NAME}"), format!("it failed ({status})")));
        }
        flushed
    }
}

impl Drop for ProgramSink {
    fn drop(&mut self) {
        // Without its input it ends; nothing waits for it in vain.
        self.pipe = None;
        let _ = self.child.wait();
    }
}

fn failed(call: &'static str, error: io::Error) -> Error {
    let error = match error.kind() {
        // Not the reader of our own output: see `ErrorKind::BrokenPipe` of the library.
        io::ErrorKind::BrokenPipe => io::Error::other("it ended early"),
        _ => error,
    };
    Error::io(format!("program {NAME}"), call, error)
}
