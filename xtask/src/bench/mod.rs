//! `cargo xtask bench`: figures of the release build, beside those of other programs.
//!
//! What is compared is measured in the same run, in turns, several times: a figure is the median
//! of its samples, and a ratio is taken within a round before the median. Everything a run makes
//! lives in network namespaces and directories that go with it, also on `^C`.

mod cpu;
mod load;
mod process;
mod report;
mod scaling;
mod slowed;
mod sockets;
mod write;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::report::Report;
use crate::cargo;
use crate::context::root;

/// One thing that a suite measures.
struct Case {
    name: &'static str,
    about: &'static str,
    run: fn(&Context, &mut Report) -> Result<()>,
}

const CAPTURE: [Case; 3] = [
    Case { name: "cpu", about: "CPU time per packet, beside other programs", run: cpu::run },
    Case { name: "scaling", about: "two queues on two threads, beside one", run: scaling::run },
    Case { name: "write", about: "writing to memory, beside dd", run: write::run },
];

const COMPARE: [Case; 1] = [Case {
    name: "slowed",
    about: "a lock in the hot path is noticed, and nothing else is",
    run: slowed::run_case,
}];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(clap::Subcommand)]
enum Suite {
    /// Capturing: CPU time per packet, scaling with queues, writing
    Capture(Capture),
    /// AF_XDP: receiving, sending, forwarding, beside dpdk-testpmd
    Sockets(Sockets),
    /// `bench compare`: the program beside itself, and beside one with a lock in its hot path
    Compare(Options),
}

#[derive(clap::Args)]
struct Capture {
    /// The cases to measure; all of them when none is named
    #[arg(value_name = "CASE", value_parser = CAPTURE.map(|case| case.name))]
    cases: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct Sockets {
    /// The cases to measure; all of them when none is named
    #[arg(value_name = "CASE", value_parser = sockets::CASES.map(|case| case.name))]
    cases: Vec<String>,
    #[command(flatten)]
    options: Options,
}

/// What all suites take.
#[derive(clap::Args)]
struct Options {
    /// Fewer and shorter runs
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file (schema wirelane.bench/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
}

/// Why there is no figure, for the reader.
type Result<T> = std::result::Result<T, String>;

/// What the cases share.
struct Context {
    /// The program that is measured.
    wirelane: PathBuf,
    quick: bool,
    /// Set by `^C`.
    interrupted: Arc<AtomicBool>,
}

impl Context {
    /// How often everything is measured.
    fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    /// How long a program is under load.
    fn load(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 3 })
    }

    /// An error once the user has had enough, so that everything is cleaned up on the way out.
    fn proceed(&self) -> Result<()> {
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        if interrupted { Err("interrupted".to_owned()) } else { Ok(()) }
    }
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.suite {
        Suite::Capture(of) => measure("capture", &CAPTURE, &of.cases, &of.options),
        Suite::Sockets(of) => measure("sockets", &sockets::CASES, &of.cases, &of.options),
        Suite::Compare(options) => measure("compare", &COMPARE, &[], options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(
    suite: &'static str,
    cases: &[Case],
    named: &[String],
    arguments: &Options,
) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    let wirelane = match &arguments.binary {
        // The program is started from other directories.
        Some(path) => fs::canonicalize(path)
            .map_err(|error| format!("cannot find {}: {error}", path.display()))?,
        None => build()?,
    };
    let context = Context { wirelane, quick: arguments.quick, interrupted };
    let chosen = |case: &&Case| named.is_empty() || named.iter().any(|name| name == case.name);
    let mut report = Report::new(suite);
    for case in cases.iter().filter(chosen) {
        println!("\n=== {}: {}", case.name, case.about);
        (case.run)(&context, &mut report).map_err(|error| format!("{}: {error}", case.name))?;
    }
    // Comparing adds none: it prints what it finds.
    if !report.is_empty() {
        report.print();
    }
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

/// Builds the release program, and returns its path.
fn build() -> Result<PathBuf> {
    if !cargo::succeeds(&mut cargo::stable(&["build", "--release", "-p", "wirelane-cli"])) {
        return Err("wirelane does not build".to_owned());
    }
    Ok(target().join("release/wirelane"))
}

/// Where cargo builds.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}
