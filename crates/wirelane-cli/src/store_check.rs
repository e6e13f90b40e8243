//! Reads whole stores, repairs them, and reports: `record --check` and `extract --reindex`.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;
use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_store::{CheckReport, Directory};

use crate::background::has_come;
use crate::output::{self, grouped, line, plural, sized};
use crate::stores;

/// The repair of stores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Repair {
    /// Repairs all damage by a crash.
    All,
    /// Rebuilds indexes.
    Indexes,
}

/// The form of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOutput {
    /// The command's name in the JSON object.
    pub(crate) command: &'static str,
    /// One JSON object on standard output.
    pub(crate) json: bool,
    /// Nothing on standard error, but errors.
    pub(crate) quiet: bool,
}

/// Reads and repairs the stores, and reports.
///
/// # Errors
/// A store cannot be read, damage remains, or a signal ended the check.
pub(crate) fn run(stores: &[Directory], repair: Repair, wanted: CheckOutput) -> Result<()> {
    let halt = Halt::by_signals()?;
    let started = Instant::now();
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for directory in stores {
        if halt.is_asked() {
            break;
        }
        let report = read(directory, repair, &halt)?;
        if !wanted.quiet {
            tell(directory, &report, started.elapsed());
        }
        errors.extend(faults(&report));
        documents.push(CheckedStore::new(directory, &report));
    }
    if halt.is_asked() {
        let cause = "a signal ended it: not all segments were read";
        errors.push(Error::failed(wanted.command, cause).help("run it again"));
    }
    if wanted.json {
        output::json(&Document {
            schema: "wirelane.check/1",
            command: wanted.command,
            version: env!("CARGO_PKG_VERSION"),
            elapsed_s: started.elapsed().as_secs_f64(),
            stores: documents,
            stopped: halt.is_asked(),
        })?;
    }
    output::all_but_first(errors)
}

fn read(directory: &Directory, repair: Repair, halt: &Halt) -> Result<CheckReport> {
    let mut reports = Halt::reports();
    let each = |_: &_, report: &CheckReport| {
        if has_come(&mut reports, Halt::reports()) {
            line(format_args!("so far: {}", read_so_far(report)));
        }
        if halt.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = match repair {
        Repair::All => wirelane_store::check(directory, each),
        Repair::Indexes => wirelane_store::reindex(directory, each),
    };
    report.map_err(Error::from)
}

fn read_so_far(report: &CheckReport) -> String {
    let (segments, packets) = (plural(report.segments, "segment"), grouped(report.packets));
    format!("{segments}, {}, {packets} packets", sized(report.bytes))
}

fn tell(directory: &Directory, report: &CheckReport, elapsed: Duration) {
    for mended in &report.mended {
        line(format_args!("mended: {}: {}", mended.path.display(), mended.what));
    }
    if let Some(why) = &report.only_looked {
        output::note(format_args!("nothing was mended: {why}"));
    }
    if report.being_written > 0 {
        let segments = plural(report.being_written, "segment");
        output::note(format_args!("{segments} being written, not read"));
    }
    let faults = report.damage.len() + report.failed.len();
    let state = match faults as u64 {
        0 => "whole".to_owned(),
        faults => plural(faults, "fault"),
    };
    let (path, read) = (directory.path().display(), read_so_far(report));
    line(format_args!("{path}: {read}: {state}; {:.3} s", elapsed.as_secs_f64()));
}

/// The remaining faults.
fn faults(report: &CheckReport) -> impl Iterator<Item = Error> {
    let damage = report.damage.iter().map(stores::damage);
    let failed =
        report.failed.iter().map(|failed| Error::failed("cannot be mended", failed.clone()));
    damage.chain(failed)
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    elapsed_s: f64,
    stores: Vec<CheckedStore>,
    /// Whether a signal ended the check.
    stopped: bool,
}

#[derive(Serialize)]
struct CheckedStore {
    path: String,
    segments: u64,
    bytes: u64,
    extents: u64,
    packets: u64,
    /// Segments that were left alone because they were being written.
    being_written: u64,
    /// Why nothing was repaired; `null` if repairs were possible.
    only_looked: Option<String>,
    mended: Vec<RepairEntry>,
    /// Failed repairs, in words.
    failed: Vec<String>,
    damage: Vec<DamageEntry>,
}

#[derive(Serialize)]
struct RepairEntry {
    path: String,
    what: String,
}

/// Damage of a store, in a JSON object.
#[derive(Serialize)]
pub(crate) struct DamageEntry {
    path: String,
    offset: u64,
    cause: String,
}

impl From<&wirelane_store::Damage> for DamageEntry {
    fn from(damage: &wirelane_store::Damage) -> Self {
        Self {
            path: damage.path.display().to_string(),
            offset: damage.offset,
            cause: damage.what.to_string(),
        }
    }
}

impl CheckedStore {
    fn new(directory: &Directory, report: &CheckReport) -> Self {
        let mended = |mended: &wirelane_store::Mended| RepairEntry {
            path: mended.path.display().to_string(),
            what: mended.what.clone(),
        };
        Self {
            path: directory.path().display().to_string(),
            segments: report.segments,
            bytes: report.bytes,
            extents: report.extents,
            packets: report.packets,
            being_written: report.being_written,
            only_looked: report.only_looked.clone(),
            mended: report.mended.iter().map(mended).collect(),
            failed: report.failed.clone(),
            damage: report.damage.iter().map(DamageEntry::from).collect(),
        }
    }
}
