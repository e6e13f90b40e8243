//! Runs queries, and writes rows as they arrive.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use wirelane::{Error, Result};
use wirelane_wire::text::printable_lines;

use super::output::{AnswerFormat, OutputTarget, RowWriter};
use super::reading::ReadingSums;
use super::run::RunningQuery;

/// Interval between updates of the progress line.
const TICK: Duration = Duration::from_millis(250);

/// Writes all rows.
///
/// # Errors
/// The query fails while it runs, or the target fails.
pub(crate) async fn write(
    mut running: RunningQuery,
    format: AnswerFormat,
    target: OutputTarget,
) -> Result<()> {
    let plan = Arc::clone(&running.plan);
    let mut progress = ProgressLine::new();
    // Rows on a terminal must not follow a progress line.
    let is_shown = target.is_output() && io::stdout().is_terminal();
    let mut writer = RowWriter::new(format, target, &running.schema())?;
    let mut count = 0;
    loop {
        let next = tokio::time::timeout(TICK, running.next()).await;
        let Ok(next) = next else {
            progress
                .show(|seconds| format!("{}, {count} rows, {seconds} s", ReadingSums::of(&plan)));
            continue;
        };
        let Some(batch) = next else { break };
        let batch = batch?;
        count += batch.num_rows();
        if is_shown {
            progress.clear();
        }
        writer.write(&batch)?;
    }
    progress.clear();
    writer.finish()
}

/// Runs the query, and prints its operators with metrics instead of its rows.
///
/// # Errors
/// The query fails while it runs.
pub(crate) async fn explain(running: RunningQuery) -> Result<()> {
    let (plan, start) = (Arc::clone(&running.plan), Instant::now());
    let mut count = 0;
    each(running, |batch| count += batch.num_rows()).await?;
    let taken = start.elapsed().as_secs_f64();
    let operators = DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string();
    let reading = ReadingSums::of(&plan);
    let text = format!("{operators}\n{count} rows in {taken:.3} s: {reading}\n");
    // The text contains file names.
    write!(io::stdout(), "{}", printable_lines(&text))
        .map_err(|error| Error::io("standard output", "write", error))
}

/// Collects the rows of a query that has few.
///
/// # Errors
/// The query fails while it runs.
pub(crate) async fn collect(running: RunningQuery) -> Result<Vec<RecordBatch>> {
    let mut all = Vec::new();
    each(running, |batch| all.push(batch)).await?;
    Ok(all)
}

async fn each(mut running: RunningQuery, mut take: impl FnMut(RecordBatch)) -> Result<()> {
    let plan = Arc::clone(&running.plan);
    let mut progress = ProgressLine::new();
    loop {
        match tokio::time::timeout(TICK, running.next()).await {
            Ok(Some(Ok(batch))) => take(batch),
            Ok(Some(Err(error))) => return Err(error),
            Ok(None) => return Ok(()),
            Err(_) => progress.show(|seconds| format!("{}, {seconds} s", ReadingSums::of(&plan))),
        }
    }
}

/// A line on a terminal that each update overwrites.
struct ProgressLine {
    is_terminal: bool,
    start: Instant,
    is_there: bool,
}

impl ProgressLine {
    fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), start: Instant::now(), is_there: false }
    }

    fn show(&mut self, text: impl FnOnce(u64) -> String) {
        if !self.is_terminal {
            return;
        }
        self.is_there = true;
        // Standard error may be closed.
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", text(self.start.elapsed().as_secs()));
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

/// However a query ends, its progress line disappears.
impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}
