//! `wirelane bench compare` detects a lock in the hot path, without false alarms: compares the
//! program with itself, and with a build that takes a lock for every packet that a simulated
//! interface receives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use wirelane_os::affinity;

use super::context::{Context, Result, output, target};
use crate::cargo;

pub(super) fn run_case(context: &Context) -> Result<()> {
    let slowed = build()?;
    let bench = context.wirelane.with_file_name("wirelane-bench");
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    let programs = [("old", &bench), ("same", &bench), ("slowed", &slowed)];
    for (name, _) in programs {
        let path = folder.path().join(name);
        fs::create_dir(&path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    }
    // In turns, so that a slow minute hits all three.
    for round in 0..context.rounds() {
        for turn in 0..programs.len() {
            context.proceed()?;
            let (name, program) = programs[(round + turn) % programs.len()];
            let report = measure(program)?;
            let path = folder.path().join(name).join(format!("{round}.json"));
            fs::write(&path, report)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    let compare = |new: &str| {
        let (old, new) = (folder.path().join("old"), folder.path().join(new));
        let mut command = Command::new(&bench);
        let output = command.arg("compare").arg(&old).arg(&new).output();
        let output = output.map_err(|error| format!("cannot run wirelane-bench: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok::<_, String>((output.status.code(), said))
    };
    let (same, said) = compare("same")?;
    println!("the program beside itself:\n{said}");
    if same != Some(0) {
        return Err("the program was found worse than itself".to_owned());
    }
    let (worse, said) = compare("slowed")?;
    println!("the program with a lock beside the one without:\n{said}");
    match worse {
        Some(1) => Ok(()),
        _ => Err("a lock for every packet was not found to be a regression".to_owned()),
    }
}

/// A report of receiving from a simulated interface.
fn measure(program: &Path) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["sockets", "--port", "sim:1", "--case", "rxdrop", "--case", "l2fwd"]);
    command.args(["--size", "64", "--samples", "5", "--seconds", "200ms", "--json"]);
    // The program inherits the CPUs of the thread that starts it.
    let on_two_cpus = || {
        let cpus = affinity::allowed_cpus().map_err(|error| error.to_string())?;
        let two: [u32; 2] = cpus.first_chunk().copied().ok_or("needs two CPUs")?;
        affinity::pin_to(&two).map_err(|error| format!("cannot pin to CPUs {two:?}: {error}"))?;
        output(&mut command)
    };
    let outcome = thread::scope(|scope| scope.spawn(on_two_cpus).join());
    outcome.unwrap_or_else(|_| Err("the measurement did not come to its end".to_owned()))
}

/// Builds the slowed program next to the usual one, and returns its path.
fn build() -> Result<PathBuf> {
    let folder = target().join("slowed");
    let mut command = cargo::stable(&["build", "--release", "-p", "wirelane-bench"]);
    command.args(["--features", "slowed", "--target-dir"]).arg(&folder);
    if !cargo::succeeds(&mut command) {
        return Err("the slowed wirelane does not build".to_owned());
    }
    Ok(folder.join("release/wirelane-bench"))
}
