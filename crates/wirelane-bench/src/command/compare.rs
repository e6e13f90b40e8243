//! `wirelane bench compare`: tells improvement from noise.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use wirelane::{Error, Result};
use wirelane_cli::output;

use crate::changes::{ChangeVerdict, EarlierReport, FigureChange, RunComparison, compare, parse};

/// Compare two runs of a benchmark and tell regressions and improvements from noise.
///
/// OLD and NEW are reports (`wirelane bench … --json`) or directories of reports. Alternate the
/// runs (old, new, old, new), so that a slow minute of the machine hits both. A figure is a
/// regression if the whole 99 % interval of its change exceeds the threshold; then the exit status
/// is 1.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompareArgs {
    /// Report of the earlier run, or a directory of reports
    old: PathBuf,
    /// Report of the later run, or a directory of reports
    new: PathBuf,
    /// Ignore changes of less than this many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    threshold: f64,
    /// Print one JSON object (schema wirelane.compare/1) instead of a table
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let value = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let value = value.map_err(|error| format!("{error}; write a number such as 10"))?;
    let fits = (0.0..=1000.0).contains(&value);
    fits.then_some(value).ok_or_else(|| "write a number from 0 to 1000".into())
}

/// Runs the command.
///
/// # Errors
/// A report cannot be read, the two have no figure in common, or a figure became worse.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    let comparison = compare(&read(&args.old)?, &read(&args.new)?, args.threshold / 100.0);
    if comparison.changes.is_empty() {
        let names = format!("reports '{}' and '{}'", args.old.display(), args.new.display());
        return Err(Error::failed(names, "they have no comparable figure in common"));
    }
    if args.json {
        output::json(&comparison)?;
    } else {
        let mut out = io::stdout().lock();
        write!(out, "{}", ComparisonTable(&comparison))
            .and_then(|()| out.flush())
            .map_err(|error| Error::io("standard output", "write", error))?;
    }
    match comparison.regressions().count() {
        0 => Ok(()),
        1 => Err(Error::failed("comparison", "1 figure became worse")),
        n => Err(Error::failed("comparison", format!("{n} figures became worse"))),
    }
}

/// The report at `path`, or all reports in the directory of that name.
fn read(path: &Path) -> Result<Vec<EarlierReport>> {
    let name = |path: &Path| format!("report '{}'", path.display());
    let failed = |path: &Path, error| Error::io(name(path), "read", error);
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(|error| failed(path, error))?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort();
    }
    if files.is_empty() {
        return Err(Error::failed(name(path), "the directory has no .json file"));
    }
    let report = |file: &PathBuf| {
        let text = fs::read_to_string(file).map_err(|error| failed(file, error))?;
        parse(&file.display().to_string(), &text)
    };
    files.iter().map(report).collect()
}

/// A comparison for people: changed figures, then the numbers of all verdicts.
struct ComparisonTable<'a>(&'a RunComparison);

impl Display for ComparisonTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let comparison = self.0;
        let of = |verdict| comparison.changes.iter().filter(move |c| c.verdict == verdict);
        for (verdict, title) in
            [(ChangeVerdict::Regression, "worse"), (ChangeVerdict::Improvement, "better")]
        {
            for change in of(verdict) {
                writeln!(f, "{title:<7} {}", ComparisonLine(change))?;
            }
        }
        let [worse, better, same, unclear] = [
            ChangeVerdict::Regression,
            ChangeVerdict::Improvement,
            ChangeVerdict::Same,
            ChangeVerdict::Unclear,
        ]
        .map(|verdict| of(verdict).count());
        writeln!(
            f,
            "{worse} worse, {better} better, {same} the same within {:.0} %, {unclear} unclear \
             (the samples scatter too much)",
            comparison.threshold * 100.0
        )?;
        let alone = [("old", &comparison.only_old), ("new", &comparison.only_new)];
        for (side, figures) in alone.into_iter().filter(|(_, figures)| !figures.is_empty()) {
            writeln!(f, "{} figures are only in the {side} run", figures.len())?;
        }
        if comparison.not_compared > 0 {
            let n = comparison.not_compared;
            writeln!(f, "{n} figures were not compared: differences around zero, or shares")?;
        }
        if let Some(peers) = comparison.peers {
            let percent = (peers - 1.0) * 100.0;
            writeln!(f, "the figures of other programs moved by {percent:+.1} %: the machine")?;
        }
        Ok(())
    }
}

struct ComparisonLine<'a>(&'a FigureChange);

impl Display for ComparisonLine<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let FigureChange { figure, old, new, worse, interval: [low, high], .. } = self.0;
        write!(f, "{figure}  {old:.3} → {new:.3}  ×{worse:.2} ({low:.2}–{high:.2})")
    }
}
