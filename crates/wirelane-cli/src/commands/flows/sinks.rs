//! The outputs of the flows.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::halt::Halt;
use wirelane::pcap::Access;
use wirelane::{Error, Result};
use wirelane_flow::ipfix::{Exporter, Limits, Watch};
use wirelane_flow::{Sink, TextFormat};

use super::arguments::{FlowFormat, FlowsArgs};
use super::output::TextSink;
use super::program::{self, ProgramSink, ProgramTarget, Told};
use super::top::{Top, TopSink};
use crate::companion::QUERY;
use crate::output;
use crate::output::summary::Export;

/// The outputs to report on at the end.
pub(super) struct Sinks<'a> {
    write: Option<&'a Path>,
    top: Option<Arc<Mutex<Top>>>,
    collectors: Vec<(String, Watch)>,
    programs: Vec<Told>,
}

impl<'a> Sinks<'a> {
    /// Checks the output options. Opens nothing.
    ///
    /// # Errors
    /// The options contradict each other.
    pub(super) fn check(args: &FlowsArgs) -> Result<()> {
        let to_stdout = args.write.as_deref().is_some_and(is_stdout);
        if args.session.json && (to_stdout || args.format.is_some()) {
            return Err(Error::usage("--json", "standard output already takes the flows")
                .help("write the flows to a file with -w, and leave --format out"));
        }
        if !args.write.as_deref().is_some_and(program::takes) {
            args.files.check_none()?;
        }
        if let Some(format) = args.format {
            FlowsArgs::check_terminal(format)?;
        }
        if args.format == Some(FlowFormat::Arrow) {
            QUERY.find()?;
        }
        match args.write.as_deref().filter(|path| !is_stdout(path)) {
            None => Ok(()),
            Some(path) if program::takes(path) => QUERY.find().map(|_| ()),
            Some(path) => format_of(path).map(|_| ()),
        }
    }

    /// Opens the sinks.
    ///
    /// # Errors
    /// A file cannot be created.
    pub(super) fn open(
        args: &'a FlowsArgs,
        access: Access,
        halt: &Halt,
    ) -> Result<(Vec<Box<dyn Sink>>, Self)> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let write = args.write.as_deref();
        let mut programs = Vec::new();
        let mut start = |to| {
            let told = Told::default();
            programs.push(Arc::clone(&told));
            ProgramSink::start(to, &told)
        };
        if let Some(path) = write.filter(|path| program::takes(path)) {
            sinks.push(Box::new(start(ProgramTarget::Files(path, &args.files, access))?));
        } else if let Some(path) = write.filter(|path| !is_stdout(path)) {
            sinks.push(Box::new(TextSink::create(path, format_of(path)?, access)?));
        }
        let mut collectors = Vec::new();
        for collector in &args.ipfix {
            // Its thread is slower than files; packets of ports never wait for it.
            let limits = Limits::default().waits(true);
            let exporter = Exporter::start(collector, limits)?;
            if let Some(note) = exporter.note() {
                output::note(format_args!("{collector}: {note}"));
            }
            collectors.push((collector.to_string(), exporter.watch()));
            sinks.push(Box::new(exporter));
        }
        let is_terminal = std::io::stdout().is_terminal();
        let format = match (args.format, write) {
            (Some(format), _) => Some(format),
            _ if args.session.json => None,
            (None, Some(path)) if is_stdout(path) => Some(FlowFormat::Json),
            _ if is_terminal => Some(FlowFormat::Table),
            (None, Some(_)) => None,
            (None, None) if !args.ipfix.is_empty() => None,
            (None, None) => Some(FlowFormat::Json),
        };
        let mut top = None;
        match format {
            None => {}
            Some(FlowFormat::Json) => {
                sinks.push(Box::new(TextSink::stdout(TextFormat::JsonLines, halt)?));
            }
            Some(FlowFormat::Csv) => sinks.push(Box::new(TextSink::stdout(TextFormat::Csv, halt)?)),
            Some(format @ FlowFormat::Arrow) => {
                sinks.push(Box::new(start(ProgramTarget::Stream(format, None))?));
            }
            Some(FlowFormat::Table) => {
                let table = Arc::new(Mutex::new(Top::new(args.rows())));
                sinks.push(Box::new(TopSink::new(&table)));
                top = Some(table);
            }
        }
        Ok((sinks, Self { write, top, collectors, programs }))
    }

    /// The file that grows.
    pub(super) fn path(&self) -> Option<&'a Path> {
        self.write.filter(|path| !program::is_url(path))
    }

    /// The exports to collectors and programs, with their results.
    pub(super) fn exports(&self) -> Vec<Export> {
        let told = |told: &Told| {
            let told = told.lock().unwrap_or_else(PoisonError::into_inner).take();
            told.and_then(|told| serde_json::from_value(told).ok())
        };
        let sent = self.collectors.iter().map(|(to, watch)| Export::of_collector(to, watch.sent()));
        self.programs.iter().filter_map(told).chain(sent).collect()
    }

    /// Prints the table, if there is one.
    ///
    /// # Errors
    /// Standard output takes nothing.
    pub(super) fn print(&self) -> Result<()> {
        match self.top.as_ref().and_then(|top| top.lock().ok()) {
            Some(top) => top.print(),
            None => Ok(()),
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The format that a suffix names.
fn format_of(path: &Path) -> Result<TextFormat> {
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("json" | "jsonl" | "ndjson") => Ok(TextFormat::JsonLines),
        Some("csv") => Ok(TextFormat::Csv),
        _ => Err(Error::usage(path.display().to_string(), "the suffix names no format of flows")
            .help("end the name with .json, .jsonl or .csv, or with / for a directory of Parquet")),
    }
}
