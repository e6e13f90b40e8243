//! `wirelane capture`: every selected queue in parallel, counted or written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use wirelane::halt::Halt;
use wirelane::pcap::{Rotation, WriterOptions};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};
use wirelane::{Error, Result, clock};

use crate::args;
use crate::control::{ControlServer, Served, Subject};
use crate::look::LookArgs;
use crate::output::summary::Summary;
use crate::session::{self, Privileges, SessionArgs};

/// Capture packets from all selected queues in parallel.
///
/// Each queue has its own socket, ring and thread. Without -w, packets are only counted. With -w they go
/// to one pcapng file in order of time, in which each queue is an interface; --split writes one file per
/// queue. ^C ends the capture and prints a summary; SIGUSR1 prints the counters so far.
///
/// The host still receives every packet. The exception is an xdp: port, which takes packets away from the
/// host and first prints which ones. xdp:eth0?rx_hash=on&rx_timestamps=on stores the hash and the time that
/// the driver reports in a comment of each packet.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// The port to capture from, such as eth0, packet:eth0@0-3 or sim:4?rate=1Mpps
    #[arg(value_name = "PORT")]
    port: OsString,
    /// Write packets to FILE; - is standard output. The suffix chooses the format: .pcap, .pcapng, and
    /// .gz, .lz4 or .zst to compress
    #[arg(short = 'w', long = "write", value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the default)
    /// to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not compress
    #[arg(long, value_name = "HOW", value_parser = args::compress, requires = "write", help_heading = "Output")]
    compress: Option<args::Compress>,
    /// Write one file per queue (NAME.rx0.pcapng, …); `wirelane merge` joins them
    #[arg(long, requires = "write", help_heading = "Output")]
    split: bool,
    /// Start a new file before the current one exceeds SIZE bytes (k, M, G: units of 1024)
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = args::size, requires = "write", help_heading = "Output")]
    rotate_size: Option<u64>,
    /// Start a new file every TIME (10s, 2m, 1h)
    #[arg(short = 'G', long, value_name = "TIME", value_parser = args::duration, requires = "write", help_heading = "Output")]
    rotate_time: Option<Duration>,
    /// Start a new file after N packets
    #[arg(long, value_name = "N", value_parser = args::count, requires = "write", help_heading = "Output")]
    rotate_packets: Option<u64>,
    /// When rotating, keep only the newest N files
    #[arg(short = 'W', long, value_name = "N", requires = "write", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Output")]
    rotate_files: Option<u32>,
    /// Write the counters into the file this often, and at the end
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "10s", help_heading = "Output")]
    statistics_every: Duration,
    /// Buffer at most SIZE bytes between the receiving threads and the writer
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "256M", help_heading = "Machine")]
    buffer: u64,
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
///
/// # Errors
/// Everything that keeps the capture from starting, or the first thing that ended it early; what
/// was captured before is in the file.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    if args.session.json && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("--json", "standard output already takes the packets of -w -")
            .help("write the packets to a file"));
    }
    let halt = session::begin(&args.session)?;
    let config = config(args, &halt)?;
    let mut privileges = Privileges::new(&args.session)?;
    let (port, toll) = args.look.open(&args.port, &args.session, &halt)?;
    privileges.give_away()?;
    let capture = Capture::start(port, &config).map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        session::announce("capturing on", capture.info());
    }
    let control = ControlServer::start(Subject {
        command: "capture",
        started,
        monitor: capture.monitor(),
        ports: vec![Served::new(capture.control(), args.look.filter()).guarded_by(toll)],
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    let wait = |pause| capture.wait(pause);
    session::watch(&capture.monitor(), wait, &args.session, &halt, started);
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let outcome = capture.join();
    let path = args.write.as_deref();
    let summary = Summary::of_capture(&outcome, path, started.elapsed(), clock::process_cpu());
    session::conclude(&summary, &args.session, outcome.errors, &privileges)
}

fn config(args: &CaptureArgs, halt: &Halt) -> Result<CaptureConfig> {
    let rotation = Rotation {
        max_bytes: args.rotate_size,
        max_age: args.rotate_time.map(|time| time.as_nanos() as u64),
        max_packets: args.rotate_packets,
        max_files: args.rotate_files,
    };
    if rotation.max_files.is_some() && !rotation.is_active() {
        return Err(
            Error::usage("-W", "it needs a rotation").help("add -C, -G or --rotate-packets")
        );
    }
    if rotation.is_active() && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("-w -", "standard output cannot be rotated")
            .help("give a file name, or leave -C, -G and --rotate-packets out"));
    }
    let output = |path: &PathBuf| -> Result<OutputConfig> {
        let options = args::writer(path, args.compress)?;
        let options = WriterOptions { rotation, halt: halt.clone(), ..options };
        Ok(OutputConfig { path: path.clone(), options, split: args.split })
    };
    let output = args.write.as_ref().map(output).transpose()?;
    Ok(CaptureConfig {
        output,
        single: args.look.single,
        placement: args.look.placement(&args.session)?,
        packets: args.session.count,
        buffer: usize::try_from(args.buffer).unwrap_or(usize::MAX),
        statistics_every: args.statistics_every,
    })
}
