//! Running the programs that are measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use wirelane_os::{affinity, child, clock};

use super::{Context, Result};

/// What a program that ran to its end took and said.
pub(super) struct Run {
    /// From its start to its end.
    pub(super) elapsed: Duration,
    pub(super) stdout: String,
}

/// Runs `command` on these CPUs alone, to its end.
pub(super) fn run(mut command: Command, cpus: &[u32]) -> Result<Run> {
    let shown = show(&command);
    let (started, output, ended) = on_cpus(cpus, || {
        let started = clock::monotonic_ns();
        let output = child::default_signals(&mut command).stdin(Stdio::null()).output();
        (started, output, clock::monotonic_ns())
    })?;
    let output = output.map_err(|error| format!("cannot run {shown}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shown} failed, {}: {}", output.status, said.trim()));
    }
    Ok(Run {
        elapsed: Duration::from_nanos(ended - started),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// What `wirelane capture --json` says at its end.
pub(super) struct Summary(Value);

impl Summary {
    pub(super) fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map(Self)
            .map_err(|error| format!("wirelane gave no summary: {error}"))
    }

    /// A number of the totals.
    pub(super) fn total(&self, key: &str) -> Result<u64> {
        let value = self.0["totals"][key].as_u64();
        value.ok_or_else(|| format!("wirelane's summary does not tell totals.{key}"))
    }

    /// Packets of each queue that had some.
    pub(super) fn queues(&self) -> Vec<u64> {
        let queues = self.0["queues"].as_array().into_iter().flatten();
        queues.filter_map(|queue| queue["packets"].as_u64()).filter(|count| *count > 0).collect()
    }

    /// Seconds from the start of the threads to the end of the last one.
    pub(super) fn elapsed(&self) -> Result<f64> {
        let elapsed = self.0["elapsed_s"].as_f64().filter(|seconds| *seconds > 0.0);
        elapsed.ok_or_else(|| "wirelane's summary does not tell elapsed_s".to_owned())
    }
}

/// Runs `wirelane capture` with `arguments` on these CPUs alone, to its end.
pub(super) fn capture(
    context: &Context,
    arguments: &[&str],
    cpus: &[u32],
) -> Result<(Run, Summary)> {
    context.proceed()?;
    let mut command = Command::new(&context.wirelane);
    command.arg("capture").args(arguments).args(["--quiet", "--json"]);
    let run = run(command, cpus)?;
    let summary = Summary::parse(&run.stdout)?;
    Ok((run, summary))
}

/// `dd`, about to write zeroes to a new file as fast as it can.
pub(super) fn dd(program: &Path, bytes: u64, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["if=/dev/zero", "bs=1M", "iflag=count_bytes", "status=none"]);
    command.arg(format!("count={bytes}")).arg(format!("of={}", text(file)));
    command
}

/// Calls `action` on a thread that runs on these CPUs alone, as what it starts does.
pub(super) fn on_cpus<T: Send>(cpus: &[u32], action: impl FnOnce() -> T + Send) -> Result<T> {
    let thread = || {
        affinity::pin_to(cpus).map_err(|error| format!("cannot pin to CPUs {cpus:?}: {error}"))?;
        Ok(action())
    };
    let result = thread::scope(|scope| scope.spawn(thread).join());
    // What failed inside has printed its message already.
    result.unwrap_or_else(|_| Err("the measurement did not come to its end".to_owned()))
}

/// The first two CPUs that this process may use.
pub(super) fn two_cpus() -> Result<[u32; 2]> {
    let cpus = affinity::allowed_cpus().map_err(|error| error.to_string())?;
    cpus.first_chunk().copied().ok_or_else(|| "needs two CPUs".to_owned())
}

/// A directory in memory, which goes with its files when dropped.
pub(super) struct Scratch(TempDir);

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        TempDir::with_prefix_in("wirelane-bench-", "/dev/shm")
            .map(Self)
            .map_err(|error| format!("cannot make a directory in /dev/shm: {error}"))
    }

    /// A file in it, which need not exist.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Removes all files in it, and returns how many bytes they had.
    pub(super) fn clear(&self) -> Result<u64> {
        let failed = |error| format!("cannot clear {}: {error}", self.0.path().display());
        let mut bytes = 0;
        for entry in fs::read_dir(self.0.path()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            bytes += entry.metadata().map_err(failed)?.len();
            fs::remove_file(entry.path()).map_err(failed)?;
        }
        Ok(bytes)
    }
}

/// `path` as an argument; ours are all ASCII.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn show(command: &Command) -> String {
    let words = command.get_args().map(|word| format!(" {}", word.display()));
    format!("{}{}", command.get_program().display(), words.collect::<String>())
}
