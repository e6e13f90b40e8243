//! `wirelane-query query`: SQL over flows and packets.

mod answer;
mod arguments;
mod asking;
mod bars;
mod check;
mod culprit;
pub(crate) mod depth;
mod epoch;
mod failure;
mod hours;
mod interrupts;
mod kind;
mod listing;
mod names;
mod output;
mod panics;
mod parquet;
mod reading;
mod ready;
mod request;
mod run;
mod session;
mod shell;
mod sources;
mod span;
mod svg;
mod tables;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use wirelane::{Error, ErrorKind, Result};

pub(crate) use arguments::QueryArgs;

use asking::Asking;
use interrupts::Interrupts;
use output::AnswerFormat;
use ready::ReadyQuery;
use request::QueryRequest;
use shell::{Shell, ShellInput};
use sources::TableSources;

/// Answers the question, or opens a shell. `--list` prints the ready queries.
pub(crate) fn run(args: &QueryArgs) -> Result<()> {
    if args.list {
        return print(&asking::list());
    }
    let (question, sources) = request::split(&args.words);
    let format = format(args)?;
    if args.svg.is_some() && !matches!(question, QueryRequest::Ready(_)) {
        return Err(Error::usage("--svg", "only ready queries are drawn").help("see --list"));
    }
    let sources =
        TableSources::parse(sources).map_err(|error| names::explain(&args.words, error))?;
    for target in args.write.iter().chain(&args.svg) {
        sources.refuse_to_replace(target)?;
    }
    let is_shell = matches!(question, QueryRequest::Elsewhere) && io::stdin().is_terminal();
    let input = match question {
        QueryRequest::Elsewhere if !is_shell => request::sql_of_input(io::stdin().lock())?,
        _ => String::new(),
    };
    let spill =
        tempfile::tempdir().map_err(|error| Error::io("temporary directory", "mkdir", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(depth::STACK)
        .build()
        .map_err(|error| Error::io("threads", "clone", error))?;
    let interrupts = Interrupts::listen()?;
    panics::keep();
    let answered = || -> Result<()> {
        let packets = sources.packets.first().cloned();
        let (memory, place) = (args.memory, spill.path().to_owned());
        let cluster = args.cluster.clone();
        let opened = async move { tables::open(&sources, cluster.as_ref(), memory, &place).await };
        let context = interrupts.unless(&runtime, opened)?;
        let asking = Arc::new(Asking { context, args: args.clone(), format, packets });
        match question {
            QueryRequest::Sql(sql) => interrupts.unless(&runtime, sql_of(&asking, sql.to_owned())),
            QueryRequest::Ready(ready) => interrupts.unless(&runtime, ready_of(&asking, ready)),
            QueryRequest::Elsewhere if is_shell => talk(&runtime, &interrupts, &asking),
            QueryRequest::Elsewhere => interrupts.unless(&runtime, sql_of(&asking, input)),
        }
    };
    let outcome = answered();
    // Threads that still compute end with the process. Their unfinished files are removed now.
    runtime.shutdown_timeout(Duration::from_millis(100));
    output::remove_unfinished();
    outcome
}

fn sql_of(asking: &Arc<Asking>, sql: String) -> impl Future<Output = Result<()>> + Send + use<> {
    let asking = Arc::clone(asking);
    async move { asking.sql(&sql).await }
}

fn ready_of(
    asking: &Arc<Asking>,
    ready: ReadyQuery,
) -> impl Future<Output = Result<()>> + Send + use<> {
    let asking = Arc::clone(asking);
    async move { asking.ready(ready).await }
}

/// Answers one question after another. Of all errors, only a broken pipe ends the shell.
fn talk(runtime: &Runtime, interrupts: &Interrupts, asking: &Arc<Asking>) -> Result<()> {
    let mut shell = Shell::new()?;
    while let Some(line) = shell.next()? {
        interrupts.forget();
        let outcome = match line {
            ShellInput::Sql(text) => match ReadyQuery::find(&text) {
                Some(ready) => interrupts.unless(runtime, ready_of(asking, ready)),
                None => match names::meant(&text) {
                    Some(name) => Err(names::unknown(&text, name)),
                    None => interrupts.unless(runtime, sql_of(asking, text)),
                },
            },
            ShellInput::Tables => print(&tables::names(&asking.context)),
            ShellInput::Schema(table) => {
                let columns = tables::columns(&asking.context, &table);
                runtime.block_on(columns).and_then(|text| print(&text))
            }
            ShellInput::Queries => print(&asking::list()),
            ShellInput::Help => print(shell::HELP),
            ShellInput::Unknown(text) => {
                Err(Error::usage(text, "there is no such command").help("write .help"))
            }
        };
        match outcome {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(error),
            Err(error) => {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "{error}");
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

fn print(text: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}

/// The format that `--format` or the file name selects; otherwise a table.
fn format(args: &QueryArgs) -> Result<AnswerFormat> {
    let to = args.write.as_deref().filter(|path| path.as_os_str() != "-");
    let format = match (args.format, to) {
        (Some(format), _) => format,
        (None, Some(path)) => AnswerFormat::of(path)?,
        (None, None) => AnswerFormat::Table,
    };
    if format.is_binary() && to.is_none() && !args.explain && io::stdout().is_terminal() {
        return Err(Error::usage("--format", "a terminal cannot show it")
            .help("write to a file with -w, or into a pipe"));
    }
    Ok(format)
}
