//! `wirelane record`: every selected queue in parallel into a store on disk.

mod teller;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::pcap::Access;
use wirelane::port::{Backend, Spec};
use wirelane::{Error, Result};
use wirelane_os::memory;
use wirelane_store::record::{RecordConfig, Recording, TriggerConfig};
use wirelane_store::{Limits, MendReport, Mended, StoreOptions};

use self::teller::RecordPrinter;
use crate::access::AccessArgs;
use crate::args;
use crate::habits::InterfaceArgs;
use crate::live::{
    Doing, InputArgs, OpenedSession, SessionArgs, StartedCommand, VerboseArgs, run_live,
};
use crate::output::store::StoreView;
use crate::output::summary::Summary;
use crate::output::{self, printable};
use crate::provenance::Provenance;
use crate::store_check::{self, CheckOutput, Repair};
use crate::stores;

/// The time kept before and after a trigger, if only the other one is given.
const BEFORE: Duration = Duration::from_secs(30);
const AFTER: Duration = Duration::from_secs(120);

/// Record packets from all selected queues to disk, for days.
///
/// DIR becomes a store: pcapng files of a fixed size (segments) that every tool reads, and an index
/// beside each, with which `wirelane extract` finds packets in a second. Each queue has its own
/// thread and its own segments, written past the page cache. Before the disk is full, the oldest
/// segments are deleted. ^C ends the recording and prints a summary; SIGUSR1 prints the counters so
/// far. A disk that is full or fails does not end it: packets are counted as dropped until there is
/// room.
///
/// With --trigger, --before or --after, packets stay in memory, and are written only around
/// triggers: a packet that matches, `wirelane trigger`, or SIGUSR2.
#[derive(Args, Clone, Debug)]
pub(crate) struct RecordArgs {
    /// The port to record from, such as eth0, packet:eth0@0-3 or sim:4?rate=1Mpps
    #[arg(value_name = "PORT", required_unless_present_any = ["check", "interfaces"])]
    port: Option<OsString>,
    /// The directory of the store; made if it does not exist
    #[arg(value_name = "DIR", required_unless_present_any = ["check", "interfaces"])]
    directory: Option<PathBuf>,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Record nothing: read the whole store in DIR, name what is damaged, and mend indexes and what
    /// a crash left. --json prints one object (schema wirelane.check/1)
    #[arg(long, value_name = "DIR", conflicts_with_all = ["port", "directory", "interfaces"], help_heading = "Store")]
    check: Option<PathBuf>,
    /// Delete the oldest segments before the store exceeds SIZE bytes (k, M, G, T: units of 1024)
    #[arg(long, value_name = "SIZE", value_parser = args::size, help_heading = "Store")]
    max_bytes: Option<u64>,
    /// Delete the oldest segments to leave this share of the file system free, such as 10%. With
    /// 0%, nothing is deleted for it
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "5%", help_heading = "Store")]
    min_free: f64,
    /// Delete segments whose newest packet is older than TIME (12h, 7d)
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Store")]
    max_age: Option<Duration>,
    /// Bytes of a segment. Where the store has no room for two of each queue, they are shorter,
    /// down to 4M
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "256M", help_heading = "Store")]
    segment: u64,
    /// Compress with lz4 or zstd, as in zstd:3,threads=2: a level, and how many threads compress
    /// for each queue. `lz4 -dc` and `zstd -dc` read the segments
    #[arg(long, value_name = "HOW", value_parser = args::compress, help_heading = "Store")]
    compress: Option<args::Compress>,
    /// Write packets to the disk after at most TIME: a crash may lose the packets of that time
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "1s", help_heading = "Store")]
    flush: Duration,
    #[command(flatten)]
    comment: args::CommentArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Write the counters into the segments every TIME, at the start of each, and at the end
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "10s", help_heading = "Store")]
    statistics_every: Duration,
    /// Write only packets around those that match EXPR, a tcpdump expression
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true, help_heading = "Triggers")]
    trigger: Option<String>,
    /// Write the packets of TIME before a trigger, which wait in --buffer [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Triggers")]
    before: Option<Duration>,
    /// Write the packets of TIME after a trigger [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Triggers")]
    after: Option<Duration>,
    /// Memory of each queue in which packets wait for the disk, or for a trigger
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "64M", help_heading = "Machine")]
    buffer: u64,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    verbose: VerboseArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
///
/// # Errors
/// The recording cannot start, an error ended it early, or the disk fails at the end. The store has
/// the packets recorded before.
pub(crate) fn run(args: &RecordArgs) -> Result<()> {
    if let Some(path) = &args.check {
        let output =
            CheckOutput { command: "record", json: args.session.json, quiet: args.session.quiet };
        return store_check::run(&stores::open(std::slice::from_ref(path))?, Repair::All, output);
    }
    let mut start = StartedCommand::new("record", &args.session, args.verbose.verbose)?;
    let access = args.access.access()?;
    start.privileges.give_files_to(access.group);
    let (spec, directory) = args.session.netns.inside(|| args.place())?;
    let mut config = config(args, access, spec.backend != Some(Backend::File), &start.halt)?;
    let (mut ports, diversions) = args.input.open(&[spec], &start)?;
    // Both allow registered memory for io_uring. One of them suffices.
    memory::lift_lock_limit();
    let queues = ports.first().map_or(1, |port| port.info().queues.len().max(1));
    config.store.prepare(if args.input.single { 1 } else { queues });
    start.privileges.give_away(&ports)?;
    let Some(port) = ports.pop() else { return Ok(()) };
    let recording = start.explained(Recording::start(port, &directory, &config))?;
    if !args.session.quiet {
        tell_mended(recording.mended());
    }
    let opened =
        OpenedSession { doing: Doing::Input("recording"), diversions, filter: args.input.filter() };
    let mut teller = RecordPrinter::new(StoreView::new(&recording, &directory), args.session.quiet);
    run_live(start, recording, opened, &mut teller, |outcome, started| {
        Ok((Summary::of_record(&outcome, &directory, started), outcome.errors))
    })
}

impl RecordArgs {
    /// The port to record from, and the directory of the store.
    ///
    /// # Errors
    /// There is not exactly one of each.
    fn place(&self) -> Result<(Spec, PathBuf)> {
        let directory = self.directory.as_ref().map(|path| path.clone().into_os_string());
        match self.interface.before(self.port.iter().chain(&directory)).as_slice() {
            [port, directory] => Ok((Spec::try_from(port.as_os_str())?, directory.into())),
            _ => Err(Error::usage("record", "it takes one port and one directory")
                .help("write `wirelane record PORT DIR`; `any` is all interfaces")),
        }
    }
}

/// Prints repairs of a store after a killed recording.
fn tell_mended(report: &MendReport) {
    for Mended { path, what } in &report.mended {
        let path = printable(&path.display().to_string());
        output::note(format_args!("{path}: {}", printable(what)));
    }
    report.failed.iter().for_each(|text| output::note(printable(text)));
}

fn config(args: &RecordArgs, access: Access, is_live: bool, halt: &Halt) -> Result<RecordConfig> {
    let buffer = args::address_space("--buffer", Some(args.buffer))?.unwrap_or(usize::MAX);
    let limits = Limits::default()
        .max_bytes(args.max_bytes)
        .min_free(Some(args.min_free).filter(|share| *share > 0.0))
        .max_age(args.max_age);
    let mut store = StoreOptions::default()
        .segment_bytes(args.segment)
        .compression(args.compress.and_then(|compress| compress.options()))
        .limits(limits)
        .buffer(buffer)
        .flush_every(args.flush)
        .access(access);
    args.comment.add_to(&mut store.section);
    let mask = args.input.mask();
    Provenance { filter: args.input.filter(), mask: &mask, is_live }.describe(&mut store.section);
    let waits = args.trigger.is_some() || args.before.is_some() || args.after.is_some();
    let trigger = waits.then(|| -> Result<_> {
        Ok(TriggerConfig::default()
            .filter(args.trigger.as_deref().map(str::parse::<Filter>).transpose()?)
            .before(args.before.unwrap_or(BEFORE))
            .after(args.after.unwrap_or(AFTER)))
    });
    Ok(RecordConfig::default()
        .store(store)
        .trigger(trigger.transpose()?)
        .single(args.input.single)
        .placement(args.input.placement(&args.session)?)
        .packets(args.session.count)
        .statistics_every(args.statistics_every)
        .halt(halt.clone()))
}

/// A share of the disk, as in `10%`.
fn share(text: &str) -> Result<f64, String> {
    let wrong = || "write a share below the whole, such as 10% or 2.5%".to_owned();
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| wrong())?;
    (0.0..100.0).contains(&percent).then_some(percent / 100.0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_below_the_whole() {
        assert_eq!((share("10%"), share("2.5"), share("0%")), (Ok(0.1), Ok(0.025), Ok(0.0)));
        for wrong in ["", "%", "100%", "-1%", "NaN", "inf%", "10%%", "ten"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
