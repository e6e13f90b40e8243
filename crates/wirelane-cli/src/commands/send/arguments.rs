//! Arguments of `wirelane send`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::port::Protocols;
use wirelane_gen::rewrite::{Prefix, Rule, TtlRule, VlanRule};
use wirelane_gen::{Rate, Recipe, Sizes};
use wirelane_send::replay::{Cut, Speed};
use wirelane_send::{Engine, Pacing};

use crate::args;
use crate::session::SessionArgs;

/// Send packets: replay capture files, or generate what you describe, each packet at its time.
///
/// Capture files are sent with their own gaps, one after the other. --packet describes packets in one
/// line, --flows in a file of the Open Traffic Generator model. A bare port such as eth0 is the best of
/// AF_XDP and AF_PACKET that works; nothing is received, so nothing is taken from the host.
///
/// Sending ends with a summary after the last packet, or on ^C: what was sent, how fast it was to be and
/// was, and how exactly packets left. A rate that cannot be had is no error: the summary says what was.
/// SIGUSR1 prints the counters so far.
#[derive(Args, Clone, Debug)]
pub(crate) struct SendArgs {
    /// The port, such as eth0, xdp:eth0@0-3, packet:eth0, tap:tap0, sim:4 or file:out.pcapng
    #[arg(value_name = "PORT", required_unless_present = "print")]
    pub(super) port: Option<OsString>,
    /// Capture files to send, one after the other; - is standard input
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Packets to generate, as in 'ipv4 dst=10.0.0.0/24 udp dst=53'; several --packet take turns
    #[arg(long, value_name = "PACKET", value_parser = recipe, conflicts_with = "files")]
    pub(super) packet: Vec<Recipe>,
    /// Generate the flows of a file (YAML or JSON, Open Traffic Generator model)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "packet"])]
    pub(super) flows: Option<PathBuf>,
    /// Only the flows of this port of the file; needed if they are of several
    #[arg(long, value_name = "NAME", requires = "flows")]
    pub(super) from: Option<String>,
    /// Sizes of generated packets, without frame check sequence: 60, 60,594,1514, 60-1514,
    /// 60-1514@random, 60=7,590=4,1514=1 or imix
    #[arg(long, value_name = "SIZES", value_parser = sizes, requires = "packet")]
    pub(super) size: Option<Sizes>,
    /// Print the first N packets in hex, and as tshark reads them if it is there, and send nothing. Needs
    /// no port
    #[arg(long, value_name = "N", value_parser = args::count)]
    pub(super) print: Option<u64>,
    #[command(flatten)]
    pub(super) pace: PaceArgs,
    #[command(flatten)]
    pub(super) replay: ReplayArgs,
    #[command(flatten)]
    pub(super) rewrite: RewriteArgs,
    /// Who sends: auto, sockets or kernel
    #[arg(long, value_name = "ENGINE", value_parser = engine, default_value = "auto", help_heading = "Machine")]
    pub(super) engine: Engine,
    /// Segment TCP and UDP packets longer than the MTU: tcp, udp or both (on)
    #[arg(long, value_name = "PROTOCOLS", num_args = 0..=1, default_missing_value = "on",
          require_equals = true, value_parser = args::protocols, help_heading = "Machine")]
    pub(super) gso: Option<Protocols>,
    /// Send through an interface even if your own SSH connection comes through it
    #[arg(long, help_heading = "Machine")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

/// When packets leave.
#[derive(Args, Clone, Debug)]
pub(super) struct PaceArgs {
    /// A rate, evenly: 5Mpps, 6Gbit, 80% (of the link) or max [default for generated packets: 1kpps]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Pace")]
    pub(super) rate: Option<Rate>,
    /// The gaps of the files, so many times as fast: 2x, 0.5x, 3/2x
    #[arg(long, value_name = "SPEED", value_parser = speed, conflicts_with = "rate", help_heading = "Pace")]
    pub(super) speed: Option<Speed>,
    /// As fast as possible
    #[arg(long, conflicts_with_all = ["rate", "speed"], help_heading = "Pace")]
    pub(super) top_speed: bool,
    /// Most packets that leave back to back when several are due, 1 to 64
    #[arg(long, value_name = "N", value_parser = burst, default_value = "32", help_heading = "Pace")]
    pub(super) burst: usize,
}

/// How files are replayed.
#[derive(Args, Clone, Debug)]
pub(super) struct ReplayArgs {
    /// Send the files N times; 0 for without end
    #[arg(long = "loop", value_name = "N", requires = "files", help_heading = "Replay")]
    pub(super) loops: Option<u64>,
    /// From the last packet of a loop to the first of the next [default: the mean gap of the loop]
    #[arg(long, value_name = "TIME", value_parser = args::duration, requires = "loops", help_heading = "Replay")]
    pub(super) loop_gap: Option<Duration>,
    /// No gap of a file counts for more than this
    #[arg(long, value_name = "TIME", value_parser = args::duration, requires = "files", help_heading = "Replay")]
    pub(super) max_gap: Option<Duration>,
    /// What becomes of packets that a snap length has cut: pad (with zeros), skip or send (as they are)
    #[arg(long, value_name = "WHAT", value_parser = cut, default_value = "pad", help_heading = "Replay")]
    pub(super) cut: Cut,
    /// Compute all checksums anew
    #[arg(long, requires = "files", help_heading = "Replay")]
    pub(super) fix_checksums: bool,
    /// Load files of at most so many bytes; longer ones are read while they are sent
    #[arg(long, value_name = "SIZE", value_parser = args::size, requires = "files", help_heading = "Replay")]
    pub(super) load: Option<u64>,
}

/// What changes on the way. Checksums are updated.
#[derive(Args, Clone, Debug)]
pub(super) struct RewriteArgs {
    /// Replace MAC addresses: [src:|dst:]MAC=MAC, or [src:|dst:]=MAC for all
    #[arg(long, value_name = "MAP", value_parser = Rule::map_mac, requires = "files", help_heading = "Rewriting")]
    map_mac: Vec<Rule>,
    /// The outer VLAN tag: push:ID, push:ID/PRIORITY, pop or set:ID
    #[arg(long, value_name = "TAG", value_parser = vlan, requires = "files", help_heading = "Rewriting")]
    vlan: Option<VlanRule>,
    /// Replace IP prefixes: [src:|dst:]10.0.0.0/8=192.0.0.0/8
    #[arg(long, value_name = "MAP", value_parser = Rule::map_ip, requires = "files", help_heading = "Rewriting")]
    map_ip: Vec<Rule>,
    /// Give every IP address a pseudonym that keeps common prefixes; another seed, other addresses
    #[arg(long, value_name = "SEED", requires = "files", help_heading = "Rewriting")]
    pseudonyms: Option<u64>,
    /// Replace ports: [src:|dst:]80=8080, =8080 for all, or +1000
    #[arg(long, value_name = "MAP", value_parser = Rule::port, requires = "files", help_heading = "Rewriting")]
    map_port: Vec<Rule>,
    /// TTL or hop limit: 64, +1 or -1
    #[arg(long, value_name = "TTL", value_parser = ttl, allow_hyphen_values = true, requires = "files", help_heading = "Rewriting")]
    ttl: Option<TtlRule>,
    /// Other IP addresses in every loop, so that no flow ever comes again; those of a prefix stay in it
    #[arg(long, value_name = "PREFIX", num_args = 0.., require_equals = true, value_delimiter = ',',
          value_parser = prefix, requires = "files", help_heading = "Rewriting")]
    unique: Option<Vec<Prefix>>,
}

impl RewriteArgs {
    /// The rules.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let vlan = self.vlan.map(Rule::Vlan);
        let pseudonyms = self.pseudonyms.map(|seed| Rule::Pseudonyms { seed });
        let ttl = self.ttl.map(Rule::Ttl);
        let within = self.unique.clone();
        let unique = within.map(|within| Rule::Unique { seed: 0, within });
        let several = [&self.map_mac, &self.map_ip, &self.map_port].into_iter().flatten().cloned();
        several.chain([vlan, pseudonyms, ttl, unique].into_iter().flatten()).collect()
    }
}

/// The message of clap quotes the value itself.
fn told<T>(parsed: Result<T, impl ToString>) -> Result<T, String> {
    parsed.map_err(|error| error.to_string())
}

fn recipe(text: &str) -> Result<Recipe, String> {
    told(text.parse::<Recipe>())
}

fn sizes(text: &str) -> Result<Sizes, String> {
    told(text.parse::<Sizes>())
}

fn rate(text: &str) -> Result<Rate, String> {
    told(text.parse::<Rate>())
}

fn speed(text: &str) -> Result<Speed, String> {
    told(text.parse::<Speed>())
}

fn cut(text: &str) -> Result<Cut, String> {
    told(text.parse::<Cut>())
}

fn engine(text: &str) -> Result<Engine, String> {
    text.parse()
}

fn vlan(text: &str) -> Result<VlanRule, String> {
    text.parse()
}

fn ttl(text: &str) -> Result<TtlRule, String> {
    text.parse()
}

fn prefix(text: &str) -> Result<Prefix, String> {
    text.parse()
}

fn burst(text: &str) -> Result<usize, String> {
    let most = Pacing::LARGEST_BURST;
    let burst = text.parse().ok().filter(|burst| (1..=most).contains(burst));
    burst.ok_or_else(|| format!("write a number from 1 to {most}"))
}
