//! `cargo xtask bench`: figures of the release build, compared with other programs and with their
//! targets.
//!
//! `wirelane-bench` measures. A case is a suite of `wirelane bench`, or a part of one that runs the
//! command as a process.

mod context;
mod report;
mod slowed;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wirelane_bench::suites::capture::{cost, write};

use self::context::{Context, Processes, Result, target};
use self::report::Report;
use crate::cargo;

/// A case: its name, its description and its measurement.
struct Case {
    name: &'static str,
    about: &'static str,
    how: How,
}

/// The kind of measurement.
enum How {
    /// By `wirelane bench` with these arguments.
    Suite(&'static [&'static str]),
    /// By `wirelane bench sockets` with these cases, once for all cases with the same list.
    Sockets(&'static [&'static str]),
    /// By a part of a suite, which runs the command and others in turns.
    Processes(Processes),
    /// By a function that adds no rows.
    Alone(fn(&Context) -> Result<()>),
}

const CAPTURE: [Case; 3] = [
    Case {
        name: "cpu",
        about: "CPU time per packet, beside other programs",
        how: How::Processes(cost::cost),
    },
    Case {
        name: "scaling",
        about: "two queues on two threads beside one, and two dd beside one",
        how: How::Suite(&["scaling", "--case", "rx", "--case", "capture"]),
    },
    Case {
        name: "write",
        about: "writing to memory, beside dd",
        how: How::Processes(|job| write::write(job, None)),
    },
];

const SOCKETS: [Case; 6] = [
    Case {
        name: "rxdrop",
        about: "receiving all that can be sent",
        how: How::Sockets(&["rxdrop"]),
    },
    Case {
        name: "noloss",
        about: "what is lost at which rate",
        how: How::Sockets(&["rxdrop-paced"]),
    },
    Case {
        name: "idle",
        about: "CPU time of receiving 0.5 Mpps",
        how: How::Sockets(&["rxdrop-paced"]),
    },
    Case {
        name: "txpush",
        about: "sending, from a program and from inside the kernel",
        how: How::Sockets(&["txpush", "xdp-drop"]),
    },
    Case {
        name: "l2fwd",
        about: "swapping addresses and sending back",
        how: How::Sockets(&["l2fwd"]),
    },
    Case {
        name: "macswap",
        about: "the same in the process, without an interface",
        how: How::Sockets(&["l2fwd"]),
    },
];

const COMPARE: [Case; 1] = [Case {
    name: "slowed",
    about: "a lock in the hot path is noticed, and nothing else is",
    how: How::Alone(slowed::run_case),
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
    #[arg(value_name = "CASE", value_parser = SOCKETS.map(|case| case.name))]
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
    /// Measure this program instead of building one; `wirelane-bench` lies beside it
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.suite {
        Suite::Capture(of) => measure(&CAPTURE, &of.cases, &of.options),
        Suite::Sockets(of) => measure(&SOCKETS, &of.cases, &of.options),
        Suite::Compare(options) => measure(&COMPARE, &[], options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(cases: &[Case], named: &[String], arguments: &Options) -> Result<()> {
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
    let mut report = Report::default();
    let mut done = Vec::new();
    for case in cases.iter().filter(chosen) {
        println!("\n=== {}: {}", case.name, case.about);
        context.proceed()?;
        match case.how {
            How::Suite(arguments) => report.add(context.suite(arguments)?),
            How::Sockets(cases) if done.contains(&cases) => println!("measured above"),
            How::Sockets(cases) => {
                done.push(cases);
                report.add(context.sockets(cases)?);
            }
            How::Processes(run) => report.add(context.processes(run)?),
            How::Alone(run) => run(&context)?,
        }
    }
    // The suite `compare` adds no rows: it prints its findings.
    report.print();
    match &arguments.json {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

/// Builds the release programs, and returns the path of the command.
fn build() -> Result<PathBuf> {
    let arguments = ["build", "--release", "-p", "wirelane-cli", "-p", "wirelane-bench"];
    if !cargo::succeeds(&mut cargo::stable(&arguments)) {
        return Err("wirelane does not build".to_owned());
    }
    Ok(target().join("release/wirelane"))
}
