//! A short run of every fuzz target: from its seeds, for some seconds, failing on a crash.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::cargo;
use crate::context::{Context, root};
use crate::setup;
use crate::step::Outcome;

/// Coverage counters and comparisons for libFuzzer, and AddressSanitizer. These are the flags that
/// rustc's `-Z sanitizer` and LLVM's SanitizerCoverage document; no other program is needed.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Zsanitizer=address -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

pub(crate) fn run(context: &Context) -> Outcome {
    if let Some(outcome) = setup::without_nightly(context, "rust-src") {
        return outcome;
    }
    if crate::setup::find("c++").is_none() {
        return context.unavailable(1, "needs a C++ compiler".to_owned());
    }
    let Some(host) = cargo::host() else {
        return Outcome::failure("rustc does not say what machine this is");
    };
    let directory = root().join("fuzz");
    let targets = match targets(&directory.join("fuzz_targets")) {
        Ok(targets) if !targets.is_empty() => targets,
        Ok(_) => return Outcome::failure("there is no fuzz target"),
        Err(error) => return Outcome::failure(format!("cannot list the fuzz targets: {error}")),
    };
    let build = context.target("fuzz");
    // With a target named, build scripts are spared the flags.
    let mut command =
        cargo::nightly(&["build", "--locked", "--release", "--bins", "--target", &host]);
    command
        .args(["--manifest-path", "fuzz/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &build)
        .env("RUSTFLAGS", FLAGS);
    if context.fuzz_seconds.is_none() {
        // With less optimisation, build and short run take less time together: the build takes 290
        // s of CPU time instead of 490 s.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    if !cargo::succeeds(&mut command) {
        return Outcome::failure("the fuzz targets do not build");
    }

    // The short run tries the same inputs every time, so that one commit has one verdict. A longer
    // one, asked for, explores.
    let (seconds, seed) = match context.fuzz_seconds {
        _ if context.quick => (3, 1),
        None => (8, 1),
        Some(seconds) => (seconds, 0),
    };
    let mut outcome = Outcome::default();
    let programs = build.join(&host).join("release");
    let one = |target: &String| {
        smoke(&programs.join(target), &directory, target, seconds, seed)
            .unwrap_or_else(|error| Outcome::failure(format!("{target}: {error}")))
    };
    // Each keeps one processor busy.
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    for targets in targets.chunks(at_once) {
        thread::scope(|scope| {
            let running: Vec<_> =
                targets.iter().map(|target| scope.spawn(|| one(target))).collect();
            for (target, running) in targets.iter().zip(running) {
                let failed = |_| Outcome::failure(format!("{target}: its thread panicked"));
                outcome += running.join().unwrap_or_else(failed);
            }
        });
    }
    outcome
}

/// `seed` 0 selects a new seed for each run.
fn smoke(
    program: &Path,
    directory: &Path,
    target: &str,
    seconds: u32,
    seed: u32,
) -> std::io::Result<Outcome> {
    let corpus = directory.join("corpus").join(target);
    let seeds = directory.join("seeds").join(target);
    let artifacts = directory.join("artifacts").join(target);
    for path in [&corpus, &artifacts] {
        fs::create_dir_all(path)?;
    }
    // libFuzzer adds new inputs to the first directory and only reads the others.
    let passed = cargo::succeeds(
        Command::new(program)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-seed={seed}"))
            // A memory limit and a time limit per input: a reader must not trust a length field.
            .args(["-rss_limit_mb=2048", "-timeout=10", "-max_len=65536", "-verbosity=0"])
            .args(["-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([&corpus, &seeds]),
    );
    Ok(if passed {
        Outcome::single(true)
    } else {
        Outcome::failure(format!("{target}: the input is in {}", artifacts.display()))
    })
}

/// The names of the fuzz targets: one per file.
fn targets(directory: &Path) -> std::io::Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(stem) = path.file_stem()
        {
            targets.push(stem.to_string_lossy().into_owned());
        }
    }
    targets.sort();
    Ok(targets)
}
