//! Shows and runs commands, and counts the results of tests.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::libtest::Report;

/// A `cargo` command at the root of the workspace, of the stable toolchain that it pins.
pub(crate) fn stable(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments);
    in_workspace(&mut command);
    command
}

/// A `cargo` command of the nightly toolchain: Miri and the sanitizers exist only there.
pub(crate) fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments);
    in_workspace(&mut command);
    command
}

/// Shows and runs `command`, and returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    show(command);
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot run it: {error}");
            false
        }
    }
}

/// As [`succeeds`]; the error names the program.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    if succeeds(command) { Ok(()) } else { Err(format!("{program} failed, see above")) }
}

/// Shows and runs `command`, which runs tests. Returns whether it succeeded, and the test results.
pub(crate) fn tests(command: &mut Command) -> (bool, Report) {
    show(command);
    let mut report = Report::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot run it: {error}");
            return (false, report);
        }
    };
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        // Bytes instead of text: a test may print anything.
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            report.line(text.trim_end());
            line.clear();
        }
    }
    (child.wait().is_ok_and(|status| status.success()), report)
}

/// The standard output of `command` when it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The target triple of this machine.
pub(crate) fn host() -> Option<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    version.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

fn in_workspace(command: &mut Command) {
    command.current_dir(crate::context::root());
    // Set by the `cargo` and `rustup` that started this program; the new command chooses its
    // toolchain.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTFLAGS");
}

/// Prints the command line.
pub(crate) fn show(command: &Command) {
    let mut line = String::from("$");
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!(" {}={:?}", name.display(), value);
        }
    }
    line += &format!(" {}", command.get_program().display());
    for argument in command.get_args() {
        line += &format!(" {}", argument.display());
    }
    println!("{line}");
}
