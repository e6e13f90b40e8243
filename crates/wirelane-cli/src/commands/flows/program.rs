//! Sends rows to `wirelane-query`, which makes files and streams of them. This process, which has
//! privileges, holds neither that program's code nor its connections.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process, umask};
use serde_json::{Value, json};
use wirelane::pcap::Access;
use wirelane::{Error, Result};
use wirelane_flow::ipfix::Pipe;
use wirelane_flow::{Flow, Sink};
use wirelane_os::file::enlarge_pipe;

use super::arguments::{FlowFormat, FlowsArgs};
use super::files::FileArgs;
use crate::companion::QUERY;
use crate::output;

const NAME: &str = QUERY.name;

/// The output of the program.
pub(super) enum ProgramTarget<'a> {
    /// Into files of Parquet, in a directory or a store.
    Files(&'a Path, &'a FileArgs, Access),
    /// To standard output, or into a file instead.
    Stream(FlowFormat, Option<File>),
}

impl ProgramTarget<'_> {
    /// The access to its files.
    fn access(&self) -> Access {
        match self {
            Self::Files(.., access) => *access,
            Self::Stream(..) => Access::default(),
        }
    }
}

/// The access to the files of the command.
///
/// # Errors
/// The group does not exist, or would have no effect: files of Parquet cannot get one.
pub(super) fn access(args: &FlowsArgs) -> Result<Access> {
    let access = args.access.access()?;
    match args.write.as_deref().is_some_and(takes) && access.group.is_some() {
        true => Err(Error::usage("--group", "files of Parquet have the group of their directory")
            .help("give that one a group with chgrp and chmod g+s, and leave it out")),
        false => Ok(access),
    }
}

/// Whether rows that go there become files of Parquet: a directory, or a store by its URL.
pub(super) fn takes(path: &Path) -> bool {
    is_url(path) || path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The file that gets the rows, or `-` for standard output; `None` if they become files of Parquet.
pub(super) fn output_file(args: &FlowsArgs) -> Option<&Path> {
    let output = args.write.as_deref().unwrap_or(Path::new("-"));
    (!takes(output)).then_some(output)
}

/// Whether it is no path of this machine.
pub(super) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains("://"))
}

/// The program, while it runs.
pub(super) struct SinkProgram {
    child: Child,
}

impl SinkProgram {
    /// Starts the program for rows on its standard input.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(to: ProgramTarget<'_>, options: &[OsString]) -> Result<Self> {
        let access = to.access();
        Self::spawn(Self::command(to, options)?.stdin(Stdio::piped()), access)
    }

    /// Starts the program for rows that it reads by itself, as `options` say. Its process group is
    /// separate, so ^C on the terminal does not reach it: call [`SinkProgram::stop`].
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start_alone(to: ProgramTarget<'_>, options: &[OsString]) -> Result<Self> {
        let access = to.access();
        let mut command = Self::command(to, options)?;
        Self::spawn(command.stdin(Stdio::null()).process_group(0), access)
    }

    fn command(to: ProgramTarget<'_>, options: &[OsString]) -> Result<Command> {
        let mut command = Command::new(QUERY.find()?);
        command.args(["sink", "--json"]).args(options);
        match to {
            ProgramTarget::Files(path, files, _) => {
                command.args(files.words()).arg("--").arg(path).stdout(Stdio::piped());
            }
            // The report then arrives on standard error.
            ProgramTarget::Stream(format, file) => {
                command.args(["--format", format.as_str(), "-"]).stderr(Stdio::piped());
                if let Some(file) = file {
                    command.stdout(file);
                }
            }
        }
        Ok(command)
    }

    fn spawn(command: &mut Command, access: Access) -> Result<Self> {
        // The program inherits the umask, so its files and directories get this access.
        let own = umask(Mode::from_raw_mode(0o777 & !access.directory_mode()));
        let spawned = command.spawn();
        umask(own);
        let child = spawned.map_err(|error| failed("execve", error))?;
        Ok(Self { child })
    }

    /// Its standard input, once.
    pub(super) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the program to end. Packets that it has read still become rows.
    pub(super) fn stop(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for the program to end, after its input has ended. Returns its report, and whether it
    /// failed.
    pub(super) fn finish(&mut self) -> (Option<Value>, Result<()>) {
        let mut text = String::new();
        let Child { stdout, stderr, .. } = &mut self.child;
        let read = match (stdout, stderr) {
            (Some(from), _) => from.read_to_string(&mut text),
            (None, Some(from)) => from.read_to_string(&mut text),
            (None, None) => Ok(0),
        };
        let status = self.child.wait();
        let mut told = None;
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(value @ Value::Object(_)) => told = Some(value),
                // The reader may be gone.
                _ => drop(writeln!(io::stderr(), "{}", output::printable(line))),
            }
        }
        let outcome = match (read, status) {
            (Err(error), _) => Err(failed("read", error)),
            (_, Err(error)) => Err(failed("wait", error)),
            (_, Ok(status)) if status.success() => Ok(()),
            // The program has printed the reason.
            (_, Ok(status)) => {
                Err(Error::failed(format!("program {NAME}"), format!("it failed ({status})")))
            }
        };
        (told, outcome)
    }
}

impl Drop for SinkProgram {
    fn drop(&mut self) {
        // The program ends when its input closes, so this wait ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Its standard input as a file: a large pipe.
pub(super) fn file(input: ChildStdin) -> File {
    /// Size of the pipe, in bytes: the most that the program can read at once.
    const PIPE: usize = 1 << 20;
    enlarge_pipe(&input, PIPE);
    File::from(OwnedFd::from(input))
}

/// The report that the program prints at its end.
pub(super) type Told = Arc<Mutex<Option<Value>>>;

/// Gives flows to the program.
pub(super) struct ProgramSink {
    program: SinkProgram,
    /// `None` once all flows were given.
    pipe: Option<Pipe<BufWriter<ChildStdin>>>,
    /// A reader of standard output may go away.
    is_stream: bool,
    told: Told,
    /// The target of the flows, and their number so far.
    to: String,
    given: u64,
}

impl ProgramSink {
    /// Starts the program for flows to `to`; its report is put into `told`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(to: ProgramTarget<'_>, told: &Told) -> Result<Self> {
        let is_stream = matches!(to, ProgramTarget::Stream(..));
        let place = match &to {
            ProgramTarget::Files(path, _, _) => path.display().to_string(),
            ProgramTarget::Stream(..) => "standard output".to_owned(),
        };
        let mut program = SinkProgram::start(to, &[])?;
        let pipe = program.input().map(|input| Pipe::new(BufWriter::new(input)));
        Ok(Self { program, pipe, is_stream, told: Arc::clone(told), to: place, given: 0 })
    }

    fn write(
        &mut self,
        what: impl FnOnce(&mut Pipe<BufWriter<ChildStdin>>) -> io::Result<()>,
    ) -> Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        what(pipe).or_else(|error| {
            if error.kind() != io::ErrorKind::BrokenPipe {
                return Err(failed("write", error));
            }
            // The program has ended: its own error explains more.
            self.end()?;
            Err(match self.is_stream {
                true => Error::io("standard output", "write", error),
                false => failed("write", error),
            })
        })
    }

    /// Closes the program's input, and waits for the program to end.
    fn end(&mut self) -> Result<()> {
        self.pipe = None;
        let (told, outcome) = self.program.finish();
        // A killed program reports nothing: its flows are lost.
        let lost =
            || json!({ "to": self.to, "flows": 0, "lost": self.given, "bytes": 0, "failures": 0 });
        let told = told.or_else(|| outcome.is_err().then(lost));
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
        outcome
    }
}

impl Sink for ProgramSink {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.write(|pipe| pipe.add(flow))?;
        self.given += 1;
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        // While no flow ends, this is the only check whether the program still runs.
        if self.pipe.is_some() && self.program.has_ended() {
            self.end()?;
            // The program inherits standard output, whose reader has closed it.
            return Err(match self.is_stream {
                true => Error::io("standard output", "write", io::ErrorKind::BrokenPipe.into()),
                false => Error::failed(format!("program {NAME}"), "it ended early"),
            });
        }
        self.write(Pipe::flush)
    }

    fn finish(&mut self) -> Result<()> {
        self.tick()?;
        if self.pipe.is_some() { self.end() } else { Ok(()) }
    }
}

impl Drop for ProgramSink {
    fn drop(&mut self) {
        // Close the pipe before waiting for the program.
        self.pipe = None;
    }
}

fn failed(call: &'static str, error: io::Error) -> Error {
    let error = match error.kind() {
        // `BrokenPipe` would mean the reader of this command's output: see the library's
        // `ErrorKind`.
        io::ErrorKind::BrokenPipe => io::Error::other("it ended early"),
        _ => error,
    };
    Error::io(format!("program {NAME}"), call, error)
}
