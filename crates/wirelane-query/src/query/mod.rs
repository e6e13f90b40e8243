//! `wirelane-query query`: SQL over flows and packets.

mod answer;
mod arguments;
mod asking;
mod bars;
mod check;
mod failure;
mod flows;
mod hours;
mod listing;
mod output;
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

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use wirelane::{Error, ErrorKind, Result};

pub(crate) use arguments::QueryArgs;

use asking::Asking;
use output::Format;
use ready::Ready;
use request::Question;
use shell::{Line, Shell};
use sources::Sources;

/// Answers what is asked.
pub(crate) fn run(args: &QueryArgs) -> Result<()> {
    if args.list {
        return print(&asking::list());
    }
    let (question, sources) = request::split(&args.words);
    let format = format(args)?;
    if args.svg.is_some() && !matches!(question, Question::Ready(_)) {
        return Err(Error::usage("--svg", "only ready queries are drawn").help("see --list"));
    }
    let sources = Sources::parse(sources)?;
    let is_shell = matches!(question, Question::Elsewhere) && io::stdin().is_terminal();
    let input = match question {
        Question::Elsewhere if !is_shell => request::sql_of_input(io::stdin().lock())?,
        _ => String::new(),
    };
    let spill =
        tempfile::tempdir().map_err(|error| Error::io("temporary directory", "mkdir", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("threads", "clone", error))?;
    let answered = || -> Result<()> {
        let opened = tables::open(&sources, args.memory, spill.path());
        let context = runtime.block_on(unless_interrupted(opened))?;
        let asking = Asking { context, args, format };
        match question {
            Question::Sql(sql) => runtime.block_on(unless_interrupted(asking.sql(sql))),
            Question::Ready(ready) => runtime.block_on(unless_interrupted(asking.ready(ready))),
            Question::Elsewhere if is_shell => talk(&runtime, &asking),
            Question::Elsewhere => runtime.block_on(unless_interrupted(asking.sql(&input))),
        }
    };
    let outcome = answered();
    // What still reads is left alone; its files go with the directory.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Question after question; what is wrong with one ends nothing.
fn talk(runtime: &Runtime, asking: &Asking<'_>) -> Result<()> {
    let mut shell = Shell::new()?;
    while let Some(line) = shell.next()? {
        let outcome = match line {
            Line::Sql(text) => match Ready::find(&text) {
                Some(ready) => runtime.block_on(unless_interrupted(asking.ready(ready))),
                None => runtime.block_on(unless_interrupted(asking.sql(&text))),
            },
            Line::Tables => print(&tables::names(&asking.context)),
            Line::Schema(table) => {
                let columns = tables::columns(&asking.context, &table);
                runtime.block_on(columns).and_then(|text| print(&text))
            }
            Line::Queries => print(&asking::list()),
            Line::Help => print(shell::HELP),
            Line::Unknown(text) => {
                Err(Error::usage(text, "there is no such command").help("write .help"))
            }
        };
        match outcome {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(error),
            Err(error) => {
                // Nobody may be there to read it.
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

/// As it was asked for, or as the name of the file says; a table otherwise.
fn format(args: &QueryArgs) -> Result<Format> {
    let to = args.write.as_deref().filter(|path| path.as_os_str() != "-");
    let format = match (args.format, to) {
        (Some(format), _) => format,
        (None, Some(path)) => Format::of(path)?,
        (None, None) => Format::Table,
    };
    if format.is_binary() && to.is_none() && !args.explain && io::stdout().is_terminal() {
        return Err(Error::usage("--format", "a terminal cannot show it")
            .help("write to a file with -w, or into a pipe"));
    }
    Ok(format)
}

/// The outcome, or that ^C or SIGTERM ended it.
async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let listen = |kind| signal(kind).map_err(|error| Error::io("signals", "sigaction", error));
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let (interrupted, terminated) = (pin!(interrupt.recv()), pin!(terminate.recv()));
    match select(pin!(work), select(interrupted, terminated)).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(Error::failed("the query", "it was interrupted")),
    }
}
