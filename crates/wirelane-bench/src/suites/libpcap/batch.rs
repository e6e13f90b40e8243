//! What batches cost by the C interface: its examples beside the same examples in Rust.
//!
//! Both receive the same packets of the simulated interface until it ends. What they cost is the
//! CPU time of the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_os::{affinity, clock};

use super::compiler::compile;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane_lab::leftovers::Folder;

const SUITE: &str = "libpcap";
const CASE: &str = "batch";
const HEADER: &str = include_str!("../../../../wirelane-capi/include/wirelane.h");
/// The library as cargo builds it, beside the command.
const LIBRARY: &str = "libwirelane_capi.so";
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// An example that is there in both languages.
struct Example {
    name: &'static str,
    source: &'static str,
    /// Packets of a run.
    packets: u64,
}

const EXAMPLES: [Example; 2] = [
    // It looks at every packet,
    Example {
        name: "count",
        source: include_str!("../../../../wirelane-capi/examples/count.c"),
        packets: 15_000_000,
    },
    // and this one at none.
    Example {
        name: "rxdrop",
        source: include_str!("../../../../wirelane-capi/examples/rxdrop.c"),
        packets: 20_000_000,
    },
];

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn batch(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let prepared = Folder::new(&std::env::temp_dir()).and_then(|folder| {
        let cases = cases(plan.own, &folder)?;
        Ok((folder, cases))
    });
    match prepared {
        Ok((_folder, mut cases)) => {
            turns::take(SUITE, plan, &mut cases, report, stop, progress);
            let measured = cases.iter().filter(|case| !case.costs.is_empty());
            report.rows.extend(measured.map(BatchCase::row));
        }
        Err(error) => report.skip(SUITE, CASE, error.to_string()),
    }
    Ok(())
}

/// All programs; those in C are compiled into `folder`.
fn cases(own: &Path, folder: &Folder) -> Result<Vec<BatchCase>> {
    let directory = own.parent().unwrap_or(Path::new("."));
    folder.make()?;
    let header = folder.file("wirelane.h");
    fs::write(&header, HEADER)
        .map_err(|error| Error::io(header.display().to_string(), "write", error))?;
    let mut cases = Vec::new();
    for example in EXAMPLES {
        let rust = directory.join("examples").join(example.name);
        if !rust.is_file() || !directory.join(LIBRARY).is_file() {
            let cause = format!("no example {} or {LIBRARY} beside the command", example.name);
            return Err(Error::failed(CASE, cause).help(
                "build them in the source tree: cargo build --release -p wirelane-capi, and \
                 --examples of -p wirelane",
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
        for (language, program) in [("C", c), ("Rust", rust)] {
            let (example, packets) = (example.name, example.packets);
            cases.push(BatchCase { example, language, program, packets, costs: Vec::new() });
        }
    }
    Ok(cases)
}

/// An example in a language.
struct BatchCase {
    example: &'static str,
    language: &'static str,
    program: PathBuf,
    packets: u64,
    /// Nanoseconds of CPU time per packet.
    costs: Vec<f64>,
}

impl Turn for BatchCase {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("the example {} in {}", self.example, self.language)
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        let packets = self.packets;
        command.arg(format!("sim:1?count={packets}&flows={FLOWS}&size={SIZE}"));
        report.environment.add_command(line(&command));
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        // Nothing else is started until it has ended: the difference is its own.
        let before = clock::children_cpu();
        Running::start(&mut command, &cpus, None)?.wait(LIMIT)?;
        let cpu = clock::children_cpu().since(before).total();
        self.costs.push(cpu.as_nanos() as f64 / packets as f64);
        Ok(())
    }
}

impl BatchCase {
    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("port", Param::Text("sim")),
                ("size", Param::Number(SIZE)),
                ("example", Param::Text(self.example)),
                ("language", Param::Text(self.language)),
            ]),
            metric: "cpu_ns_per_packet",
            unit: "ns",
            samples: self.costs.clone(),
            source: None,
        }
    }
}
