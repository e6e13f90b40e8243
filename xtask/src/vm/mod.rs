//! `cargo xtask vm`: tests drivers without their hardware, and the kernels that users have. Boots a
//! Debian kernel in QEMU, with two emulated igb and two virtio_net, and runs tests and measuring
//! programs in it.

mod initramfs;
mod packages;
mod plan;
mod qemu;
mod report;

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirelane_testkit::privileged;

use crate::cargo;
use crate::context::{Context, target_directory};
use crate::nextest::AGAIN;
use crate::setup;
use crate::step::{Flaky, Outcome, Step, summarize};
use initramfs::Initramfs;
use packages::{Choice, Kernel, Qemu};
use plan::{Modes, Program};
use qemu::Share;
use report::Report;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run all programs, on this kernel of Debian: 5.10, 6.1, 6.12, newest, or a version of its
    /// backports, e.g. 6.19.14+deb13-amd64 [default: a few programs, on the newest at hand]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<Choice>,
    /// The directory for the console logs of the guests' kernels
    #[arg(long, value_name = "DIR")]
    keep_log: Option<PathBuf>,
    /// List the programs that the guest runs, with a star those that need no --kernel
    #[arg(long)]
    list: bool,
    /// Run only programs whose names contain one of these, also such as need --kernel otherwise
    #[arg(last = true, value_name = "FILTER")]
    filters: Vec<String>,
}

/// The time limit of a guest in the step of `cargo xtask test`.
const LIMIT: Duration = Duration::from_secs(1800);
/// The time limit of a guest with all programs.
const LONG_LIMIT: Duration = Duration::from_secs(5 * 3600);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.list {
        for program in plan::all(Modes::of(|_, _| true)) {
            println!("{} {}", if program.always { '*' } else { ' ' }, program.name);
        }
        return ExitCode::SUCCESS;
    }
    let step = Step { name: "vm", about: ABOUT, run: in_guest };
    if summarize(vec![step.execute(arguments)]) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) const ABOUT: &str = "zero copy on emulated igb and virtio_net, in a guest";

/// The step of `cargo xtask test`.
pub(crate) fn step(context: &Context) -> Outcome {
    if context.quick {
        return Outcome::skip("left out by --quick");
    }
    if let Some(reason) = obstacle() {
        return context.unavailable(1, reason.to_owned());
    }
    in_guest(&Arguments { kernel: None, keep_log: None, list: false, filters: Vec::new() })
}

/// Why this machine cannot run the guest.
fn obstacle() -> Option<&'static str> {
    if ARCH != "x86_64" {
        return Some("the guest's drivers and kernel are for x86-64");
    }
    if !privileged::available() {
        return Some("needs root, for a network namespace with the guest's cables");
    }
    if setup::find("apt-get").is_none() {
        return Some("needs apt, for a kernel out of Debian's packages");
    }
    (!Path::new("/dev/net/tun").exists()).then_some("needs /dev/net/tun")
}

fn in_guest(arguments: &Arguments) -> Outcome {
    if let Some(reason) = obstacle() {
        return Outcome::failure(reason);
    }
    programs(arguments).unwrap_or_else(Outcome::failure)
}

/// Runs the programs. Failed ones are repeated in separate guests, like single tests elsewhere.
fn programs(arguments: &Arguments) -> Result<Outcome, String> {
    let filters = &arguments.filters;
    let is_short = arguments.kernel.is_none() && filters.is_empty();
    let chosen = |program: &Program| match filters.is_empty() {
        true => program.always || !is_short,
        false => filters.iter().any(|filter| program.name.contains(filter)),
    };
    let cache = target_directory().join("vm");
    fs::create_dir_all(&cache)
        .map_err(|error| format!("cannot create {}: {error}", cache.display()))?;
    let kernel = Kernel::get(&cache, arguments.kernel.as_ref().unwrap_or(&Choice::Newest))?;
    let modes = Modes::of(|major, minor| kernel.is_at_least(major, minor));
    let programs: Vec<_> = plan::all(modes).into_iter().filter(chosen).collect();
    if programs.is_empty() {
        return Err(format!(
            "no program of the guest has one of {filters:?} in its name; see --list"
        ));
    }
    let machine =
        Machine { qemu: Qemu::get(&cache)?, kernel, modes, executables: build(&programs)?, cache };
    let limit = if is_short { LIMIT } else { LONG_LIMIT };
    let run = |programs: &[Program]| attempts(arguments, &machine, programs, limit);
    let mut first = run(&programs)?;
    let mut failed = first.failed.clone();
    for _ in 0..AGAIN {
        if first.outcome.failed == 0 {
            break;
        }
        // If no program failed, the guest itself did.
        let of_failed = |program: &Program| {
            let (_, tests) = failed.iter().find(|(name, _)| *name == program.name)?;
            Some(program.again(tests))
        };
        let again: Vec<_> = match failed.is_empty() {
            true => programs.clone(),
            false => programs.iter().filter_map(of_failed).collect(),
        };
        println!("\nAgain, in a guest of their own: {} that failed", again.len());
        let again = run(&again)?;
        if again.outcome.failed == 0 {
            first.outcome.passed += std::mem::take(&mut first.outcome.failed);
            let name = format!("guest: {}", names(&failed).join(", "));
            first.outcome.flaky.push(Flaky { name, output: std::mem::take(&mut first.said) });
        }
        failed = again.failed;
    }
    Ok(first.outcome)
}

/// The results of the guests.
#[derive(Default)]
struct Attempt {
    outcome: Outcome,
    /// The names of failed programs, each with its failed tests.
    failed: Vec<Failed>,
    /// The end of their output.
    said: String,
}

type Failed = (String, Vec<String>);

fn names(failed: &[Failed]) -> Vec<String> {
    failed.iter().map(|(name, _)| name.clone()).collect()
}

/// The parts of a guest.
struct Machine {
    qemu: Qemu,
    kernel: Kernel,
    modes: Modes,
    executables: Vec<Executable>,
    cache: PathBuf,
}

/// Runs the programs of virtio_net in one guest and all others in another, at the same time: each
/// guest waits for half of its time.
fn attempts(
    arguments: &Arguments,
    machine: &Machine,
    programs: &[Program],
    limit: Duration,
) -> Result<Attempt, String> {
    let (virtio, others): (Vec<_>, Vec<_>) =
        programs.iter().cloned().partition(|program| program.name.contains("virtio"));
    let guests = [("igb", others), ("virtio", virtio)];
    let attempts = thread::scope(|scope| {
        let filled = guests.iter().filter(|(_, programs)| !programs.is_empty());
        let running: Vec<_> = filled
            .map(|(name, programs)| {
                scope.spawn(move || attempt(arguments, machine, name, programs, limit))
            })
            .collect();
        let ends = running.into_iter().map(|guest| guest.join());
        ends.map(|end| end.map_err(|_| "a guest's thread panicked")?).collect::<Result<Vec<_>, _>>()
    })?;
    let mut all = Attempt::default();
    for attempt in attempts {
        all.outcome += attempt.outcome;
        all.failed.extend(attempt.failed);
        all.said += &attempt.said;
    }
    Ok(all)
}

/// Runs `programs` in one guest, called `name`.
fn attempt(
    arguments: &Arguments,
    machine: &Machine,
    name: &str,
    programs: &[Program],
    limit: Duration,
) -> Result<Attempt, String> {
    let Machine { qemu, kernel, modes, executables, cache } = machine;
    let directory = tempfile::tempdir_in(cache)
        .map_err(|error| format!("cannot create a directory in {}: {error}", cache.display()))?;
    let archive = directory.path().join("initramfs");
    guest_files(kernel, executables, programs)?
        .write(&archive)
        .map_err(|error| format!("cannot write {}: {error}", archive.display()))?;

    let console = arguments.keep_log.as_ref().unwrap_or(cache).join(format!("console-{name}.log"));
    println!("Booting Linux {} as {name}; its console: {}", kernel.version, console.display());
    let mut report = Report::default();
    let is_at_home = programs.iter().any(|program| program.at_home);
    let share = if is_at_home { Share::Files } else { Share::Nothing };
    let virtio_queues = modes.virtio_queues;
    let guest = qemu::Guest { kernel, initramfs: &archive, share, virtio_queues };
    let ending = qemu::boot(qemu, &guest, &console, limit, |line| {
        println!("{name}: {line}");
        report.line(line);
    });
    let tests = |name: String| (name.clone(), report.failed_tests(&name));
    let failed: Vec<_> = report.failed(programs).into_iter().map(tests).collect();
    let said = report.said(&names(&failed));
    let mut outcome = report.outcome(programs);
    if let Err(reason) = ending {
        outcome += Outcome::failure(reason);
    }
    let log = fs::read(&console).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    for complaint in report::complaints(&log) {
        outcome += Outcome::failure(format!("the guest's kernel: {}", complaint.trim_end()));
    }
    if outcome.failed > 0 {
        show_tail(&log);
        outcome.notes.push(format!("the guest's console: {}", console.display()));
    }
    Ok(Attempt { outcome, failed, said })
}

/// Wirelane's programs: the command, and the program that `wirelane bench` executes.
const PROGRAMS: [&str; 2] = ["wirelane", "wirelane-bench"];

/// An executable built by cargo, with the name of its target.
struct Executable {
    name: String,
    path: PathBuf,
}

/// Builds the programs of the guest. It builds no more than `cargo xtask test test`: both select
/// the whole workspace, because crates of a part of it would have other features, and be built once
/// more.
fn build(programs: &[Program]) -> Result<Vec<Executable>, String> {
    let mut arguments = vec!["build", "--workspace", "--bin", "guest-init"];
    arguments.extend(PROGRAMS.iter().flat_map(|program| ["--bin", program]));
    let is_run = |target: &str| {
        programs.iter().any(|program| program.command.first().is_some_and(|name| name == target))
    };
    let suites = plan::SUITES.into_iter().filter(|suite| is_run(suite));
    // One test target is always built, so that features are those of tests.
    for target in [plan::CONTRACT].into_iter().chain(suites) {
        arguments.extend(["--test", target]);
    }
    let mut command = cargo::stable(&arguments);
    command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("what the guest runs does not build".into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(executable).collect())
}

/// The executable of a message of cargo.
fn executable(message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(Executable {
        name: message.get("target")?.get("name")?.as_str()?.to_owned(),
        path: message.get("executable")?.as_str()?.into(),
    })
}

/// The guest's file system.
fn guest_files(
    kernel: &Kernel,
    executables: &[Executable],
    programs: &[Program],
) -> Result<Initramfs, String> {
    let mut files = Initramfs::default();
    let built = |name: &str| {
        let found = executables.iter().find(|executable| executable.name == name);
        found.map(|executable| &executable.path).ok_or_else(|| format!("cargo built no {name}"))
    };
    files.program("/init", built("guest-init")?)?;
    // The program that `wirelane bench` executes.
    files.program(&plan::path(PROGRAMS[1]), built(PROGRAMS[1])?)?;
    for tool in ["ip", "ethtool", "cat", "chroot"] {
        let path = setup::find(tool).ok_or_else(|| format!("needs {tool}; see setup"))?;
        files.program(&format!("/bin/{tool}"), &path)?;
    }
    let is_at_home = programs.iter().any(|program| program.at_home);
    let more = kernel.more_modules.iter().filter(|_| is_at_home);
    for module in kernel.modules.iter().chain(more) {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(module)
            .map_err(|error| format!("cannot read {}: {error}", module.display()))?;
        files.file(&format!("/modules/{name}"), &bytes);
    }
    let mut lines = String::new();
    for program in programs {
        for command in std::iter::once(&program.command).chain(&program.beside) {
            if let ([name, ..], false) = (command.as_slice(), program.at_home) {
                files.program(&plan::path(name), built(name)?)?;
            }
        }
        let located = |name: &str| built(name).ok().map(|path| path.display().to_string());
        lines += &program.line(located);
    }
    if is_at_home {
        files.directory(plan::HOME);
        let temporary = [PathBuf::from("/tmp"), "/run".into(), target_directory().join("tmp")];
        let lines = temporary.map(|path| format!("{}\n", path.display())).concat();
        files.file("/temporary", lines.as_bytes());
    }
    files.file("/plan", lines.as_bytes());
    Ok(files)
}

fn show_tail(log: &str) {
    let lines: Vec<_> = log.lines().collect();
    println!("--- the end of the guest's console:");
    for line in lines.iter().skip(lines.len().saturating_sub(30)) {
        println!("{}", line.trim_end());
    }
}
