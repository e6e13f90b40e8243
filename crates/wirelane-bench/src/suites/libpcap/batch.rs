//! The cost of batches through the C interface: the C examples compared with the same examples in
//! Rust.
//!
//! Both receive the same packets of the simulated interface until it ends. The figure is the CPU
//! time of the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;

use super::compiler::compile;
use crate::job::{Case, Job};
use crate::row::params;
use crate::suites::bed;

const CASE: &str = "batch";
// In `capi`, links to the files of `wirelane-capi`: an archive of this crate contains them.
const HEADER: &str = include_str!("capi/wirelane.h");
/// The library that cargo builds, in the directory of the command.
const LIBRARY: &str = "libwirelane_capi.so";
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// An example that exists in both languages.
#[derive(Clone, Copy)]
struct Example {
    name: &'static str,
    source: &'static str,
    /// Packets of a run.
    packets: u64,
}

const EXAMPLES: [Example; 2] = [
    // Reads every packet.
    Example { name: "count", source: include_str!("capi/count.c"), packets: 15_000_000 },
    // Reads no packet.
    Example { name: "rxdrop", source: include_str!("capi/rxdrop.c"), packets: 20_000_000 },
];

/// Measures every example in both languages.
///
/// # Errors
/// The command is missing. Other failures are noted with their reason.
pub(super) fn batch(job: &mut Job<'_>) -> Result<()> {
    let own = job.own()?.to_owned();
    let prepared = Folder::new(&std::env::temp_dir()).and_then(|folder| {
        let programs = programs(&own, &folder)?;
        Ok((folder, programs))
    });
    let Some((_folder, programs)) = job.or_skip(CASE, prepared) else { return Ok(()) };
    let case = |(Example { name, packets, .. }, language, program): (Example, _, PathBuf)| {
        let measure = move |job: &mut Job<'_>| {
            let mut command = Command::new(&program);
            command.arg(format!("sim:1?count={packets}&flows={FLOWS}&size={SIZE}"));
            let cpu = job.run(&mut command, &bed::cpus(), None, LIMIT)?.cpu;
            let ns = cpu.as_nanos() as f64 / packets as f64;
            Ok([("cpu_ns_per_packet", ns)].into())
        };
        let params = params![port = "sim", size = SIZE, example = name, language = language];
        Case::new(CASE, params, format!("the example {name} in {language}"), measure)
    };
    job.take(programs.into_iter().map(case).collect())
}

/// All programs; `folder` is for the compiled C programs.
fn programs(own: &Path, folder: &Folder) -> Result<Vec<(Example, &'static str, PathBuf)>> {
    let directory = own.parent().unwrap_or(Path::new("."));
    folder.make()?;
    let header = folder.file("wirelane.h");
    fs::write(&header, HEADER)
        .map_err(|error| Error::io(header.display().to_string(), "write", error))?;
    let mut programs = Vec::new();
    for example in EXAMPLES {
        let rust = directory.join("examples").join(example.name);
        if !rust.is_file() || !directory.join(LIBRARY).is_file() {
            let cause = format!("no example {} or {LIBRARY} beside the command", example.name);
            return Err(Error::failed(CASE, cause).help(
                "build them in the source tree: cargo build --release -p wirelane-capi --lib \
                 --examples",
            ));
        }
        let c = folder.file(example.name);
        let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
        rpath.push(directory);
        let include = header.parent().unwrap_or(directory).as_os_str();
        let library = format!("-l:{LIBRARY}");
        let flags = ["-I".as_ref(), include, "-L".as_ref(), directory.as_os_str()];
        let flags = [&flags[..], &[library.as_ref(), rpath.as_os_str()]].concat();
        compile(CASE, example.source, &c, &flags)?;
        programs.extend([(example, "C", c), (example, "Rust", rust)]);
    }
    Ok(programs)
}
