//! `wirelane count`: packets of ports and files by what their headers say, in one pass.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use wirelane::port::{Backend, Spec};
use wirelane::session::Session;
use wirelane::session::count::{By, CountConfig, Counting, Counts};
use wirelane::{Error, Result, clock};

use crate::args;
use crate::control::{ControlServer, Served, Subject};
use crate::habits::{self, HabitArgs};
use crate::look::LookArgs;
use crate::output::counts::{Order, TableView};
use crate::output::summary::Summary;
use crate::output::{self, headline, screen};
use crate::session::{self, Moment, Privileges, SessionArgs, VerboseArgs};

/// Count packets of ports or capture files by protocol, host, port, queue, VLAN or flow.
///
/// One pass counts by everything that is asked for. Each queue has its own thread and its own
/// tables, which are joined at the end. The tables are printed on standard output, the largest rows
/// first. On a port, a terminal shows the largest rows of the first table meanwhile, SIGUSR1 prints
/// all tables so far on standard error, and ^C ends the count. The outermost IP header counts, and
/// with --inner what travels in tunnels.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CountArgs {
    /// The ports or capture files to count packets of, such as eth0, trace.pcapng.gz or
    /// sim:4?rate=1Mpps, `any` for every interface, or `-` for standard input; then a filter, as in
    /// `wirelane count trace.pcap tcp port 443`
    #[arg(value_name = "PORT|FILE")]
    words: Vec<OsString>,
    /// By what to count; several with commas, as in proto,host
    #[arg(
        short = 'b',
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        default_value = "proto",
        help_heading = "Output"
    )]
    by: Vec<What>,
    /// Print the N largest rows of each table; 0 prints all [default: 20; with --json all]
    #[arg(short = 'n', long, value_name = "N", help_heading = "Output")]
    top: Option<usize>,
    /// What makes a row large
    #[arg(
        long,
        value_name = "packets|bytes",
        value_enum,
        default_value = "packets",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    sort: Order,
    /// Count what tunnels carry (VXLAN, Geneve, GRE, IP in IP): hosts, ports, protocols and flows
    /// are those of the innermost IP header. Other packets count as without it
    #[arg(long)]
    inner: bool,
    /// How many rows each table has room for (k, M: units of 1000), in at most 200 bytes each.
    /// Packets whose row finds no room are counted together
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "1M", help_heading = "Limits")]
    max_rows: u64,
    /// Read packets from FILE, whatever its name
    #[arg(short = 'r', long, value_name = "FILE")]
    read: Option<PathBuf>,
    #[command(flatten)]
    habits: HabitArgs,
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    verbose: VerboseArgs,
    #[command(flatten)]
    session: SessionArgs,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane count trace.pcapng --by proto,host
  wirelane count trace.pcapng --by flow --top 5 --sort bytes udp
  wirelane count eth0 --by port --duration 10s
  wirelane capture eth0 -w - | wirelane count - --by queue --json";

/// What `--by` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Network and transport protocol: ip/tcp, ip6/udp, arp
    Proto,
    /// IP addresses: what each sent and received
    Host,
    /// Ports of TCP, UDP, SCTP, DCCP: what each sent and received
    Port,
    /// The queue, or the interface of a file, that packets came by
    Queue,
    /// VLAN tags: outermost, innermost
    Vlan,
    /// Who talks to whom, both directions together
    Flow,
}

impl What {
    fn by(self) -> By {
        match self {
            Self::Proto => By::Proto,
            Self::Host => By::Host,
            Self::Port => By::Port,
            Self::Queue => By::Queue,
            Self::Vlan => By::Vlan,
            Self::Flow => By::Flow,
        }
    }
}

/// Rows of a table for people, unless told.
const TOP: usize = 20;

/// Runs the command.
///
/// # Errors
/// Everything that keeps the count from starting, or the first thing that ended it early; what was
/// counted before is printed.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    if args.habits.list_interfaces {
        return habits::list();
    }
    let halt = session::begin(&args.session)?;
    let config = args.config()?;
    let netns = &args.session.netns;
    let (specs, filter) = args.habits.split(&args.words, args.read.as_deref(), netns, &is_file)?;
    specs.iter().try_for_each(|spec| check(spec, netns.is_given()))?;
    let mut privileges = Privileges::new(&args.session)?;
    let mut look = args.look.clone().with_filter(filter.as_deref())?;
    look.tells_apart = true;
    look.only_headers = true;
    let open = |spec| look.open_spec(spec, &args.session, &halt);
    let opened = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let (ports, tolls): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    ports.iter().try_for_each(|port| args.habits.check(port.info()))?;
    privileges.give_away(&ports)?;
    let counting = Counting::start(ports, &config).map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        counting
            .ports()
            .for_each(|port| session::announce_input("counting on", port, args.verbose.verbose));
    }
    let control = ControlServer::start(Subject {
        command: "count",
        started,
        monitor: counting.monitor(),
        ports: Served::all(counting.controls(), tolls, look.filter()),
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    watch(args, &counting, &halt, started);
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let mut outcome = counting.join();
    let most = args.top(if args.session.json { usize::MAX } else { TOP });
    let tables = views(&mut outcome.tables, args, most);
    let elapsed = started.elapsed();
    if !args.session.json {
        let width = screen::width_of_output().unwrap_or(usize::MAX);
        let texts: Vec<_> = tables.iter().map(|table| table.text(width)).collect();
        output::print(&texts.join("\n"))?;
    }
    let summary = Summary::of_count(&outcome, tables, elapsed, clock::process_cpu());
    session::conclude(&summary, &args.session, outcome.errors, &privileges, args.verbose.verbose)
}

impl CountArgs {
    fn config(&self) -> Result<CountConfig> {
        let mut by: Vec<By> = Vec::new();
        for what in &self.by {
            if !by.contains(&what.by()) {
                by.push(what.by());
            }
        }
        Ok(CountConfig {
            by,
            keys: usize::try_from(self.max_rows).unwrap_or(usize::MAX),
            inner: self.inner,
            single: self.look.single,
            placement: self.look.placement(&self.session)?,
            packets: self.session.count,
        })
    }

    /// How many rows of each table are shown, unless it is said: `usual`.
    fn top(&self, usual: usize) -> usize {
        match self.top {
            None => usual,
            Some(0) => usize::MAX,
            Some(rows) => rows,
        }
    }
}

/// Waits for the end. Meanwhile a terminal shows the largest rows of the first table.
fn watch(
    args: &CountArgs,
    counting: &Session<Counting>,
    halt: &wirelane::halt::Halt,
    started: Instant,
) {
    let monitor = counting.monitor();
    let mut progress = if args.session.quiet { None } else { session::progress(&monitor, started) };
    let wait = |pause| counting.wait(pause);
    let pace = progress.as_ref().map_or(session::PAUSE, |_| session::FRAME);
    session::attend(wait, &args.session, (halt, pace), started, |moment| {
        match (moment, &mut progress) {
            (Moment::Asked, _) => {
                headline::print_so_far(monitor.read(), started.elapsed().as_secs_f64());
                for table in views(&mut counting.counts(), args, args.top(TOP)) {
                    let text = table.text(screen::size().0);
                    text.lines().for_each(|line| output::line(format_args!("{line}")));
                }
            }
            (Moment::Passed, Some(progress)) => progress.update_with(monitor.read(), |room| {
                // A line for the head, and one for the omitted rows.
                let rows = args.top(TOP).min(room.saturating_sub(2));
                let tables = views(&mut counting.counts(), args, rows);
                let Some(first) = tables.first() else { return Vec::new() };
                let text = first.text(screen::size().0.saturating_sub(1));
                text.lines().map(str::to_owned).collect()
            }),
            (Moment::Passed, None) => {}
        }
    });
    if let Some(progress) = progress {
        progress.finish();
    }
}

/// What was counted: so many rows, the largest first.
fn views(tables: &mut [Counts], args: &CountArgs, most: usize) -> Vec<TableView> {
    tables.iter_mut().map(|counts| TableView::new(counts, args.sort, most)).collect()
}

/// Whether a word names a file to read, or a directory, which is none.
fn is_file(word: &OsStr) -> bool {
    word == "-" || Path::new(word).exists()
}

/// A word that is no port was perhaps to be a file. `elsewhere`: interfaces are those of another
/// namespace.
///
/// # Errors
/// It is a directory, or there is nothing of this name.
fn check(spec: &Spec, elsewhere: bool) -> Result<()> {
    let name = spec.name_text();
    if spec.backend == Some(Backend::File) && Path::new(&spec.name).is_dir() {
        return Err(Error::failed(name.to_owned(), "it is a directory").help("name a file in it"));
    }
    let may_be_file = spec.backend.is_none() && (!elsewhere || name.contains(['/', '.']));
    if may_be_file && name != "any" && !wirelane_os::iface::exists(name).unwrap_or(true) {
        let cause = "there is neither a file nor an interface of this name";
        let help = "check the path; `wirelane queues` lists the interfaces";
        return Err(Error::failed(name.to_owned(), cause).help(help));
    }
    Ok(())
}
