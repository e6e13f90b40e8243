//! `wirelane count`: counts packets of ports and files by header fields, in one pass.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use wirelane::port::{Backend, Spec};
use wirelane::session::count::{By, CountConfig, Counting, Counts};
use wirelane::session::monitor::Reading;
use wirelane::{Error, Result};

use crate::args;
use crate::habits::{self, HabitArgs};
use crate::live::{
    Doing, InputArgs, LiveLines, LiveScreen, OpenedSession, SessionArgs, StartedCommand,
    VerboseArgs, run_live,
};
use crate::output::counts::{RowOrder, TableView};
use crate::output::progress::ReceiveProgress;
use crate::output::summary::Summary;
use crate::output::{self, screen};

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
    by: Vec<CountKey>,
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
    sort: RowOrder,
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
    input: InputArgs,
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

/// The values of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CountKey {
    /// Network and transport protocol: ip/tcp, ip6/udp, arp
    Proto,
    /// IP addresses: the packets that each sent and received
    Host,
    /// Ports of TCP, UDP, SCTP, DCCP: the packets that each sent and received
    Port,
    /// The queue, or the interface of a file, that packets came by
    Queue,
    /// VLAN tags: outermost, innermost
    Vlan,
    /// Who talks to whom, both directions together
    Flow,
}

impl CountKey {
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

/// Default number of rows of a printed table.
const TOP: usize = 20;

/// Runs the command.
///
/// # Errors
/// The count cannot start, or an error ended it early. The counts so far are printed.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    if args.habits.list_interfaces {
        return habits::list();
    }
    let mut start = StartedCommand::new("count", &args.session, args.verbose.verbose)?;
    let config = args.config()?;
    let netns = &args.session.netns;
    let (specs, filter) = args.habits.split(&args.words, args.read.as_deref(), netns, &is_file)?;
    specs.iter().try_for_each(|spec| check(spec, netns.is_given()))?;
    let mut input = args.input.clone().with_filter(filter.as_deref())?;
    input.only_headers = true;
    let (ports, diversions) = input.open(&specs, &start)?;
    args.habits.check(&ports)?;
    start.privileges.give_away(&ports)?;
    let counting = start.explained(Counting::start(ports, &config))?;
    let opened =
        OpenedSession { doing: Doing::Input("counting on"), diversions, filter: input.filter() };
    run_live(start, counting, opened, &mut CountDisplay(args), |mut outcome, started| {
        let most = args.top(if args.session.json { usize::MAX } else { TOP });
        let tables = views(&mut outcome.tables, args, most);
        let text = (!args.session.json).then(|| {
            let width = screen::width_of_output().unwrap_or(usize::MAX);
            tables.iter().map(|table| table.text(width)).collect::<Vec<_>>().join("\n")
        });
        let summary = Summary::of_count(&outcome, tables, started);
        text.map_or(Ok(()), |text| output::print(&text))?;
        Ok((summary, outcome.errors))
    })
}

impl CountArgs {
    fn config(&self) -> Result<CountConfig> {
        let mut by: Vec<By> = Vec::new();
        for what in &self.by {
            if !by.contains(&what.by()) {
                by.push(what.by());
            }
        }
        Ok(CountConfig::default()
            .by(by)
            .keys(usize::try_from(self.max_rows).unwrap_or(usize::MAX))
            .inner(self.inner)
            .single(self.input.single)
            .placement(self.input.placement(&self.session)?)
            .packets(self.session.count))
    }

    /// How many rows of each table are shown: `--top`, or else `usual`.
    fn top(&self, usual: usize) -> usize {
        match self.top {
            None => usual,
            Some(0) => usize::MAX,
            Some(rows) => rows,
        }
    }
}

/// A terminal shows the largest rows of the first table. SIGUSR1 prints all tables.
struct CountDisplay<'a>(&'a CountArgs);

impl LiveLines<Counting> for CountDisplay<'_> {
    fn screen(&self) -> LiveScreen<'_> {
        LiveScreen::Figures(None)
    }

    fn update(
        &mut self,
        counting: &Counting,
        now: &dyn Fn() -> Reading,
        progress: Option<&mut ReceiveProgress>,
    ) {
        let Some(progress) = progress else { return };
        progress.update_with(now(), |room| {
            // One line for the heading, and one for the omitted rows.
            let rows = self.0.top(TOP).min(room.saturating_sub(2));
            let tables = views(&mut counting.counts(), self.0, rows);
            let Some(first) = tables.first() else { return Vec::new() };
            let text = first.text(screen::size().0.saturating_sub(1));
            text.lines().map(str::to_owned).collect()
        });
    }

    fn report(&mut self, counting: &Counting) {
        for table in views(&mut counting.counts(), self.0, self.0.top(TOP)) {
            let text = table.text(screen::size().0);
            text.lines().for_each(|line| output::line(format_args!("{line}")));
        }
    }
}

/// The counted tables, each with its `most` largest rows.
fn views(tables: &mut [Counts], args: &CountArgs, most: usize) -> Vec<TableView> {
    tables.iter_mut().map(|counts| TableView::new(counts, args.sort, most)).collect()
}

/// Whether a word is `-` or the path of a file or directory. [`check`] refuses directories.
fn is_file(word: &OsStr) -> bool {
    word == "-" || Path::new(word).exists()
}

/// Refuses a port name that was probably meant as a path. `elsewhere`: the interfaces belong to
/// another namespace.
///
/// # Errors
/// It is a directory, or there is neither a file nor an interface of this name.
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
