//! `wirelane-query sink`: writes flows (IPFIX messages) or packets (a capture) as Parquet files, or
//! as a stream on standard output.
//!
//! ```text
//!  input: reads, decodes ─▶ partitions: a file per hour ─ row groups ─▶ encoders
//!                                     ▲                                    │
//!                                     └────────────────────────────────────┘
//!                                     └─ files that are complete ─▶ store
//! ```
//!
//! One thread decodes, one thread per CPU encodes row groups, and one thread stores files. Every
//! queue between them is bounded, so a slow store slows the pipe; a live port then drops packets
//! and counts them. `PendingRows` describes a kind of rows: its columns, the size of a row group,
//! and its order.

mod arguments;
mod counts;
mod encoders;
mod input;
mod layout;
mod parquet_file;
mod partitions;
mod place;
mod rows;
mod store;
mod stream;

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use wirelane::halt::Halt;
use wirelane::{Error, Result};

pub(crate) use arguments::SinkArgs;

use counts::SinkCounts;
use input::SinkInput;
use input::capture::CaptureInput;
use input::messages;
use partitions::Partitions;
use place::SinkTarget;
use rows::{FlowRows, PacketRows, PendingRows};
use store::StoreSink;
use stream::RowStream;

/// Interval at which old files are closed and streams are flushed.
const TICK: Duration = Duration::from_millis(500);

/// Writes rows until the input ends.
pub(crate) fn run(args: &SinkArgs) -> Result<()> {
    args.check()?;
    if !args.packets {
        outlive_the_maker()?;
        let place = SinkTarget::parse(&args.to)?;
        return write(args, place, FlowRows::default(), &SinkInput::start(messages::read)?);
    }
    let halt = match &args.read {
        Some(_) => Halt::by_signals()?,
        None => {
            outlive_the_maker()?;
            Halt::default()
        }
    };
    let path = args.read.as_deref().unwrap_or(Path::new("-"));
    let capture = CaptureInput::open(path, args.count, args.data, halt)?;
    let place = SinkTarget::parse(&args.to)?;
    let rows = PacketRows::new(capture.packets().schema());
    write(args, place, rows, &SinkInput::start(|to| capture.read(to))?)
}

/// Ignores SIGINT and SIGTERM: ^C signals all processes of a terminal. The producer handles the
/// signal and ends the input. This process first writes the rest of the pipe.
fn outlive_the_maker() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| Error::io("signals", "sigaction", error))?;
    }
    Ok(())
}

fn write<R: PendingRows>(
    args: &SinkArgs,
    place: SinkTarget,
    rows: R,
    input: &SinkInput<R::Part>,
) -> Result<()> {
    let (counts, outcome) = match place {
        SinkTarget::Output => stream(args, rows, input)?,
        SinkTarget::Store(opened) => {
            let name = (!args.quiet).then(|| args.to.clone());
            let store = StoreSink::start(opened, name, args.spool, args.patience)?;
            (files(args, rows, input, store)?, Ok(()))
        }
    };
    let kind = R::KIND.name;
    tell(args, kind, &counts)?;
    outcome?;
    match &counts.failure {
        Some(failure) if counts.lost > 0 => {
            let all = counts.rows + counts.lost;
            let cause = format!("{} of {all} {kind} were not written: {failure}", counts.lost);
            Err(Error::failed(args.to.clone(), cause))
        }
        _ => input.end(),
    }
}

fn files<R: PendingRows>(
    args: &SinkArgs,
    rows: R,
    input: &SinkInput<R::Part>,
    store: StoreSink,
) -> Result<SinkCounts> {
    let host = args.host.clone().unwrap_or_else(layout::host);
    let mut partitions = Partitions::new(rows, &host, args.size, args.rotate)?;
    let mut looked = Instant::now();
    loop {
        let parts = match input.next(TICK) {
            Ok(parts) => parts,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        for part in parts {
            partitions.add(part, Instant::now, &mut |file| store.put(file))?;
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            partitions.close_old(looked, &mut |file| store.put(file))?;
        }
    }
    partitions.close_all(&mut |file| store.put(file))?;
    Ok(store.finish())
}

/// Writes rows to standard output. Returns the counts, and the error that ended the stream.
fn stream<R: PendingRows>(
    args: &SinkArgs,
    rows: R,
    input: &SinkInput<R::Part>,
) -> Result<(SinkCounts, Result<()>)> {
    let mut stream = RowStream::new(rows, args.format, io::stdout().lock())?;
    let outcome = loop {
        let done = match input.next(TICK) {
            Ok(parts) => stream.add(parts),
            Err(RecvTimeoutError::Timeout) => stream.flush(),
            Err(RecvTimeoutError::Disconnected) => break stream.finish(),
        };
        if done.is_err() {
            break done;
        }
    };
    Ok((stream.counts(), outcome))
}

fn tell(args: &SinkArgs, kind: &str, counts: &SinkCounts) -> Result<()> {
    let line = match args.json {
        true => counts.json(kind, &args.to).to_string(),
        false if args.quiet => return Ok(()),
        false => counts.text(kind, &args.to),
    };
    if args.json && !args.is_stream() {
        return writeln!(io::stdout(), "{line}")
            .map_err(|error| Error::io("standard output", "write", error));
    }
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{line}");
    Ok(())
}
