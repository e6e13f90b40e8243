//! Runs programs on an interface with four queues, over both libraries at the same time.

use std::fs;
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use wirelane_testkit::installed::Program;
use wirelane_testkit::libpcap::{Library, ours};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, Output, output};
use wirelane_testkit::veth::VethPair;

use crate::processes::{self, Quiet};
use crate::traffic;

/// The longest wait on a busy machine before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
const QUEUES: u32 = 4;
/// Packets per second, so that no reader loses any.
const RATE: &str = "--pps=2000";
/// Longer than these programs let packets wait in a ring.
const WAIT_IN_RING: Duration = Duration::from_millis(1300);

/// A namespace in which programs listen, and one that sends packets.
pub(crate) struct Bed {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    pub(crate) pair: VethPair,
    directory: TempDir,
}

/// How a program ends once it has seen all packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, after a number of packets.
    Itself,
    /// By SIGINT, as by `^C`.
    Interrupt,
    /// By SIGTERM.
    Terminate,
}

/// The result of a program that ran over one of the libraries.
pub(crate) struct Run {
    pub(crate) output: Output,
    /// Its working directory.
    pub(crate) directory: PathBuf,
    /// Removes the directory, if the bed does not.
    _guard: Option<TempDir>,
}

impl Run {
    /// The bytes of a file that it wrote.
    #[track_caller]
    pub(crate) fn bytes(&self, file: &str) -> Vec<u8> {
        let path = self.directory.join(file);
        fs::read(&path).unwrap_or_else(|error| {
            panic!("{}: {error}\n{}{}", path.display(), self.output.stdout, self.output.stderr)
        })
    }

    #[track_caller]
    pub(crate) fn text(&self, file: &str) -> String {
        String::from_utf8_lossy(&self.bytes(file)).into_owned()
    }

    /// The files of its directory with their contents, without the names in `except`.
    pub(crate) fn files(&self, except: &[&str]) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(&self.directory).unwrap().flatten();
        let names = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
        let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| !except.contains(&name.as_str()));
        names.sort();
        names.into_iter().map(|name| (name.clone(), self.bytes(&name))).collect()
    }
}

impl Bed {
    pub(crate) fn new() -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let pair = VethPair::new(&near, &far, QUEUES, 1500);
        pair.set_offloads(false);
        Self { near, far, pair, directory: directory() }
    }

    /// The interface that programs listen on.
    pub(crate) fn interface(&self) -> &str {
        &self.pair.a.interface
    }

    /// Sends [`traffic::frames`] to the interface.
    pub(crate) fn replay(&self) {
        self.send(&traffic::frames());
    }

    /// Sends enough other packets to the interface to fill any ring.
    pub(crate) fn fill_rings(&self) {
        self.send(&traffic::filling());
    }

    fn send(&self, frames: &[Vec<u8>]) {
        let file = self.directory.path().join("sent.pcap");
        traffic::write(frames, &file);
        let peer = format!("--intf1={}", self.pair.b.interface);
        let file = file.display().to_string();
        // From one CPU: packets sent from two may overtake each other on their way to a reader.
        self.far.run("taskset", ["-c", "0", "tcpreplay", "-q", "-K", RATE, &peer, &file]);
    }

    /// Runs `program ARGS` over both libraries at the same time, replays the traffic once both
    /// listen, and ends both. `@` in an argument is replaced by the interface.
    #[track_caller]
    pub(crate) fn live(&self, program: &str, args: &[&str], ending: Ending) -> [Run; 2] {
        let mut runs = self.watch(&[(program, args)], ending, || self.replay());
        runs.remove(0)
    }

    /// Like [`Self::live`], with several programs at the same time and other packets.
    #[track_caller]
    pub(crate) fn watch(
        &self,
        programs: &[(&str, &[&str])],
        ending: Ending,
        traffic: impl FnOnce(),
    ) -> Vec<[Run; 2]> {
        let mut running: Vec<Running> = Vec::new();
        for (program, args) in programs {
            running.extend(Library::BOTH.map(|library| self.spawn(library, program, args)));
        }
        for it in &mut running {
            it.wait_until_listening();
        }
        traffic();
        let mut runs = running.into_iter().map(|it| it.end(ending));
        iter::from_fn(|| Some([runs.next()?, runs.next()?])).collect()
    }

    /// Runs `program ARGS` to its end over one library after the other.
    #[track_caller]
    pub(crate) fn each(&self, program: &str, args: &[&str]) -> [Run; 2] {
        Library::BOTH.map(|library| self.once(library, program, args))
    }

    /// Runs `program ARGS` to its end.
    #[track_caller]
    pub(crate) fn once(&self, library: Library, program: &str, args: &[&str]) -> Run {
        let (mut command, directory) = self.command(library, program, args);
        Run { output: output(&mut command), directory, _guard: None }
    }

    /// Starts `program ARGS` in a separate directory.
    #[track_caller]
    pub(crate) fn spawn(&self, library: Library, program: &str, args: &[&str]) -> Running {
        self.spawn_with(library, program, args, &[])
    }

    /// Like [`Self::spawn`], with these environment variables.
    #[track_caller]
    pub(crate) fn spawn_with(
        &self,
        library: Library,
        program: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Running {
        let (mut command, directory) = self.command(library, program, args);
        command.envs(variables.iter().copied());
        Running { library, child: ChildGuard::spawn(&mut command), directory }
    }

    /// Starts `program ARGS` at the other end, over the stock library.
    #[track_caller]
    pub(crate) fn spawn_far(&self, program: &str, args: &[&str]) -> Running {
        let library = Library::Stock;
        let directory = self.scratch(library);
        let mut command = found(program).command(library, Some(&self.far));
        command.args(args.iter().map(|arg| arg.replace('@', &self.pair.b.interface)));
        command.current_dir(&directory);
        Running { library, child: ChildGuard::spawn(&mut command), directory }
    }

    /// Writes a file beside the directories of all programs.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    /// Writes [`traffic::frames`] to that file.
    pub(crate) fn write_traffic(&self, name: &str) {
        traffic::write(&traffic::frames(), &self.directory.path().join(name));
    }

    #[track_caller]
    fn command(&self, library: Library, program: &str, args: &[&str]) -> (Command, PathBuf) {
        let directory = self.scratch(library);
        let mut command = found(program).command(library, Some(&self.near));
        command.args(args.iter().map(|arg| arg.replace('@', self.interface())));
        command.current_dir(&directory);
        (command, directory)
    }

    /// A new directory for a program that runs over `library`.
    fn scratch(&self, library: Library) -> PathBuf {
        let number = fs::read_dir(self.directory.path()).unwrap().count();
        let path = self.directory.path().join(format!("{number}-{library:?}"));
        fs::create_dir(&path).unwrap();
        // Some programs give up their privileges before they write.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(path.join("empty"), "").unwrap();
        path
    }
}

/// A running program.
pub(crate) struct Running {
    library: Library,
    pub(crate) child: ChildGuard,
    pub(crate) directory: PathBuf,
}

impl Running {
    /// Waits until it has its sockets on the interface, and checks that it uses the right
    /// library.
    #[track_caller]
    pub(crate) fn wait_until_listening(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut sockets = 0;
        let mut quiet = Quiet::new();
        while sockets == 0 || quiet.time(self.child.id()) < SETTLED {
            let is_running = self.child.is_running();
            let now = processes::packet_sockets(self.child.id());
            if now != sockets {
                (sockets, quiet) = (now, Quiet::new());
            }
            assert!(
                is_running && Instant::now() < deadline,
                "{:?}: not listening:\n{}{}",
                self.library,
                self.child.stdout(),
                self.child.stderr()
            );
            thread::sleep(Duration::from_millis(20));
        }
        let loaded = processes::has_loaded(self.child.id(), &ours());
        let library = self.library;
        assert_eq!(loaded, library == Library::Ours, "{library:?}: the other library is loaded");
    }

    /// Waits until it has read all packets that were sent.
    pub(crate) fn wait_until_quiet(&mut self) {
        processes::wait_until_quiet(&mut self.child, WAIT_IN_RING);
    }

    /// Ends it once it has read all packets, and waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self, ending: Ending) -> Run {
        if ending != Ending::Itself {
            self.wait_until_quiet();
        }
        match ending {
            Ending::Itself => {}
            Ending::Interrupt => self.child.interrupt(),
            Ending::Terminate => self.child.signal(Signal::TERM),
        }
        Run { output: self.child.wait(PATIENCE), directory: self.directory, _guard: None }
    }
}

/// How long a program with sockets must be idle before it counts as listening.
const SETTLED: Duration = Duration::from_millis(400);

/// Runs `program ARGS` over both libraries, without a network.
#[track_caller]
pub(crate) fn offline(program: &str, args: &[&str]) -> [Run; 2] {
    Library::BOTH.map(|library| {
        let guard = directory();
        let directory = guard.path().to_path_buf();
        let file = directory.join("traffic.pcap");
        traffic::write(&traffic::frames(), &file);
        fs::write(directory.join("empty"), "").unwrap();
        let mut command = found(program).command(library, None);
        let output = output(command.args(args).current_dir(&directory));
        Run { output, directory, _guard: Some(guard) }
    })
}

#[track_caller]
fn found(program: &str) -> Program {
    Program::find(program).unwrap_or_else(|| panic!("no {program}: cargo xtask test setup"))
}

fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Fails at the first line in which two texts differ.
#[track_caller]
pub(crate) fn assert_same(what: &str, stock: &str, ours: &str) {
    if stock == ours {
        return;
    }
    let (mut left, mut right) = (stock.lines(), ours.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => panic!("{what}: the ends of lines differ"),
            (a, b) if a == b => {}
            (a, b) => panic!(
                "{what}: line {number} differs\n  stock: {}\n  drop-in: {}\n({} and {} lines)",
                a.unwrap_or("(none)"),
                b.unwrap_or("(none)"),
                stock.lines().count(),
                ours.lines().count()
            ),
        }
    }
}

/// Fails unless both runs succeeded, and returns them.
#[track_caller]
pub(crate) fn succeeded(runs: [Run; 2]) -> [Run; 2] {
    for (run, library) in runs.iter().zip(Library::BOTH) {
        assert!(
            run.output.status.success(),
            "{library:?}: {}\n{}{}",
            run.output.status,
            run.output.stdout,
            run.output.stderr
        );
    }
    runs
}

/// Fails unless both runs ended with the same status and output.
#[track_caller]
pub(crate) fn assert_alike(what: &str, [stock, ours]: &[Run; 2]) {
    assert_same(&format!("{what}: stderr"), &stock.output.stderr, &ours.output.stderr);
    assert_same(&format!("{what}: stdout"), &stock.output.stdout, &ours.output.stdout);
    assert_eq!(stock.output.status.code(), ours.output.status.code(), "{what}");
}

impl Run {
    /// Removes output lines for which the drop-in intentionally differs.
    pub(crate) fn without(mut self, part: &str) -> Self {
        let lines = |text: &str| -> String {
            let kept = text.lines().filter(|line| !line.contains(part));
            kept.map(|line| format!("{line}\n")).collect()
        };
        self.output.stdout = lines(&self.output.stdout);
        self.output.stderr = lines(&self.output.stderr);
        self
    }
}
