//! `cargo xtask vm`: zero copy without the hardware. Boots a recent kernel in QEMU, with two
//! emulated igb and two virtio_net, and runs tests and measuring programs on them there.

mod initramfs;
mod packages;
mod plan;
mod qemu;
mod report;

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;
use wirelane_testkit::privileged;

use crate::cargo;
use crate::context::{Context, target_directory};
use crate::nextest::AGAIN;
use crate::setup;
use crate::step::{Flaky, Outcome, Step, summarize};
use initramfs::Initramfs;
use packages::{Kernel, Qemu};
use plan::Program;
use report::Report;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A kernel of Debian's backports, e.g. 6.19.14+deb13-amd64, instead of the newest at hand
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Where to keep what the guest's kernel writes to its console
    #[arg(long, value_name = "FILE")]
    keep_log: Option<PathBuf>,
    /// List the programs that the guest runs
    #[arg(long)]
    list: bool,
    /// Run only programs, and tests in them, whose names contain this
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// The whole step takes no longer in the guest, whatever happens there.
const LIMIT: Duration = Duration::from_secs(1800);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.list {
        for program in plan::all() {
            println!("{}", program.name);
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
    in_guest(&Arguments { kernel: None, keep_log: None, list: false, filter: None })
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

/// Runs the programs; those that fail run again, in a guest of their own, as single tests do elsewhere.
fn programs(arguments: &Arguments) -> Result<Outcome, String> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let chosen = |program: &Program| program.name.contains(filter);
    let mut programs: Vec<_> = plan::all().into_iter().filter(chosen).collect();
    if programs.is_empty() {
        return Err(format!("no program of the guest has {filter:?} in its name; see --list"));
    }
    let executables = build()?;
    let run = |programs: &[Program]| attempt(arguments, &executables, programs);
    let mut first = run(&programs)?;
    let mut failed = first.failed.clone();
    for _ in 0..AGAIN {
        if first.outcome.failed == 0 {
            break;
        }
        // Where none of them failed it was the guest itself.
        programs.retain(|program| failed.is_empty() || failed.contains(&program.name));
        println!("\nAgain, in a guest of their own: {} that failed", programs.len());
        let again = run(&programs)?;
        if again.outcome.failed == 0 {
            first.outcome.passed += std::mem::take(&mut first.outcome.failed);
            let name = format!("guest: {}", failed.join(", "));
            first.outcome.flaky.push(Flaky { name, output: std::mem::take(&mut first.said) });
        }
        failed = again.failed;
    }
    Ok(first.outcome)
}

/// How one guest did.
struct Attempt {
    outcome: Outcome,
    /// The programs that failed, by name.
    failed: Vec<String>,
    /// The end of what they said.
    said: String,
}

fn attempt(
    arguments: &Arguments,
    executables: &[Executable],
    programs: &[Program],
) -> Result<Attempt, String> {
    let cache = target_directory().join("vm");
    fs::create_dir_all(&cache)
        .map_err(|error| format!("cannot create {}: {error}", cache.display()))?;
    let qemu = Qemu::get(&cache)?;
    let kernel = Kernel::get(&cache, arguments.kernel.as_deref())?;

    let directory = tempfile::tempdir_in(&cache)
        .map_err(|error| format!("cannot create a directory in {}: {error}", cache.display()))?;
    let archive = directory.path().join("initramfs");
    guest_files(&kernel, executables, programs)?
        .write(&archive)
        .map_err(|error| format!("cannot write {}: {error}", archive.display()))?;

    let console = arguments.keep_log.clone().unwrap_or_else(|| cache.join("console.log"));
    println!("Booting Linux {}; its console: {}", kernel.version, console.display());
    let mut report = Report::default();
    let ending = qemu::boot(&qemu, &kernel, &archive, &console, LIMIT, |line| {
        println!("{line}");
        report.line(line);
    });
    let failed = report.failed(programs);
    let said = report.said(&failed);
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

/// An executable that cargo built, by the name of its target.
struct Executable {
    name: String,
    path: PathBuf,
}

/// Builds what the guest runs; nothing that `cargo xtask test test` has not built already.
fn build() -> Result<Vec<Executable>, String> {
    const BUILDS: [&[&str]; 2] = [
        &["build", "--bins", "-p", "wirelane-cli", "-p", "wirelane-testkit"],
        &["test", "--no-run", "-p", "wirelane", "--test", plan::CONTRACT],
    ];
    let mut executables = Vec::new();
    for arguments in BUILDS {
        let mut command = cargo::stable(arguments);
        command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            return Err("what the guest runs does not build".into());
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        executables.extend(messages.lines().filter_map(executable));
    }
    Ok(executables)
}

/// The executable that a message of cargo is about.
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
    for tool in ["ip", "ethtool", "cat"] {
        let path = setup::find(tool).ok_or_else(|| format!("needs {tool}; see setup"))?;
        files.program(&format!("/bin/{tool}"), &path)?;
    }
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(module)
            .map_err(|error| format!("cannot read {}: {error}", module.display()))?;
        files.file(&format!("/modules/{name}"), &bytes);
    }
    let mut lines = String::new();
    for program in programs {
        for command in std::iter::once(&program.command).chain(&program.beside) {
            if let [name, ..] = command.as_slice() {
                files.program(&plan::path(name), built(name)?)?;
            }
        }
        lines += &program.line();
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
