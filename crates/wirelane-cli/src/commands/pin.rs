//! `wirelane pin`: keeps an incident from being deleted.

use std::ffi::OsString;
use std::slice;

use clap::{ArgGroup, Args};
use serde::Serialize;
use wirelane::{Error, Result};
use wirelane_store::query::{self, Listed, Query};
use wirelane_store::{Access, Directory};

use crate::output::{self, plural};
use crate::stores;
use crate::time_span::{self, TimePoint, TimeSpan};

/// Keep segments of a store from being deleted when room is needed for new packets.
///
/// Pins the segments that have packets of the time span; with EXPR, a tcpdump expression, only
/// those that may have a match as their indexes tell. A pinned segment stays whatever the limits of
/// the recorder say, until it is released: room for new packets is then taken from the others. A
/// segment that is still written can be pinned, too.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "wirelane pin <DIR>... [EXPR]... <--from TIME|--to TIME|--all> [OPTIONS]",
    group = ArgGroup::new("span").required(true).multiple(true).args(["from", "to", "all"]),
    after_help = AFTER_HELP,
)]
pub(crate) struct PinArgs {
    /// Stores, and then the expression, which may be several arguments
    #[arg(value_name = "DIR|EXPR", required = true)]
    arguments: Vec<OsString>,
    /// Only packets at TIME or later: 14:03 (the last one), 14:03:05.5, -5m, 2026-11-23T14:03:05Z,
    /// or without Z in local time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimePoint>,
    /// Only packets before TIME; a time of day is the first one after --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimePoint>,
    /// Packets of any time
    #[arg(long, conflicts_with_all = ["from", "to"])]
    all: bool,
    /// Release them: let them be deleted again
    #[arg(long)]
    release: bool,
    /// Print one JSON object (schema wirelane.pin/1)
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane pin /data/store --from 14:03 --to 14:08
  wirelane pin /data/store host 10.0.0.1 --from 2026-11-23T14:00:00Z
  wirelane pin /data/store --all --release

`wirelane extract DIR --list` shows what is pinned.";

/// Runs the command.
///
/// # Errors
/// The arguments are wrong, a store cannot be read or not be changed, or no segment is of that
/// time.
pub(crate) fn run(args: &PinArgs) -> Result<()> {
    let (paths, expression) = stores::split(&args.arguments)?;
    let TimeSpan { from, to } = TimeSpan::new(args.from, args.to).map_err(time_span::refused)?;
    let filter = stores::filter(&expression)?;
    let query = Query::all().from(from).to(to).filter(filter);
    let mut changed = Vec::new();
    let mut damage = Vec::new();
    for store in stores::open(&paths)? {
        let (listed, report) = query::list(slice::from_ref(&store), &query)?;
        for segment in listed {
            if change(args, &store, &segment)? {
                changed.push(segment);
            }
        }
        damage.extend(report.damage);
    }
    if args.json {
        output::json(&Document::new(args, &changed))?;
    } else {
        output::line(format_args!("{}", summary(args, &changed)));
    }
    // Damage may hide a segment that matches.
    let errors = damage.into_iter().map(|damage| Error::failed("store", damage.to_string()));
    output::all_but_first(errors)?;
    if changed.is_empty() && !args.release {
        return Err(Error::failed("pin", "no segment has packets of that kind and time")
            .help("`wirelane extract DIR --list` shows what there is"));
    }
    Ok(())
}

/// Pins or releases a segment; false if it is already deleted or has no pin.
fn change(args: &PinArgs, store: &Directory, segment: &Listed) -> Result<bool> {
    let done = match args.release {
        true => store.unpin(&segment.name),
        false => store.pin(&segment.name, Access::default()),
    };
    done.map_err(Error::from)
}

fn summary(args: &PinArgs, changed: &[Listed]) -> String {
    let what = if args.release { "released" } else { "pinned" };
    let segments = plural(changed.len() as u64, "segment");
    let times = changed.iter().map(|one| one.oldest).min();
    match times.zip(changed.iter().map(|one| one.newest).max()) {
        Some((oldest, newest)) => {
            format!("{what} {segments}: {} to {}", time_span::show(oldest), time_span::show(newest))
        }
        None => format!("{what} {segments}"),
    }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    released: bool,
    segments: Vec<String>,
}

impl Document {
    fn new(args: &PinArgs, changed: &[Listed]) -> Self {
        Self {
            schema: "wirelane.pin/1",
            command: "pin",
            version: env!("CARGO_PKG_VERSION"),
            released: args.release,
            segments: changed.iter().map(|one| one.path.display().to_string()).collect(),
        }
    }
}
