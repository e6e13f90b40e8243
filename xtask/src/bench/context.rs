//! The context of all cases.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use wirelane_bench::job::{Job, SamplingPlan};

use crate::context::root;

/// A part of a suite that runs the command as a process.
pub(super) type Processes = fn(&mut Job<'_>) -> wirelane::Result<()>;

/// The error is the reason, for the user.
pub(super) type Result<T> = std::result::Result<T, String>;

/// The context of all cases.
pub(super) struct Context {
    /// The program that is measured.
    pub(super) wirelane: PathBuf,
    pub(super) quick: bool,
    /// Set by `^C`.
    pub(super) interrupted: Arc<AtomicBool>,
}

impl Context {
    /// How often everything is measured.
    pub(super) fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    /// An error after an interrupt, so that everything is cleaned up on the way out.
    pub(super) fn proceed(&self) -> Result<()> {
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        if interrupted { Err("interrupted".to_owned()) } else { Ok(()) }
    }

    /// The report of `wirelane bench` with these arguments.
    pub(super) fn suite(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.bench(arguments);
        command.args(self.quick.then_some("--quick"));
        parse(&output(&mut command)?)
    }

    /// The report of `wirelane bench sockets` with these cases and small packets. Its `--quick`
    /// would take too few samples, and too short ones.
    pub(super) fn sockets(&self, cases: &[&str]) -> Result<Value> {
        let seconds = if self.quick { "1s" } else { "3s" };
        let mut command = self.bench(&["sockets", "--size", "64", "--seconds", seconds]);
        command.args(["--samples", &self.rounds().to_string()]);
        command.args(cases.iter().flat_map(|case| ["--case", case]));
        parse(&output(&mut command)?)
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.wirelane);
        command.arg("bench").args(arguments).arg("--json");
        command
    }

    /// The report of a part of a suite that runs the command as a process.
    pub(super) fn processes(&self, run: Processes) -> Result<Value> {
        let window = Duration::from_secs(if self.quick { 1 } else { 5 });
        let plan = SamplingPlan { samples: self.rounds(), window, limit: None };
        let mut report = wirelane_bench::report::BenchReport::new(command_line());
        let mut tell = |round: u32, what: &str| println!("round {round}: {what}");
        let job = Job::new("capture", plan, &mut report, &self.interrupted, &mut tell);
        run(&mut job.of_command(&self.wirelane)).map_err(|error| error.to_string())?;
        self.proceed()?;
        report.finish();
        serde_json::to_value(&report).map_err(|error| error.to_string())
    }
}

/// The target directory of cargo.
pub(super) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}

/// The standard output of a command, if it succeeds.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run {shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown} failed, {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn parse(report: &str) -> Result<Value> {
    serde_json::from_str(report).map_err(|error| format!("wirelane gave no report: {error}"))
}

/// The command line of the user.
pub(super) fn command_line() -> String {
    let arguments: Vec<_> = env::args().skip(1).collect();
    format!("cargo xtask {}", arguments.join(" "))
}
