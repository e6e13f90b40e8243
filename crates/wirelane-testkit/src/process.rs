//! Runs commands and checks their status, and starts child processes that do not outlive their
//! test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wirelane_os::child;

/// The exit status and the output of a finished program.
#[derive(Debug)]
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output, as text.
    pub stdout: String,
    /// The standard error, as text, with errors and notes of Wirelane on one line each.
    pub stderr: String,
}

/// Runs `command` to its end and returns its standard output.
///
/// # Panics
/// When it cannot be started or fails; the message holds the command and its standard error.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?} failed with {}:\n{}{}",
        output.status,
        output.stdout,
        output.stderr
    );
    output.stdout
}

/// Runs `command` to its end and returns its status and output, also if it fails.
///
/// # Panics
/// When it cannot be started.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    let output = child::default_signals(command)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    Output {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: unfolded(&output.stderr),
    }
}

/// Standard error as text. Joins the lines of each error and note of Wirelane, which are folded at
/// 80 columns.
#[must_use]
pub fn unfolded(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut joined = String::with_capacity(text.len());
    let mut is_folded = false;
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        if let Some(rest) = rest.filter(|_| is_folded) {
            joined.truncate(joined.trim_end_matches('\n').len());
            joined.push(' ');
            joined.push_str(rest);
            continue;
        }
        is_folded = line.starts_with("wirelane") || line.starts_with("note: ");
        joined.push_str(line);
    }
    joined
}

/// Copies the program `from` to `to`, so that it can be started there.
///
/// A separate process makes the copy. With `fs::copy`, a child that another thread forks at the
/// same time would inherit the descriptor open for writing and keep it until it executes its
/// program. Until then the copy could not be started (ETXTBSY).
///
/// # Panics
/// When it cannot be copied.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    run(Command::new("cp").args([from, to]));
}

/// A command that runs the program with at most `kib` KiB of virtual memory and kills it after a
/// minute. So it fails if it blocks or trusts a false length.
#[must_use]
pub fn bounded(program: &str, kib: u32) -> Command {
    let mut command = Command::new("bash");
    let script = format!("ulimit -v {kib}; exec timeout --signal=KILL 60 \"$@\"");
    command.args(["-c", &script, "-", program]);
    command
}

/// A child process. When the guard is dropped, it ends the child and the child's own children.
#[derive(Debug)]
pub struct ChildGuard {
    command: String,
    child: Child,
    // Files instead of pipes: a child with much output must not block because the test does not
    // read.
    stdout: File,
    stderr: File,
}

impl ChildGuard {
    /// Starts `command` in a new process group. Its output is kept for [`Self::wait`]. All signals
    /// have their default actions, even those that the test process ignores.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn spawn(command: &mut Command) -> Self {
        let (stdout, stderr) = (scratch_file(), scratch_file());
        let duplicate = |file: &File| file.try_clone().expect("duplicating a file descriptor");
        let child = child::independent(command)
            .stdin(Stdio::null())
            .stdout(duplicate(&stdout))
            .stderr(duplicate(&stderr))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { command: format!("{command:?}"), child, stdout, stderr }
    }

    /// The process id, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends `SIGINT` to the process, as `^C` would.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends `signal` to the process. Does nothing if the process has already ended.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid(), signal);
    }

    /// The standard output so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stdout)).into_owned()
    }

    /// The standard error so far, with errors and notes of Wirelane on one line each.
    pub fn stderr(&self) -> String {
        unfolded(&contents(&self.stderr))
    }

    /// Waits until `ready` returns true for the guard, at most `limit`.
    ///
    /// # Panics
    /// When the limit expires, or the process ends first.
    #[track_caller]
    pub fn wait_until(&mut self, limit: Duration, ready: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + limit;
        loop {
            // The order matters: once the process has ended, its output is complete.
            let is_running = self.is_running();
            if ready(self) {
                return;
            }
            assert!(is_running, "{} ended before it was ready:\n{}", self.command, self.stderr());
            assert!(
                Instant::now() < deadline,
                "{} was not ready after {limit:?}:\n{}",
                self.command,
                self.stderr()
            );
            thread::sleep(POLL);
        }
    }

    /// Waits until the process ends, at most `limit`.
    ///
    /// # Panics
    /// When the process is still running after `limit`; it is then killed.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Output {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    return Output { status, stdout: self.stdout(), stderr: self.stderr() };
                }
                Ok(None) => {}
                Err(error) => panic!("cannot wait for {}: {error}", self.command),
            }
            assert!(
                Instant::now() < deadline,
                "{} still runs after {limit:?}:\n{}",
                self.command,
                self.stderr()
            );
            thread::sleep(POLL);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // This does nothing if the test has already waited for the process.
        let _ = child::end(&mut self.child, GRACE);
    }
}

const POLL: Duration = Duration::from_millis(5);
/// How long a child may take to clean up after it was asked to end. Then it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A file without a name, readable and writable.
fn scratch_file() -> File {
    rustix::fs::memfd_create(c"wirelane-test-output", rustix::fs::MemfdFlags::CLOEXEC)
        .expect("creating a memory file")
        .into()
}

/// Reads all of `file` through a separate file description, so that the file offset of the child
/// does not change.
fn contents(file: &File) -> Vec<u8> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read(path).expect("reading a memory file")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn run_returns_the_output() {
        assert_eq!(run(&mut shell("echo one; echo two >&2")), "one\n");
    }

    #[test]
    #[should_panic(expected = "the reason")]
    fn run_panics_with_the_reason() {
        run(&mut shell("echo the reason >&2; exit 3"));
    }

    #[test]
    fn child_is_waited_for() {
        let mut child = ChildGuard::spawn(&mut shell("echo ready; sleep 0.05; echo x >&2; exit 7"));
        child.wait_until(LIMIT, |child| child.stdout().contains("ready"));
        let output = child.wait(LIMIT);
        assert_eq!(output.status.code(), Some(7));
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("ready\n", "x\n"));
    }

    #[test]
    fn child_is_interrupted() {
        let script = "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done";
        let mut child = ChildGuard::spawn(&mut shell(script));
        child.wait_until(LIMIT, |child| child.stdout().contains("up"));
        child.interrupt();
        assert_eq!(child.wait(LIMIT).stdout, "up\nbye\n");
    }

    #[test]
    fn child_and_its_children_die_with_the_guard() {
        let mut child = ChildGuard::spawn(&mut shell("sleep 600 & echo $!; wait"));
        child.wait_until(LIMIT, |child| child.stdout().ends_with('\n'));
        let pids = [child.id().to_string(), child.stdout().trim().to_owned()];
        assert!(pids.iter().all(|pid| is_alive(pid)));
        drop(child);
        let deadline = Instant::now() + LIMIT;
        while pids.iter().any(|pid| is_alive(pid)) {
            assert!(Instant::now() < deadline, "{pids:?} outlived their guard");
            thread::sleep(POLL);
        }
    }

    /// Whether the process exists and is not a zombie that its new parent has yet to reap.
    fn is_alive(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
    }
}
