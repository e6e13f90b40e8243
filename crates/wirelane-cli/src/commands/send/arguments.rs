//! Arguments of `wirelane send`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use wirelane::internal::frame::Protocols;
use wirelane::{Error, Result};
use wirelane_gen::{Rate, Recipe, Sizes};
use wirelane_send::{Pacing, SendEngine};

use super::replay::ReplayArgs;
use super::rewrite::RewriteArgs;
use crate::args;
use crate::habits::InterfaceArgs;
use crate::live::{SessionArgs, VerboseArgs};

/// Send packets: replay capture files, or generate what you describe, each packet at its time.
///
/// Capture files are sent with their own gaps, one after the other. --packet describes packets in
/// one line, --flows in a file of the Open Traffic Generator model. A bare port such as eth0 is the
/// best of AF_XDP and AF_PACKET that works; nothing is received, so nothing is taken from the host.
///
/// Sending ends with a summary after the last packet, or on ^C: what was sent, the requested rate
/// and the achieved one, and how exactly packets left. A rate that cannot be reached is no error.
/// SIGUSR1 prints the counters so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct SendArgs {
    /// The port, such as eth0, xdp:eth0@0-3, packet:eth0, tap:tap0, sim:4 or file:out.pcapng
    #[arg(value_name = "PORT", required_unless_present_any = ["print", "interfaces"])]
    pub(super) target: Option<OsString>,
    /// Capture files to send, one after the other; - is standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Packets to generate, as in 'ipv4 dst=10.0.0.0/24 udp dst=53'; several --packet take turns
    #[arg(long, value_name = "PACKET", conflicts_with = "files")]
    pub(super) packet: Vec<Recipe>,
    /// Generate the flows of a file (YAML or JSON, Open Traffic Generator model)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "packet"])]
    pub(super) flows: Option<PathBuf>,
    /// Only the flows of the port NAME of the file; needed if its flows are of several ports
    #[arg(long, value_name = "NAME", requires = "flows")]
    pub(super) from: Option<String>,
    /// Sizes of generated packets, without frame check sequence: 60, 60,594,1514, 60-1514,
    /// 60-1514@random, 60=7,590=4,1514=1 or imix
    #[arg(long, value_name = "SIZES", requires = "packet")]
    pub(super) size: Option<Sizes>,
    /// Print the first N packets in hex, and as tshark reads them if it is there, and send nothing.
    /// Needs no port
    #[arg(long, value_name = "N", value_parser = args::count)]
    pub(super) print: Option<u64>,
    #[command(flatten)]
    pub(super) pace: PaceArgs,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
    #[command(flatten)]
    pub(super) rewrite: RewriteArgs,
    /// Who sends: auto, sockets or kernel
    #[arg(long, value_name = "ENGINE", default_value = "auto", help_heading = "Machine")]
    pub(super) engine: SendEngine,
    /// Segment TCP and UDP packets longer than the MTU: tcp, udp or both (on)
    #[arg(long, value_name = "PROTOCOLS", num_args = 0..=1, default_missing_value = "on",
          require_equals = true, help_heading = "Machine")]
    pub(super) gso: Option<Protocols>,
    /// Send through an interface even if your own SSH connection comes through it
    #[arg(long, help_heading = "Machine")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) verbose: VerboseArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

impl SendArgs {
    /// A copy of the arguments in which the port of -i is the target, so that all words are files.
    ///
    /// # Errors
    /// There are several ports, or files beside described packets.
    pub(super) fn with_port_in_place(&self) -> Result<Self> {
        let mut ports = self.interface.before([]).into_iter();
        let mut args = self.clone();
        let Some(port) = ports.next() else { return Ok(args) };
        if ports.next().is_some() {
            return Err(Error::usage("-i", "packets leave through one port").help("name one"));
        }
        args.files.splice(..0, args.target.replace(port).map(PathBuf::from));
        let describes = !args.packet.is_empty() || args.flows.is_some();
        if describes && !args.files.is_empty() {
            let cause = "files are named, and packets are described";
            return Err(Error::usage("what to send", cause).help("leave one of them out"));
        }
        Ok(args)
    }
}

/// When packets leave.
#[derive(Args, Clone, Debug)]
pub(super) struct PaceArgs {
    /// A rate, evenly: 5Mpps, 6Gbit, 80% (of the link) or max [default for generated packets:
    /// 1kpps]
    #[arg(long, value_name = "RATE", help_heading = "Pace")]
    pub(super) rate: Option<Rate>,
    /// As fast as possible
    #[arg(long, conflicts_with = "rate", help_heading = "Pace")]
    pub(super) top_speed: bool,
    /// Most packets that leave back to back when several are due, 1 to 64
    #[arg(long, value_name = "N", value_parser = burst, default_value = "32", help_heading = "Pace")]
    pub(super) burst: usize,
}

fn burst(text: &str) -> Result<usize, String> {
    let most = Pacing::LARGEST_BURST;
    let burst = text.parse().ok().filter(|burst| (1..=most).contains(burst));
    burst.ok_or_else(|| format!("write a number from 1 to {most}"))
}
