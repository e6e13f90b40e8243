//! `wirelane-query sink`: flows come as IPFIX messages on standard input, and become files.

mod arguments;
mod counts;
mod input;
mod layout;
mod parquet_file;
mod partitions;
mod place;
mod store;
mod stream;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use wirelane::{Error, Result};

pub(crate) use arguments::SinkArgs;

use counts::Counts;
use input::Input;
use partitions::Partitions;
use place::Place;
use store::Store;
use stream::Stream;

/// How often files that are old enough are looked for.
const TICK: Duration = Duration::from_millis(500);

/// Writes flows until they end.
pub(crate) fn run(args: &SinkArgs) -> Result<()> {
    // ^C goes to all processes of a terminal. The one that makes flows ends them, and so does what it left in the pipe.
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| Error::io("signals", "sigaction", error))?;
    }
    let place = Place::parse(&args.to)?;
    let input = Input::start()?;
    let counts = match place {
        Place::Output => stream(&input)?,
        Place::Store(opened) => {
            let name = (!args.quiet).then(|| args.to.clone());
            let store = Store::start(opened, name, args.spool, args.patience)?;
            files(args, &input, store)?
        }
    };
    tell(args, &counts)?;
    match &counts.failure {
        Some(failure) if counts.lost > 0 => {
            let all = counts.flows + counts.lost;
            let cause = format!("{} of {all} flows were not written: {failure}", counts.lost);
            Err(Error::failed(args.to.clone(), cause))
        }
        _ => input.end(),
    }
}

fn files(args: &SinkArgs, input: &Input, store: Store) -> Result<Counts> {
    let host = args.host.clone().unwrap_or_else(layout::host);
    let mut partitions = Partitions::new(&host, args.size, args.rotate);
    let mut looked = Instant::now();
    loop {
        let flows = match input.next(TICK) {
            Ok(flows) => flows,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        for flow in flows {
            partitions.add(flow, Instant::now, &mut |file| store.put(file))?;
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            partitions.close_old(looked, &mut |file| store.put(file))?;
        }
    }
    partitions.close_all(&mut |file| store.put(file))?;
    Ok(store.finish())
}

/// An Arrow IPC stream on standard output.
fn stream(input: &Input) -> Result<Counts> {
    let mut stream = Stream::new(io::stdout().lock())?;
    loop {
        match input.next(TICK) {
            Ok(flows) => stream.add(&flows)?,
            Err(RecvTimeoutError::Timeout) => stream.flush()?,
            Err(RecvTimeoutError::Disconnected) => return stream.finish(),
        }
    }
}

fn tell(args: &SinkArgs, counts: &Counts) -> Result<()> {
    if args.json {
        let line = counts.json(&args.to);
        return writeln!(io::stdout(), "{line}")
            .map_err(|error| Error::io("standard output", "write", error));
    }
    if !args.quiet {
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "{}", counts.text(&args.to));
    }
    Ok(())
}
