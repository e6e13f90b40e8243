//! `wirelane stats`: the counters of a running command.

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use wirelane::{Error, Result};
use wirelane_wire::text::brief;

use crate::args;
use crate::control::request::{ControlRequest, Identity};
use crate::control::{self, CommandConnection, Sessions};
use crate::output::statistics::StatisticsReading;
use crate::output::table::TextTable;
use crate::output::{self, screen};
use crate::signals::Signals;

/// Show the counters of a running capture, recording or forward, or of a program over Wirelane's
/// libpcap.
///
/// Prints, per port and queue, the packets received, filtered, dropped (with the reason), sent,
/// queued, segmented and merged, where the frames are, and how far the disk of a recording is.
/// Reading does not slow the process down. Without PID, shows the only running command, or lists
/// all of them.
///
/// Of a program over Wirelane's libpcap (`wirelane exec`) it shows each handle, with counters of 64
/// bits. Packets lost in the kernel are counted when the program waits for packets, or asks for its
/// statistics.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatsArgs {
    /// Process id of the running command
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Show rates every TIME (1s, 500ms) until ^C or until the process ends
    #[arg(short = 'i', long, value_name = "TIME", value_parser = args::duration)]
    interval: Option<Duration>,
    /// Stop after N intervals
    #[arg(short = 'c', long, value_name = "N", value_parser = args::count, requires = "interval")]
    count: Option<u64>,
    /// Print one JSON object (schema wirelane.stats/1); with --interval, one per line
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Columns of received, for each receiving queue:
  received      packets that arrived; merged: those that GRO put into others
  delivered     packets that the command got; bytes: their lengths (bits with --interval)
  filtered      packets that the filter rejected
  kernel        dropped: the ring of the kernel was full
  ring_full     dropped: the port had no free frame
  writer        dropped: the output was too slow
  tx_full       dropped: the sending queue was full
  bad_header    dropped: the sender asked for an offload that makes no sense
Columns of sent, for each sending queue:
  errors        frames that did not leave: unfinished, wrong_length, refused by the kernel, or
                unsent at the end
  copied        frames that were copied into memory of the port
  stalls        times that the kernel was woken because waiting frames had not left
Columns of disciplines:
  queued, bypassed         packets that waited, and packets that had no need to
  over_packets, over_bytes dropped: the limit of packets or bytes was reached
  backlog                  packets that wait now
Columns of frames, for each port: pool is the sum of the others
  free, held               not in use; in the hands of the command
  fill, rx, tx, completion in a ring of the kernel
Columns of cut and merged: frames of up to 64 KB, and segments, packets of the network";

/// How often signals are checked.
const MOMENT: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// There is no such command, or it does not answer.
pub(crate) fn run(args: &StatsArgs) -> Result<()> {
    let pid = match args.pid {
        Some(pid) => pid,
        None => {
            let sessions = control::sessions();
            match (sessions.known.as_slice(), sessions.silent.as_slice()) {
                ([], []) => {
                    let cause = "no `wirelane capture`, `record` or `forward`, and no program over \
                                 Wirelane's libpcap, of this user is running";
                    return Err(
                        Error::failed("stats", cause).help("root sees the commands of all users")
                    );
                }
                ([session], []) => session.pid,
                _ => return list(&sessions, args.json),
            }
        }
    };
    let now: Value = control::ask(pid, &ControlRequest::Statistics)?;
    let width = screen::width_of_output();
    match args.interval {
        Some(interval) => watch(args, pid, interval, now),
        None => show(&StatisticsReading { now: &now, before: None, width }, args.json),
    }
}

/// Prints the changes of each interval.
fn watch(args: &StatsArgs, pid: u32, interval: Duration, mut before: Value) -> Result<()> {
    let signals = Signals::register()?;
    let mut next = Instant::now() + interval;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        loop {
            let pause = next.saturating_duration_since(Instant::now()).min(MOMENT);
            if signals.stop() {
                return Ok(());
            }
            if pause.is_zero() {
                break;
            }
            std::thread::sleep(pause);
        }
        // After a delay, do not catch up.
        next = (next + interval).max(Instant::now());
        let now: Value = match control::ask(pid, &ControlRequest::Statistics) {
            Ok(now) => now,
            Err(_) if !control::listens(pid) => {
                output::line(format_args!("process {pid} has ended"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let width = screen::width_of_output();
        show(&StatisticsReading { now: &now, before: Some(&before), width }, args.json)?;
        before = now;
        left -= 1;
    }
    Ok(())
}

fn show(statistics: &StatisticsReading<'_>, json: bool) -> Result<()> {
    if json { output::json(&statistics.json()) } else { output::print(&statistics.text()) }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    sessions: Vec<StatsRow<'a>>,
    /// Processes that listen like a command of Wirelane, but did not answer in time.
    silent: &'a [u32],
}

#[derive(Serialize)]
struct StatsRow<'a> {
    pid: u32,
    #[serde(flatten)]
    identity: &'a Identity,
}

/// Prints the running commands.
fn list(sessions: &Sessions, json: bool) -> Result<()> {
    if sessions.are_more {
        let cause = "there are too many sockets in /run or /tmp, or file descriptors ran out";
        output::note(format_args!("the list may be incomplete: {cause}"));
    }
    let Sessions { known, silent, .. } = sessions;
    if json {
        let rows = known
            .iter()
            .map(|CommandConnection { pid, identity }| StatsRow { pid: *pid, identity });
        let sessions = rows.collect();
        return output::json(&Document { schema: "wirelane.sessions/1", sessions, silent });
    }
    let mut table = TextTable::new(&["pid", "command", "since", "ports"]);
    for CommandConnection { pid, identity } in known {
        let since = format!("{:.0} s", identity.elapsed_s);
        // The user chose this text, at any length.
        let text = |text: &str| brief(text).into_owned();
        table.row([
            pid.to_string(),
            match &identity.library {
                Some(library) => format!("{} ({})", text(&identity.command), text(library)),
                None => text(&identity.command),
            },
            since,
            text(&identity.ports.join(" ")),
        ]);
    }
    for pid in silent {
        table.row([pid.to_string(), "(does not answer)".to_owned()]);
    }
    output::print(&format!("{table}choose one: wirelane stats PID\n"))
}
