//! Runs steps in the background, in a separate process.
//!
//! A step that only computes gets the CPU time that other steps leave. Tests with traffic wait for
//! much of their time, and are not disturbed: the kernel runs a process with the policy
//! `SCHED_IDLE` only while no other process wants the CPU (sched(7)).

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};

use wirelane_os::child::end_with_thread;

use crate::context::Context;
use crate::setup;
use crate::step::{Done, Outcome};

/// The CPU time that a background gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// As much as any other process.
    Fair,
    /// The CPU time that other processes leave.
    Idle,
}

/// A background process.
pub(crate) struct Background {
    names: String,
    child: Child,
    log: PathBuf,
    report: PathBuf,
}

impl Background {
    /// Starts the steps `names`. Call it from the thread that finishes it: they end with it.
    pub(crate) fn start(context: &Context, names: &[&str], share: Share) -> io::Result<Self> {
        let directory = context.target("background").join(names.join("-"));
        fs::create_dir_all(&directory)?;
        let (log, report) = (directory.join("log"), directory.join("report.json"));
        // Removes the report of an earlier run.
        if report.exists() {
            fs::remove_file(&report)?;
        }
        let output = File::create(&log)?;
        let program = std::env::current_exe()?;
        let mut command = match setup::find("chrt").filter(|_| share == Share::Idle) {
            Some(chrt) => {
                let mut command = Command::new(chrt);
                command.args(["--idle", "0"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("test").args(names).arg("--report").arg(&report);
        if let Some(seconds) = context.fuzz_seconds {
            command.args(["--fuzz-seconds", &seconds.to_string()]);
        }
        command.args(context.quick.then_some("--quick")).args(context.ci.then_some("--ci"));
        command.stdin(std::process::Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let names = names.join(", ");
        println!("\n=== in the background: {names} (to {})", log.display());
        let child = end_with_thread(&mut command).spawn()?;
        Ok(Self { names, child, log, report })
    }

    /// Waits for the end, prints the log, and returns the results of the steps.
    pub(crate) fn finish(mut self) -> Result<Vec<Done>, String> {
        println!("\n=== waiting for what runs in the background: {}", self.names);
        let status = self.child.wait().map_err(|error| format!("cannot wait for it: {error}"))?;
        let log = fs::read(&self.log).unwrap_or_default();
        println!("{}", String::from_utf8_lossy(&log));
        let report =
            fs::read(&self.report).map_err(|error| format!("it ended, {status}: {error}"))?;
        serde_json::from_slice(&report).map_err(|error| format!("its report: {error}"))
    }
}

/// The result of a background process that failed as a whole.
pub(crate) fn failure(reason: String) -> Vec<Done> {
    vec![Done::new("background", Outcome::failure(reason))]
}
