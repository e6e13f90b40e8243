//! Runs another program on given CPUs and in a given network namespace, watches it, and ends it
//! with this process.
//!
//! A peer has default signals and a separate process group (`wirelane_os::child`). It ends by
//! SIGTERM and, after a grace period, by SIGKILL.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wirelane_os::{affinity, child, clock};

use wirelane::error::{Error, Result};
use wirelane_lab::Site;

/// The time from the ready message of a receiving program until it receives.
pub(crate) const SETTLE: Duration = Duration::from_millis(200);
const POLL: Duration = Duration::from_millis(5);
/// How long a program may take to get ready, if the run has no shorter limit.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a program may take to end after SIGTERM, before SIGKILL follows.
const GRACE: Duration = Duration::from_secs(2);

/// A program that runs. Dropping it ends it, and so does the end of this process.
#[derive(Debug)]
pub(crate) struct RunningProgram {
    name: String,
    child: Child,
    // Files instead of pipes: a program that writes much must not block until this process reads.
    stdout: File,
    stderr: File,
}

/// The output of a program that has ended.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl RunningProgram {
    /// Starts `command` on these CPUs, in the namespace of `site` if there is one. The program ends
    /// with the calling thread.
    ///
    /// # Errors
    /// The program is missing, or the CPU or the namespace cannot be used.
    pub(crate) fn start(command: &mut Command, cpus: &[u32], site: Option<&Site>) -> Result<Self> {
        Self::start_with(command, "", cpus, site)
    }

    /// The same with an input.
    pub(crate) fn start_with(
        command: &mut Command,
        input: &str,
        cpus: &[u32],
        site: Option<&Site>,
    ) -> Result<Self> {
        let name = name(command);
        let failed = |call: &'static str| {
            let name = name.clone();
            move |error: std::io::Error| Error::io(name, call, error)
        };
        let scratch = || -> Result<File> {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let file = rustix::fs::memfd_create(c"wirelane-output", flags);
            Ok(file.map_err(|errno| failed("memfd_create")(errno.into()))?.into())
        };
        let (stdout, stderr) = (scratch()?, scratch()?);
        let stdin = match input {
            "" => Stdio::null(),
            text => {
                let file = scratch()?;
                // Its position stays at the beginning.
                file.write_all_at(text.as_bytes(), 0).map_err(failed("write"))?;
                file.into()
            }
        };
        command
            .stdin(stdin)
            .stdout(stdout.try_clone().map_err(failed("dup"))?)
            .stderr(stderr.try_clone().map_err(failed("dup"))?);
        child::end_with_thread(child::independent(command));
        // The child inherits both from this thread.
        let before = affinity::allowed_cpus().unwrap_or_default();
        affinity::pin_to(cpus).map_err(|error| Error::os(name.as_str(), error))?;
        let spawned = match site {
            Some(site) => site.inside(|| command.spawn()),
            None => Ok(command.spawn()),
        };
        // Restores the CPUs of this thread.
        let _ = affinity::pin_to(&before);
        let child = spawned?.map_err(failed("start"))?;
        Ok(Self { name, child, stdout, stderr })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its standard output so far.
    pub(crate) fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    /// Its standard error so far.
    pub(crate) fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    /// CPU time of all its threads so far; zero if the kernel does not report it.
    pub(crate) fn cpu(&self) -> Duration {
        clock::threads_cpu(self.child.id())
    }

    /// CPU time of its threads whose names begin with `threads`.
    pub(crate) fn cpu_of(&self, threads: &str) -> Duration {
        clock::threads_cpu_named(self.child.id(), threads)
    }

    /// Waits until it has written `mark` anywhere.
    ///
    /// # Errors
    /// It ends before, or does not within `limit`; or `stop` was set.
    pub(crate) fn wait_for(
        &mut self,
        mark: &str,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        let has_mark = |own: &Self| own.stdout().contains(mark) || own.stderr().contains(mark);
        self.wait_until(has_mark, limit, stop)
    }

    /// Waits until `is_ready` is true.
    pub(crate) fn wait_until(
        &mut self,
        is_ready: impl Fn(&Self) -> bool,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let is_running = self.is_running();
            if is_ready(self) {
                return Ok(());
            }
            if !is_running {
                let cause = "ended before it was ready".to_owned() + &self.last_words();
                return Err(Error::failed(self.name.as_str(), cause));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::failed(self.name.as_str(), "the run was ended"));
            }
            if Instant::now() >= deadline {
                let cause = format!("was not ready after {} s", limit.as_secs());
                return Err(Error::failed(self.name.as_str(), cause + &self.last_words()));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for its end, however that is.
    ///
    /// # Errors
    /// It does not end within `limit`; or `stop` was set.
    pub(crate) fn wait_until_ended(&mut self, limit: Duration, stop: &AtomicBool) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.is_running() {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::failed(self.name.as_str(), "the run was ended"));
            }
            if Instant::now() >= deadline {
                let cause = format!("took longer than {} s", limit.as_secs());
                return Err(Error::failed(self.name.as_str(), cause));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// The last lines of its output, as an addition to an error.
    fn last_words(&self) -> String {
        match last_lines(&format!("{}\n{}", self.stdout(), self.stderr())) {
            said if said.is_empty() => "; it says nothing".to_owned(),
            said => format!("; it said: {said}"),
        }
    }

    /// Sends SIGINT and waits. Terminates the program if it still runs after `limit`.
    ///
    /// # Errors
    /// It had to be terminated, or ended with a failure.
    pub(crate) fn interrupt(mut self, limit: Duration) -> Result<ProgramOutput> {
        self.ask_to_end();
        self.wait(limit)
    }

    /// Sends SIGINT. [`RunningProgram::wait`] waits for the end.
    pub(crate) fn ask_to_end(&mut self) {
        if self.is_running() {
            // A process that has just ended is not reaped yet: no other process can have its PID.
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
    }

    /// Waits for its end. Terminates it if it still runs after `limit`.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<ProgramOutput> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    let output = ProgramOutput { stdout: self.stdout(), stderr: self.stderr() };
                    if status.success() {
                        return Ok(output);
                    }
                    let cause = format!("failed, {status}{}", self.last_words());
                    return Err(Error::failed(self.name.as_str(), cause));
                }
                Ok(None) => {}
                Err(error) => return Err(Error::io(self.name.as_str(), "wait", error)),
            }
            if Instant::now() >= deadline {
                let cause = format!("still runs {} s after it was to end", limit.as_secs());
                return Err(Error::failed(self.name.as_str(), cause + &self.last_words()));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // A program that was already waited for is not affected.
        let _ = child::end(&mut self.child, GRACE);
    }
}

/// How long a program may take to get ready in a run limited to `limit`: a program that never gets
/// ready must not use up the run.
pub(crate) fn patience(limit: Option<Duration>) -> Duration {
    const LEAST: Duration = Duration::from_secs(6);
    limit.map_or(PATIENCE, |limit| (limit / 8).clamp(LEAST, PATIENCE))
}

/// Runs `command` to its end and returns its output, whatever the exit status. `None` if it cannot
/// be started, or hangs.
pub(crate) fn answer(command: &mut Command) -> Option<ProgramOutput> {
    /// To print a version or a help.
    const LIMIT: Duration = Duration::from_secs(3);
    let mut running = RunningProgram::start(command, &affinity::allowed_cpus().ok()?, None).ok()?;
    running.wait_until_ended(LIMIT, &AtomicBool::new(false)).ok()?;
    Some(ProgramOutput { stdout: running.stdout(), stderr: running.stderr() })
}

/// A command line, with the name of the program in place of its path.
pub(crate) fn line(command: &Command) -> String {
    let words = command.get_args().map(|word| format!(" {}", word.display()));
    name(command) + &words.collect::<String>()
}

fn name(command: &Command) -> String {
    let path = PathBuf::from(command.get_program());
    path.file_name().unwrap_or(path.as_os_str()).display().to_string()
}

/// The content of `file`, read through a separate file description: the program's position does not
/// change.
fn contents(file: &File) -> String {
    let mut text = Vec::new();
    if let Ok(mut reader) = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())) {
        // A partial read is good enough: the caller reads again.
        let _ = reader.read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The last three lines of a program's output, joined.
fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> RunningProgram {
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let mut command = Command::new("sh");
        RunningProgram::start(command.args(["-c", script]), &[cpu], None).unwrap()
    }

    #[test]
    fn a_program_is_watched_and_ended() {
        let never = AtomicBool::new(false);
        let script = "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done";
        let mut running = shell(script);
        running.wait_for("up", LIMIT, &never).unwrap();
        assert!(running.is_running());
        assert_eq!(running.interrupt(LIMIT).unwrap().stdout, "up\nbye\n");
    }

    /// As in the background of a script, where a shell could not even set a trap for it.
    #[test]
    fn a_program_gets_its_interrupt_where_we_ignore_it() {
        let script = "trap '' INT QUIT HUP; exec \"$0\" --exact \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(std::env::current_exe().unwrap());
        let test = concat!(module_path!(), "::a_program_is_watched_and_ended");
        command.arg(test.split_once("::").unwrap().1);
        let cpu = affinity::allowed_cpus().unwrap()[0];
        let ended = RunningProgram::start(&mut command, &[cpu], None).unwrap().wait(LIMIT).unwrap();
        assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
    }

    /// A program and its child that ignore SIGINT and SIGTERM.
    #[test]
    fn a_deaf_program_is_ended_in_the_end() {
        let never = AtomicBool::new(false);
        let deaf = "trap '' INT TERM; echo up $$; while :; do sleep 0.05; done";
        let mut running = shell(&format!("sh -c \"{}\" & {deaf}", deaf.replace('$', "\\$")));
        running.wait_until(|own| own.stdout().lines().count() == 2, LIMIT, &never).unwrap();
        let up = running.stdout();
        let error = running.interrupt(Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("still runs"), "{error}");
        let deadline = Instant::now() + LIMIT;
        for line in up.lines() {
            let stat = format!("/proc/{}/stat", line.strip_prefix("up ").unwrap());
            while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                assert!(Instant::now() < deadline, "it lives on");
                thread::sleep(POLL);
            }
        }
    }

    #[test]
    fn what_goes_wrong_is_said() {
        let never = AtomicBool::new(false);
        let error = shell("echo no device >&2; exit 3").wait_for("up", LIMIT, &never).unwrap_err();
        assert_eq!(error.to_string(), "sh: ended before it was ready; it said: no device");
        let error = shell("echo one >&2; exit 3").wait(LIMIT).unwrap_err();
        assert!(error.to_string().contains("one") && error.to_string().contains('3'), "{error}");
        let brief = Duration::from_millis(300);
        let mut mute = shell("sleep 600");
        let error = mute.wait_until(|_| false, brief, &never).unwrap_err().to_string();
        assert_eq!(error, "sh: was not ready after 0 s; it says nothing");
        let mut stuck = shell("echo probing; exec sleep 600");
        let error = stuck.wait_until(|_| false, brief, &never).unwrap_err().to_string();
        assert_eq!(error, "sh: was not ready after 0 s; it said: probing");
        let error = shell("sleep 600").wait(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("still runs"), "{error}");
        let stopped = AtomicBool::new(true);
        assert!(shell("sleep 600").wait_for("up", LIMIT, &stopped).is_err());
        let missing = RunningProgram::start(&mut Command::new("/no/such/program"), &[0], None);
        assert!(missing.unwrap_err().to_string().starts_with("program: "));
    }

    #[test]
    fn an_answer_is_what_was_said_and_nobody_is_waited_for_without_end() {
        let ask = |script| answer(Command::new("sh").args(["-c", script]));
        let said = ask("echo 1.2; echo oh >&2; exit 3").unwrap();
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("1.2\n", "oh\n"));
        assert!(answer(&mut Command::new("/no/such/program")).is_none());
        assert_eq!(patience(None), PATIENCE);
        assert_eq!(patience(Some(Duration::from_secs(80))), Duration::from_secs(10));
        assert_eq!(patience(Some(Duration::ZERO)), Duration::from_secs(6));
    }

    #[test]
    fn a_command_line_names_the_program() {
        let mut command = Command::new("/usr/bin/tcpdump");
        assert_eq!(line(command.args(["-i", "x"])), "tcpdump -i x");
    }
}
