//! `wirelane extract`: packets of a store that match, in order of time.

mod arguments;
mod document;
pub(crate) mod file;
mod list;
mod text;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::pcap::{LINK_TYPE_ETHERNET, Written};
use wirelane::{Error, Result};
use wirelane_filter::Filter;
use wirelane_store::query::{self, Query, Report};
use wirelane_store::{Directory, Plan};

pub(crate) use self::arguments::ExtractArgs;
use self::arguments::SearchArguments;
use self::document::Document;
use self::file::ExtractFile;
use crate::store_check::{self, CheckOutput, Repair};
use crate::{args, background, output, stores};

/// Bytes that compiled expressions accept, as in tcpdump.
const SNAPLEN: u32 = 262_144;

/// Runs the command.
///
/// # Errors
/// The arguments are wrong, a store cannot be read, the output cannot be written, something is
/// damaged, or a signal ended the search. The output then holds the packets found so far.
pub(crate) fn run(args: &ExtractArgs) -> Result<()> {
    args.check()?;
    let asked = args.asked()?;
    if args.reindex {
        return reindex(args, &asked);
    }
    let filter = stores::filter(&asked.expression)?;
    if args.explain {
        return explain(filter.as_ref());
    }
    let halt = Halt::by_signals()?;
    let stores = stores::open(&asked.paths)?;
    let query = Query::all()
        .from(asked.span.from)
        .to(asked.span.to)
        .filter(filter)
        .flows(args.flow)
        .rate(args.rate)
        .memory(args::address_space("--memory", Some(args.memory))?.unwrap_or(usize::MAX))
        .cancel(&halt);
    if args.list {
        return list(args, &asked, &stores, &query);
    }
    let started = Instant::now();
    let mut errors = Vec::new();
    let report = match &args.write {
        Some(path) => {
            let output =
                ExtractFile::new(path, args.compress, args.access.access()?, &stores, &halt)?;
            let (report, written) =
                watch(|found| write(&stores, &query, args.most, output, found))?;
            errors.extend(written.err());
            report
        }
        None => watch(|_| query::count(&stores, &query).map_err(Error::from))?,
    };
    let elapsed = started.elapsed();
    if args.json {
        output::json(&Document::new(args, &asked, &report, elapsed))?;
    } else if args.count {
        output::print(&format!("{}\n", report.packets))?;
    }
    if !args.quiet && !args.json {
        text::summary(args, &report, elapsed);
    }
    errors.extend(faults(&report));
    output::all_but_first(errors)
}

/// Prints the segments that may hold matches.
fn list(
    args: &ExtractArgs,
    asked: &SearchArguments,
    stores: &[Directory],
    query: &Query,
) -> Result<()> {
    let started = Instant::now();
    let (listed, report) = query::list(stores, query)?;
    if args.json {
        let document = Document::new(args, asked, &report, started.elapsed());
        output::json(&document.with_list(&listed))?;
    } else {
        output::print(&list::table(&listed))?;
        text::notes(&report).iter().for_each(output::note);
    }
    output::all_but_first(faults(&report))
}

/// Makes indexes anew.
fn reindex(args: &ExtractArgs, asked: &SearchArguments) -> Result<()> {
    if !asked.expression.is_empty() {
        let error = Error::usage(asked.expression.clone(), "is not a store");
        return Err(error.help("--reindex takes stores, and no expression"));
    }
    let stores = stores::open(&asked.paths)?;
    let output = CheckOutput { command: "extract", json: args.json, quiet: args.quiet };
    store_check::run(&stores, Repair::Indexes, output)
}

/// Prints the query to the index.
fn explain(filter: Option<&Filter>) -> Result<()> {
    let plan = match filter {
        Some(filter) => Plan::new(&*filter.program(LINK_TYPE_ETHERNET, SNAPLEN)?).to_string(),
        None => "all".to_owned(),
    };
    output::print(&format!("extents with: {plan}\n"))
}

/// Writes the matches, as far as possible. Returns the report of the search and the result of
/// writing.
fn write(
    stores: &[Directory],
    query: &Query,
    most: Option<u64>,
    mut output: ExtractFile<'_>,
    found: &AtomicU64,
) -> Result<(Report, Result<Written>)> {
    let mut failed = None;
    let mut count = 0;
    let report = query::run(stores, query, |packet| {
        if let Err(error) = output.write(packet) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        count += 1;
        found.store(count, Ordering::Relaxed);
        if Some(count) == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let written = match failed {
        Some(error) => Err(error),
        None => output.finish(),
    };
    Ok((report?, written))
}

/// Searches, and prints the progress on SIGUSR1.
fn watch<T: Send>(search: impl FnOnce(&AtomicU64) -> Result<T> + Send) -> Result<T> {
    let found = AtomicU64::new(0);
    background::run(
        "wl-extract",
        || search(&found),
        || {
            let found = found.load(Ordering::Relaxed);
            output::line(format_args!("so far: {}", output::plural(found, "packet")));
        },
    )
}

/// Errors that make the answer incomplete.
fn faults(report: &Report) -> impl Iterator<Item = Error> {
    let stopped = report.stopped.then(|| {
        let cause = "a signal ended the search; the answer has what was found before";
        Error::failed("extract", cause).help("search again")
    });
    report.damage.iter().map(stores::damage).chain(stopped)
}
