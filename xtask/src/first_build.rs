//! The first build of the command, without a cache, which users wait for when they install it.

use std::fs;
use std::time::Instant;

use wirelane_os::clock;

use crate::cargo;
use crate::context::Context;
use crate::step::Outcome;

/// The most seconds on two idle CPUs.
const MOST: f64 = 120.0;

/// CPUs that the build keeps busy on a machine with two: it took 310 s of CPU time in 181 s.
const BUSY: f64 = 1.7;

/// Builds it in a separate directory, and then removes the directory.
pub(crate) fn run(context: &Context) -> Outcome {
    if context.quick {
        return Outcome::skip("--quick makes no first build");
    }
    let folder = context.target("first-build");
    // Left by a killed run.
    let _ = fs::remove_dir_all(&folder);
    let arguments = ["build", "--release", "--locked", "-p", "wirelane-cli", "--target-dir"];
    let mut command = cargo::stable(&arguments);
    // Settings that change the build or its time.
    command.arg(&folder).env_remove("RUSTFLAGS").env_remove("RUSTC_WRAPPER");
    let (start, before) = (Instant::now(), clock::children_cpu());
    let succeeded = cargo::succeeds(&mut command);
    let wall = start.elapsed().as_secs_f64();
    let cpu = clock::children_cpu().since(before).total().as_secs_f64();
    let _ = fs::remove_dir_all(&folder);
    if !succeeded {
        return Outcome::failure("the command does not build");
    }
    judge(wall, cpu)
}

/// Judges the time. Other load increases the elapsed time, but hardly the CPU time: the build fails
/// only if both are too long.
fn judge(wall: f64, cpu: f64) -> Outcome {
    let alone = cpu / BUSY;
    let note = format!(
        "{wall:.0} s, of CPUs {cpu:.0} s: about {alone:.0} s on two CPUs that do nothing else"
    );
    println!("first build: {note}");
    if wall > MOST && alone > MOST {
        return Outcome::failure(format!("{note}, of {MOST:.0} at most"));
    }
    Outcome { notes: vec![note], ..Outcome::single(true) }
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn a_busy_machine_is_no_slow_build() {
        for (wall, cpu, failed) in
            [(100.0, 170.0, 0), (600.0, 190.0, 0), (100.0, 400.0, 0), (600.0, 310.0, 1)]
        {
            let outcome = judge(wall, cpu);
            assert_eq!((outcome.failed, outcome.notes.len()), (failed, 1), "{wall} {cpu}");
        }
    }
}
