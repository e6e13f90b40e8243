//! `cargo xtask test`: all checks that a change must pass.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::aarch64;
use crate::api;
use crate::background::{self, Background, Share};
use crate::cargo;
use crate::context::Context;
use crate::deny;
use crate::features;
use crate::first_build;
use crate::fuzz;
use crate::nextest;
use crate::portable;
use crate::rustdoc;
use crate::semver;
use crate::setup;
use crate::step::{Done, Outcome, Step, summarize};
use crate::vm;

const STEPS: [Step<Context>; 17] = [
    Step { name: "setup", about: "find or install what the tests need", run: setup::run },
    Step { name: "fmt", about: "formatting", run: format },
    Step { name: "clippy", about: "lints, warnings denied", run: clippy },
    Step { name: "doc", about: "documentation, warnings denied", run: document },
    Step { name: "api", about: "the public items of the library crates", run: api::run },
    Step { name: "semver", about: "compatible with the last release", run: semver::run },
    Step { name: "deny", about: "advisories on dependencies", run: deny::run },
    Step { name: "test", about: "unit, integration and privileged tests; examples", run: tests },
    Step { name: "aarch64", about: "machine code of filters, emulated", run: aarch64::run },
    Step { name: "portable", about: portable::ABOUT, run: portable::run },
    Step { name: "features", about: features::ABOUT, run: features::run },
    Step { name: "vm", about: vm::ABOUT, run: vm::step },
    Step { name: "build", about: "how long the first build takes", run: first_build::run },
    Step { name: "loom", about: "all interleavings of what threads share", run: loom },
    Step { name: "miri", about: "undefined behaviour in what Miri can run", run: miri },
    Step { name: "tsan", about: "data races, by ThreadSanitizer", run: thread_sanitizer },
    Step { name: "fuzz", about: "every fuzz target for some seconds", run: fuzz::run },
];

/// The steps that run only when they are named.
const ON_REQUEST: [&str; 1] = ["semver"];

/// The steps that need only the pinned toolchain: in a whole run, `setup` runs at the same time.
const BEFORE_SETUP: [&str; 5] = ["fmt", "clippy", "doc", "api", "deny"];

/// The steps that send no packets. In a whole run, two background processes run them, because each
/// step uses one thread for much of its time. `build` also judges its CPU time, so other load does
/// not matter.
const BACKGROUND: [&[&str]; 2] =
    [&["build", "loom", "miri"], &["aarch64", "portable", "features", "tsan", "fuzz"]];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The steps to run, in their usual order; all of them but `semver` when none is named
    #[arg(value_name = "STEP", value_parser = STEPS.map(|step| step.name))]
    steps: Vec<String>,
    /// Shorter: fewer interleavings, 3 s per fuzz target, no ThreadSanitizer, no guest, no aarch64,
    /// no first build
    #[arg(long)]
    quick: bool,
    /// List the steps
    #[arg(long)]
    list: bool,
    /// What cannot run is a failure, as with CI=true in the environment
    #[arg(long)]
    ci: bool,
    /// Take the public items as they are now for right: write each crate's `api.txt`
    #[arg(long)]
    bless: bool,
    /// Fuzz each target for so long, with inputs that differ from run to run [default: 8 s, the
    /// same inputs]
    #[arg(long, value_name = "SECONDS")]
    fuzz_seconds: Option<u32>,
    /// Where to write how the steps went, as JSON
    #[arg(long, value_name = "FILE", hide = true)]
    report: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.list {
        for step in &STEPS {
            println!("{:<7} {}", step.name, step.about);
        }
        return ExitCode::SUCCESS;
    }
    let mut context = Context::new(arguments.quick, arguments.ci, arguments.fuzz_seconds);
    context.bless = arguments.bless;
    let chosen = |step: &&Step<Context>| {
        let is_usual = arguments.steps.is_empty() && !ON_REQUEST.contains(&step.name);
        is_usual || arguments.steps.iter().any(|name| name == step.name)
    };
    let steps: Vec<_> = STEPS.iter().filter(chosen).collect();
    let done = run_steps(&steps, &context);
    let passes = match &arguments.report {
        None => summarize(done),
        Some(path) => write_report(path, &done).inspect_err(|error| println!("{error}")).is_ok(),
    };
    if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A failed step does not stop the run: one run shows all problems.
fn run_steps(steps: &[&Step<Context>], context: &Context) -> Vec<Done> {
    let mut rest = steps.to_vec();
    let mut take = |names: &[&str]| -> Vec<_> {
        rest.extract_if(.., |step| names.contains(&step.name)).collect()
    };
    let (setup, early) = (take(&["setup"]), take(&BEFORE_SETUP));
    let computing = BACKGROUND.map(take);
    let mut done = beside(context, &[setup], Share::Fair, &early);
    done.extend(beside(context, &computing, Share::Idle, &rest));
    done
}

/// Runs the steps of `front`, and in the background the steps of `behind`: each list in a separate
/// process.
fn beside(
    context: &Context,
    behind: &[Vec<&Step<Context>>],
    share: Share,
    front: &[&Step<Context>],
) -> Vec<Done> {
    let execute = |step: &&Step<Context>| step.execute(context);
    if front.is_empty() {
        return behind.iter().flatten().map(execute).collect();
    }
    let start = |steps: &Vec<&Step<Context>>| {
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        Background::start(context, &names, share)
    };
    let running: Vec<_> = behind.iter().filter(|steps| !steps.is_empty()).map(start).collect();
    let mut done: Vec<Done> = front.iter().map(execute).collect();
    for background in running {
        let background = background.map_err(|error| format!("cannot start: {error}"));
        done.extend(background.and_then(Background::finish).unwrap_or_else(background::failure));
    }
    done
}

fn write_report(path: &Path, done: &[Done]) -> Result<(), String> {
    let written = serde_json::to_vec(done).map_err(std::io::Error::from);
    let written = written.and_then(|report| fs::write(path, report));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn format(_context: &Context) -> Outcome {
    let mut outcome =
        Outcome::single(cargo::succeeds(&mut cargo::stable(&["fmt", "--check", "--all"])));
    let mut fuzz = cargo::stable(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]);
    outcome += Outcome::single(cargo::succeeds(&mut fuzz));
    outcome
}

/// All crates except the largest program: checking its dependencies would take more than two
/// minutes. After changes to it, run `cargo clippy -p wirelane-query --all-targets`.
fn clippy(_context: &Context) -> Outcome {
    let mut command = cargo::stable(&["clippy", "--workspace", "--exclude", "wirelane-query"]);
    Outcome::single(cargo::succeeds(command.args(["--all-targets", "--", "-D", "warnings"])))
}

fn document(context: &Context) -> Outcome {
    Outcome::single(rustdoc::of_all(context))
}

fn tests(context: &Context) -> Outcome {
    let logs = context.target("test-logs");
    let (privileged_log, skip_log) = (logs.join("privileged"), logs.join("skipped"));
    if let Err(error) = fresh_logs(&logs, &[&privileged_log, &skip_log]) {
        return Outcome::failure(format!("cannot write to {}: {error}", logs.display()));
    }

    let demanded = context.ci || context.privileged;
    let environment = |command: &mut Command| {
        command.env("WIRELANE_PRIVILEGED_LOG", &privileged_log).env("WIRELANE_SKIP_LOG", &skip_log);
        if demanded {
            command.env("WIRELANE_REQUIRE_PRIVILEGED", "1");
        }
        if context.ci {
            command.env("WIRELANE_REQUIRE_TOOLS", "1");
        }
    };
    let report = nextest::run(context, environment);

    let lines = |path| fs::read_to_string(path).unwrap_or_default();
    let (ran, skipped) = (lines(&privileged_log), lines(&skip_log));
    let (count, missing) = unlogged(report.privileged(), &ran);
    let mut outcome = report.outcome(skipped.lines().count());
    outcome.notes.extend(skipped.lines().map(|name| format!("skipped: {name}")));
    let ignored = nextest::ignored();
    outcome.skipped += ignored;
    outcome.notes.push(format!("{ignored} tests run only when they are asked for"));
    if demanded {
        outcome.notes.push(format!("{count} privileged tests ran"));
        if count == 0 {
            outcome += Outcome::failure("no privileged test ran");
        }
        if !missing.is_empty() {
            let names = missing.join(" ");
            outcome += Outcome::failure(format!("privileged tests did not run: {names}"));
        }
    }
    let mut examples = cargo::stable(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    let (succeeded, report) = cargo::tests(&mut examples);
    outcome += report.outcome(succeeded);
    outcome
}

/// The number of these tests, and the tests that are missing in `log`, which has one line per test
/// that ran.
fn unlogged<'a>(names: impl Iterator<Item = &'a str>, log: &str) -> (usize, Vec<String>) {
    let ran: HashSet<&str> = log.lines().collect();
    let names: Vec<&str> = names.collect();
    let missing = names.iter().filter(|name| !ran.contains(*name));
    (names.len(), missing.map(|name| (*name).to_owned()).collect())
}

/// Leaves out dev-dependencies that checks of concurrency do not need. Some depend on the library,
/// which would be built twice.
const LEAN: &str = "--cfg concurrency_only";

fn loom(context: &Context) -> Outcome {
    let arguments = ["test", "--release", "-p", "wirelane", "--no-default-features", "--lib"];
    let mut command = cargo::stable(&arguments);
    command
        .arg("loom_")
        .env("RUSTFLAGS", format!("--cfg loom {LEAN} -Cdebug-assertions"))
        .env("CARGO_TARGET_DIR", context.target("loom"))
        // The time is for the models; optimising the crate as a whole would take too much of it.
        .args(["--config", "profile.release.package.wirelane.codegen-units=16"]);
    if context.quick {
        command.env("LOOM_MAX_PREEMPTIONS", "2");
    }
    let (succeeded, report) = cargo::tests(&mut command);
    report.outcome(succeeded)
}

/// Miri runs crates and modules with unsafe code or in support of it. `wirelane-wire` forbids
/// unsafe code.
fn miri(context: &Context) -> Outcome {
    if let Some(outcome) = setup::without_nightly(context, "miri") {
        return outcome;
    }
    /// The modules of the library that make no system calls and take less than minutes.
    const MODULES: [&str; 7] = [
        "ring::",
        "pool::",
        "frame::",
        "mask::",
        "qdisc::stop_wake",
        "qdisc::run",
        "qdisc::small_queue",
    ];
    let mut outcome = Outcome::default();
    let files = ["miri", "test", "-p", "wirelane-pcap", "--lib", "--"];
    let disk = ["miri", "test", "-p", "wirelane-store", "--lib", "--"];
    let library = ["miri", "test", "-p", "wirelane", "--lib", "--"];
    let handles = ["miri", "test", "-p", "wirelane-capi", "--lib", "--"];
    let runs = [
        (&files[..], &["pcapng::"][..]),
        (&disk[..], &["disk::buffers"][..]),
        (&library[..], &MODULES[..]),
        (&handles[..], &["table::"][..]),
    ];
    for (arguments, filter) in runs {
        let mut command = cargo::nightly(arguments);
        command
            .args(filter)
            .env("CARGO_TARGET_DIR", context.target("miri"))
            .env("RUSTFLAGS", LEAN)
            // Property tests look for a file of old failures, and take seconds per case.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-strict-provenance")
            .env("PROPTEST_CASES", "2");
        let (succeeded, report) = cargo::tests(&mut command);
        outcome += report.outcome(succeeded);
    }
    outcome
}

fn thread_sanitizer(context: &Context) -> Outcome {
    if context.quick {
        return Outcome::skip("left out by --quick");
    }
    if let Some(outcome) = setup::without_nightly(context, "rust-src") {
        return outcome;
    }
    let Some(host) = cargo::host() else {
        return Outcome::failure("rustc does not say what machine this is");
    };
    let mut command = sanitized(context, "test", &host);
    // Property tests with a single thread show no race.
    command.args(["--", "ring::", "pool::", "qdisc::", "table::"]).env("PROPTEST_CASES", "16");
    let (succeeded, report) = cargo::tests(&mut command);
    let mut outcome = report.outcome(succeeded);
    outcome += sanitized_drop_in(context, &host);
    outcome
}

/// A command of cargo for the crates that ThreadSanitizer checks. It always selects the same
/// packages, so that each is built once: with a test of the libpcap drop-in, its crates get the
/// features that the unit tests need.
fn sanitized(context: &Context, command: &str, host: &str) -> Command {
    // The standard library is built again, because an uninstrumented one would hide its
    // synchronisation. Panics need no backtrace.
    let standard = ["-Zbuild-std", "-Zbuild-std-features=panic-unwind", "--target", host];
    let mut command = cargo::nightly(&[command]);
    command
        .args(standard)
        .args(["-p", "wirelane", "-p", "wirelane-capi", "-p", "wirelane-libpcap"])
        .args(["--lib", "--test", "symbols"])
        .env("RUSTFLAGS", format!("-Zsanitizer=thread {LEAN}"))
        .env("CARGO_TARGET_DIR", context.target("tsan"));
    command
}

/// Threads that use the libpcap drop-in: C programs, for which the library gets its name here.
fn sanitized_drop_in(context: &Context, host: &str) -> Outcome {
    let target = context.target("tsan");
    let mut build = sanitized(context, "build", host);
    let mut sysroot = Command::new("rustc");
    sysroot.args(["+nightly", "--print", "sysroot"]);
    let Some(sysroot) = cargo::output(&mut sysroot) else {
        return Outcome::failure("rustc +nightly does not say where it is");
    };
    if !cargo::succeeds(&mut build) {
        return Outcome::failure("the libpcap drop-in cannot be built for ThreadSanitizer");
    }
    let library = target.join(host).join("debug/libwirelane_libpcap.so");
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("lib");
    // The same selection as in the step `test`: another one has other features, and replaces the
    // library while its tests use it.
    let mut command = cargo::stable(&["test", "--workspace", "--test", "conform"]);
    command
        .args(["--", "--ignored", "thread_sanitizer"])
        .env("WIRELANE_TSAN_LIBRARY", library)
        .env("WIRELANE_TSAN_RUNTIME", libraries.join("librustc-nightly_rt.tsan.a"));
    let (succeeded, report) = cargo::tests(&mut command);
    report.outcome(succeeded)
}

fn fresh_logs(directory: &Path, logs: &[&Path]) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for log in logs {
        fs::write(log, "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unlogged;

    #[test]
    fn tests_that_need_privileges_must_be_in_the_log() {
        let names = ["a::privileged_one", "privileged_two"];
        assert_eq!(
            unlogged(names.into_iter(), "privileged_two\n"),
            (2, vec!["a::privileged_one".to_owned()])
        );
        let log = "privileged_two\na::privileged_one\nprivileged_two\n";
        assert_eq!(unlogged(names.into_iter(), log), (2, vec![]));
    }
}
