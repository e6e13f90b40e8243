//! Answers SQL and ready queries.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use wirelane::{Error, Result};

use super::arguments::QueryArgs;
use super::kind::TableKind;
use super::output::{AnswerFormat, OutputTarget, RowWriter};
use super::ready::{self, Parameters, ReadyQuery};
use super::span::TimeSpan;
use super::svg::Plot;
use super::{answer, bars, failure, output, run};
use crate::packets::Leftovers;

/// The session and the options of all questions.
pub(crate) struct Asking {
    pub(crate) context: SessionContext,
    pub(crate) args: QueryArgs,
    pub(crate) format: AnswerFormat,
    /// The first of the sources with packets.
    pub(crate) packets: Option<PathBuf>,
}

impl Asking {
    /// # Errors
    /// The SQL or a file is wrong, or the answer cannot be written.
    pub(crate) async fn sql(&self, sql: &str) -> Result<()> {
        let running = run::start(&self.context, sql).await?;
        match self.args.explain {
            true => answer::explain(running).await?,
            false => answer::write(running, self.format, self.target()?).await?,
        }
        self.leftovers()
    }

    /// # Errors
    /// Those of [`Self::sql`], or there are no flows.
    pub(crate) async fn ready(&self, ready: ReadyQuery) -> Result<()> {
        self.has_flows(ready)?;
        let args = &self.args;
        let span = TimeSpan::new(args.from, args.to)?;
        let mut parameters = Parameters { top: args.top, span, bucket: args.bucket };
        if ready.has_buckets() && args.bucket.is_none() {
            parameters.bucket = Some(self.bucket(&span).await?);
        }
        let running = run::start(&self.context, &ready.sql(&parameters)).await?;
        if args.explain {
            return answer::explain(running).await;
        }
        let schema = running.schema();
        let batches = answer::collect(running).await?;
        let rows = concat_batches(&schema, &batches).map_err(|error| failure::of(error.into()))?;
        if let Some(path) = &args.svg {
            draw(&ready, &rows, parameters.bucket, path)?;
        }
        let rows = match self.format {
            AnswerFormat::Table => {
                let room = output::columns();
                bars::with_bars(&rows, ready.plotted.value, room)
                    .map_err(|error| failure::of(error.into()))?
            }
            _ => rows,
        };
        let mut writer = RowWriter::new(self.format, self.target()?, &rows.schema())?;
        writer.write(&rows)?;
        writer.finish()
    }

    /// Fails without flows, which all ready queries read.
    fn has_flows(&self, ready: ReadyQuery) -> Result<()> {
        if self.context.table_exist(TableKind::Flows.name()).map_err(failure::of)? {
            return Ok(());
        }
        let name = ready.name;
        let (cause, source) = match &self.packets {
            Some(path) => {
                let path = path.display().to_string();
                (format!("it asks flows, but {path} holds packets"), path)
            }
            None => {
                ("it asks flows, but there is no source with flows".to_owned(), "SOURCE".to_owned())
            }
        };
        let help = format!(
            "write them by `wirelane flows {source} -w flows/`, then `wirelane query {name} flows/`"
        );
        Err(Error::usage(name, cause).help(help))
    }

    /// A bucket length that divides all flows of the span into about sixty.
    async fn bucket(&self, span: &TimeSpan) -> Result<Duration> {
        let running = run::start(&self.context, &ready::bounds(span)).await?;
        let batches = answer::collect(running).await?;
        let bound = |column: usize| {
            let batch = batches.iter().find(|batch| batch.num_rows() > 0)?;
            let column = batch.column(column).as_primitive_opt::<Int64Type>()?;
            column.iter().next().flatten()
        };
        Ok(ready::bucket(bound(0).unwrap_or(0), bound(1).unwrap_or(0)))
    }

    /// Reports data that the answer lacks.
    fn leftovers(&self) -> Result<()> {
        let state = self.context.state();
        state.config().get_extension::<Leftovers>().map_or(Ok(()), |leftovers| leftovers.tell())
    }

    fn target(&self) -> Result<OutputTarget> {
        match &self.args.write {
            Some(path) if path.as_os_str() != "-" => OutputTarget::file(path),
            _ => Ok(OutputTarget::output(self.format)),
        }
    }
}

/// Writes the plot of an answer.
fn draw(
    ready: &ReadyQuery,
    rows: &RecordBatch,
    bucket: Option<Duration>,
    path: &Path,
) -> Result<()> {
    let plot = plot(ready, rows, bucket).map_err(|error| failure::of(error.into()))?;
    let mut target = OutputTarget::file(path)?;
    let failure = target.failure();
    target.write_all(plot.svg().as_bytes()).map_err(|error| failure.or(error))?;
    target.finish()
}

fn plot(
    ready: &ReadyQuery,
    rows: &RecordBatch,
    bucket: Option<Duration>,
) -> Result<Plot, arrow_schema::ArrowError> {
    let (plotted, schema) = (ready.plotted, rows.schema());
    let options = FormatOptions::new();
    let columns = plotted
        .labels
        .iter()
        .map(|name| ArrayFormatter::try_new(rows.column(schema.index_of(name)?), &options));
    let columns: Vec<_> = columns.collect::<Result<_, _>>()?;
    let label = |row| {
        let parts = columns.iter().map(|column| column.value(row).to_string());
        parts.collect::<Vec<_>>().join("  ")
    };
    let values = bars::numbers(rows, plotted.value)?;
    let mut found: Vec<_> =
        values.into_iter().enumerate().map(|(row, it)| (label(row), it)).collect();
    let is_timeline = ready.has_buckets();
    if let Some(bucket) = bucket.filter(|_| is_timeline) {
        found = evenly(found, &bars::numbers(rows, plotted.labels[0])?, bucket);
    }
    let title = format!("{} ({})", ready.about(), plotted.value);
    Ok(Plot { title, bars: found, is_timeline })
}

/// Adds empty bars for buckets without flows, unless that exceeds `MOST` bars.
fn evenly(bars: Vec<(String, f64)>, times: &[f64], bucket: Duration) -> Vec<(String, f64)> {
    /// Far more than the pixels of a plot.
    const MOST: usize = 10_000;
    let Some(first) = times.first() else { return bars };
    let place = |time: &f64| ((time - first) / bucket.as_nanos() as f64).round() as usize;
    let count = times.last().map_or(0, place) + 1;
    if count > MOST {
        return bars;
    }
    let mut places = vec![(String::new(), 0.0); count];
    for (bar, time) in bars.into_iter().zip(times) {
        if let Some(free) = places.get_mut(place(time)) {
            *free = bar;
        }
    }
    places
}

/// The ready queries, one per line.
pub(crate) fn list() -> String {
    let line = |ready: &ReadyQuery| format!("{:<16}  {}\n", ready.name, ready.about());
    ready::READY.iter().map(line).collect()
}
